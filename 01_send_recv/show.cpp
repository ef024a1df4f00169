#include "01_send_recv/show.hpp"

#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/tracer_numbers.hpp"
#include "common/join.hpp"

#include <nlohmann/json.hpp>

#include <vector>

namespace dist {

Tensor four_numbers(const Program& program) {
  const Tensor tensor({4}, program.stream.device());
  on_host(program.stream, tensor,
          [&](std::span<float> numbers) { fill_tracer_numbers(numbers, program.comm.rank()); });
  return tensor;
}

bool show(const Program& program, const std::string& act, const std::string& title,
          const Tensor& tensor, const std::function<double(int)>& expected, double tolerance) {
  const Console& console = program.console;
  const int rank = program.comm.rank();
  const std::vector<float> before = to_host(program.stream, four_numbers(program));
  const std::vector<float> after = to_host(program.stream, tensor);
  const bool correct =
      count_wrong(
          after, [&](std::size_t i) { return expected(static_cast<int>(i)); }, tolerance) == 0;
  console.line(act + ": " + title);
  lines_in_rank_order(console, program.comm, "  rank {}  {}  ->  {}{}", rank,
                      join(before, " ", "{:6}"), join(after, " ", "{:6}"),
                      correct ? "" : "   WRONG");
  rows_in_rank_order(console, program.comm,
                     Json{{"act", act},
                          {"rank", rank},
                          {"before", before},
                          {"after", after},
                          {"correct", correct}});
  return program.comm.all_agree(correct);
}

}  // namespace dist
