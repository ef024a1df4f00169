// safetensors: reading an accepted file returns the numbers that its header points to. The file
// can be written again, and a checksum then protects it.
#include "05_ddp_training/checkpoint/safetensors.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <nlohmann/json.hpp>

#include <cstring>
#include <iterator>
#include <vector>

using namespace dist;

namespace {

void check(View bytes, const SafetensorsFile& content, const SafetensorsFile& again) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const View numbers = bytes.subspan(sizeof(length) + length);
  const View header_text = bytes.subspan(sizeof(length), length);
  const auto header = nlohmann::json::parse(header_text.begin(), header_text.end());
  std::size_t total = 0;
  for (const auto& [name, tensor] : content.tensors) {
    const auto same = [&values = tensor](const void* other) {
      return std::memcmp(values.data(), other, values.size_bytes()) == 0;
    };
    const auto begin = header.at(name).at("data_offsets").at(0).get<std::size_t>();
    require(same(&numbers[begin]), "numbers are as stored");
    total += tensor.size_bytes();
    const Tensor* copy = again.find(name);
    require(copy != nullptr && copy->shape() == tensor.shape() && same(copy->data()),
            "tensors are read back bit for bit");
  }
  require(total == numbers.size(), "every byte belongs to one tensor");
  require(again.tensors.size() == content.tensors.size() &&
              again.metadata == content.metadata && again.has_checksum,
          "a file that is read and rewritten has the same content");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  write_file("input", {data, size});
  SafetensorsFile content;
  if (!accepts("input", [&] { content = read_safetensors("input"); })) return 0;
  write_safetensors("again", content.tensors, content.metadata, Stream(Device{}));
  check({data, size}, content, read_safetensors("again"));

  std::ifstream file("again", std::ios::binary);
  std::vector<std::uint8_t> bytes(std::istreambuf_iterator<char>(file), {});
  bytes[bytes.size() - 1 - data[size - 1] % bytes.size()] ^= 1;
  write_file("again", bytes);
  accepts("again",
          [] { require(!read_safetensors("again").has_checksum, "damage is noticed"); });
  return 0;
}
