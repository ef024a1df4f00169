// Does what the host must not do: reads or writes device memory, or frees other memory with
// cudaFree.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  void* memory = nullptr;
  cudaMalloc(&memory, 64);
  int other = 0;
  if (std::strcmp(what, "free") == 0) cudaFree(&other);
  if (std::strcmp(what, "write") == 0) static_cast<volatile char*>(memory)[3] = 1;
  if (std::strcmp(what, "read") == 0) other = static_cast<volatile char*>(memory)[3];
  std::printf("nothing noticed\n");
  return 0;
}
