#include "common/nvtx.hpp"

#include "common/build_config.hpp"

#if DIST_WITH_CUDA && __has_include(<nvtx3/nvToolsExt.h>)

#include <nvtx3/nvToolsExt.h>
#include <string>

namespace dist {

// Null without a profiler.
static nvtxDomainHandle_t profiler() {
  static nvtxDomainHandle_t const domain = nvtxDomainCreateA("mpi-to-ddp");
  return domain;
}

void begin_profiler_range(std::string_view operation, std::string_view subject) {
  if (profiler() == nullptr) return;
  std::string text(operation);
  if (!subject.empty()) text.append(": ").append(subject);
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = text.c_str();  // the profiler copies it
  nvtxDomainRangePushEx(profiler(), &range);
}

void end_profiler_range() {
  if (profiler() != nullptr) nvtxDomainRangePop(profiler());
}

}  // namespace dist

#else

void dist::begin_profiler_range(std::string_view, std::string_view) {}
void dist::end_profiler_range() {}

#endif
