// Names for what messages are for, shown in the trace and in a hang report:
//
//   const CallScope scope("all_reduce", "bucket 2: 2.weight, 2.bias");
//
// turns "ranks 0, 1 in MPI_Sendrecv" into "ranks 0, 1 are in all_reduce #7 (bucket 2: 2.weight,
// 2.bias); rank 2 never entered it, last seen in #6". Nothing depends on a scope.
#pragma once

#include <cstdint>
#include <string_view>

namespace dist {

// From construction to destruction all messages of this thread belong to `operation`, which is
// one that all ranks do in the same order: its numbers, counted from 1 on each rank, are
// compared over ranks. `subject` says on what. Scopes nest; the inner one counts. Costs one
// relaxed load when the spy is off.
class CallScope {
 public:
  explicit CallScope(std::string_view operation, std::string_view subject = {});
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  bool active_ = false;
  std::uint16_t outer_operation_ = 0;
  std::uint16_t outer_subject_ = 0;
  std::uint32_t outer_number_ = 0;
  std::uint64_t begin_ns_ = 0;
};

// The row of this thread in the trace. The thread that starts the program is "main".
void name_this_thread(std::string_view name);

}  // namespace dist
