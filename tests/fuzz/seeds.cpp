// Tries the fuzzer's seeds (fuzz.cpp), in place of libFuzzer. They may be in no order.
#include "tools/exercises/files.hpp"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

extern "C" int LLVMFuzzerInitialize(int*, char***);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t*, std::size_t);

int main() {
  LLVMFuzzerInitialize(nullptr, nullptr);
  int tried = 0;
  for (const auto& seed : std::filesystem::directory_iterator("seeds")) {
    const std::string bytes = dist::test::content_of(seed.path());
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    ++tried;
  }
  std::printf("%d seeds tried\n", tried);
  return tried > 10 ? 0 : 1;
}
