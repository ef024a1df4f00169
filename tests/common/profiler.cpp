// A profiler for test_nvtx.py. NVTX loads it (NVTX_INJECTION64_PATH); it writes a line for each
// beginning and end of a range to stderr.
#include <cstdio>
#include <nvtx3/nvToolsExt.h>

namespace {

nvtxDomainHandle_t domain(const char* name) {
  static char one;  // of no other type, but it must not be null
  std::fprintf(stderr, "profiler: domain %s\n", name);
  return reinterpret_cast<nvtxDomainHandle_t>(&one);
}
int begin(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) {
  std::fprintf(stderr, "profiler: begin %s\n", range->message.ascii);
  return 0;
}
int end(nvtxDomainHandle_t) {
  std::fprintf(stderr, "profiler: end\n");
  return 0;
}

}  // namespace

// The name that NVTX looks for.
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
    return 0;
  }
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(domain);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(begin);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(end);
  return 1;
}
