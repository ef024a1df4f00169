// What this file adds: a comparison of functions that do the same work, such as broadcasts. A
// perf program is a table of such functions, as in nccl-tests. The comparison has the flags,
// takes the times, verifies every element, counts the messages, and prints.
// Builds on: measure.hpp, and the watch, which counts the messages.
// Look at: Candidate, a row of that table, and measure.
#pragma once

#include "01_send_recv/alpha_beta.hpp"
#include "01_send_recv/gpu/host_copy.hpp"
#include "01_send_recv/measure.hpp"
#include "01_send_recv/perf/sweep_options.hpp"
#include "common/program.hpp"
#include "common/watch.hpp"

#include <mpi.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dist {

struct Candidate {
  std::string name;
  Tensor memory = {};  // as long as the largest size; run() gets the beginning of it
  std::function<void(const Tensor&)> run;
  // Returns when what run() has queued on a GPU is done.
  std::function<void()> wait = [] {};
  // The number of calls that are timed together, such as 20 in nccl-tests. Many are needed if
  // one takes less time than the host needs to learn of its end, or to read the clock.
  std::function<int(std::size_t bytes)> in_a_row = [](std::size_t) { return 1; };
  // What runs, if the candidate chooses by size.
  std::function<std::string(std::size_t bytes)> chosen = {};
  // The time in seconds; nullopt if the model has no answer.
  std::function<std::optional<double>(std::size_t bytes)> predict = [](std::size_t) {
    return std::nullopt;
  };
};

// What the candidates have in common. It must not move, since the flags refer to it.
struct Comparison {
  Program& program;
  SweepOptions sweep;
  int iterations;
  // How often each link carries a tensor: bus bandwidth is this times bytes per second.
  double bus_factor;
  // Writes what this rank starts with, and returns how many elements of its result are wrong.
  std::function<void(std::span<float>)> fill;
  std::function<std::size_t(std::span<const float>)> count_wrong;

  std::string wanted = "all";         // --algorithm
  std::string no_nccl = {};           // why the ranks cannot use NCCL; empty if they can
  std::optional<LinkCost> link = {};  // what lesson 1 has measured, the same on all ranks
  std::string notes = {};             // printed behind the number of ranks

  // Adds --algorithm, which is `all` or one of `names`, the flags of the sizes (at least
  // `smallest`), and the common ones. Flags that are declared later are for experts.
  void declare(std::vector<std::string> names, const std::string& help, std::size_t smallest) {
    names.emplace_back("all");
    program.flags.choice("--algorithm", wanted, names, help);
    sweep.declare(program.flags, smallest);
    program.declare_common();
    check_nccl_flag(program, "--algorithm", wanted, no_nccl);
    program.flags.check_together([this] { link = load_link_cost(program.comm); });
    program.flags.advanced();
    program.flags.number("--iterations", iterations, 1, 1'000'000, "timed runs per size");
  }

  // Whether --algorithm includes this one. `all` omits what has an `obstacle`; notes say why.
  bool includes(const std::string& name, const std::string& obstacle = "") {
    if (wanted != "all") return wanted == name;
    if (!obstacle.empty()) notes += "; no " + name + ": " + obstacle;
    return obstacle.empty();
  }

  // Called on all ranks. Returns the row of JSON for this size.
  Json measure(const Candidate& candidate, std::size_t bytes) const {
    const Communicator& comm = program.comm;
    const Stream& stream = program.stream;
    const Tensor tensor = candidate.memory.narrow(0, bytes / sizeof(float));
    const std::string chosen = candidate.chosen ? candidate.chosen(bytes) : candidate.name;
    // Others' algorithms wait as they do in any program.
    set_patience(chosen == "mpi" ? Patience::never : Patience::by_load);
    std::uint64_t wrong = 0;  // elements, over all ranks and repetitions
    const auto prepare = [&] { on_host(stream, tensor, fill); };
    const auto call = [&](int times) {
      for (int i = 0; i < times; ++i) candidate.run(tensor);
      candidate.wait();
    };
    const auto once = [&] { call(1); };
    const auto check = [&] { wrong += read_on_host(stream, tensor, count_wrong); };
    double seconds = median_of_slowest(comm, iterations, once, prepare, check);
    if (const int calls = candidate.in_a_row(bytes); calls > 1) {
      // These results are not checked: they may be sums of sums.
      const auto in_a_row = [&] { call(calls); };
      seconds = median_of_slowest(comm, iterations, in_a_row, prepare) / calls;
    }
    std::optional<Traffic> traffic;  // nullopt if this program itself sends no messages
    if (chosen != "nccl" && chosen != "mpi" && chosen != "shared-memory") {
      prepare();
      traffic = count_traffic(comm, once);
      check();
    }
    MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, comm.get()));
    // Lesson 1's curves for GPUs include a copy to the host per round trip. A collective needs
    // only one, so it has no prediction there.
    std::optional<double> predicted;
    if (link && link->device == DeviceType::cpu && stream.device().is_cpu()) {
      predicted = candidate.predict(bytes);
    }
    const double algbw = static_cast<double>(bytes) / seconds / 1e9;  // GB/s, as in nccl-tests
    return {{"algorithm", candidate.name},
            {"chosen", chosen},
            {"bytes", bytes},
            {"ranks", comm.size()},
            {"time_us", significant(1e6 * seconds)},
            {"algbw_gbs", significant(algbw)},
            {"busbw_gbs", significant(algbw * bus_factor)},
            {"wrong", wrong},
            {"rounds", traffic ? Json(traffic->rounds) : Json()},
            {"messages_per_rank", traffic ? Json(traffic->messages_per_rank) : Json()},
            {"bytes_per_rank", traffic ? Json(traffic->bytes_per_rank) : Json()},
            {"peers", traffic ? Json(traffic->peers) : Json()},
            {"predicted_us", predicted ? Json(significant(1e6 * *predicted)) : Json()}};
  }

  // Called on all ranks. Measures, and prints a line for each candidate with a column for each
  // size; then the median error of the predictions for 64 KiB and more, and the rounds at the
  // largest size. A single candidate has a line for each size. Returns the exit status.
  int run(const std::vector<Candidate>& candidates) const {
    const Console& console = program.console;
    console.line(describe_run(program.comm.size(), program.device) + notes);
    const bool one = candidates.size() == 1;
    std::vector<std::string> header{"us"};
    for (const std::size_t bytes : sweep.sizes()) header.push_back(format_bytes(bytes));
    header.insert(header.end(), {"error", "rounds"});
    if (one) {
      header = {"size",       "runs",   "time us",  "predicted us", "error",
                "busbw GB/s", "rounds", "messages", "bytes"};
    }
    Table table(header);
    bool correct = true;
    for (const Candidate& candidate : candidates) {
      std::vector<std::string> cells{candidate.name};
      std::vector<double> errors;
      std::string rounds;
      for (const std::size_t bytes : sweep.sizes()) {
        const Json row = measure(candidate, bytes);
        console.row(row);
        const auto text = [&](const char* key, int digits = 0) {
          return row[key].is_null() ? "-"
                                    : fmt::format("{:.{}f}", row[key].get<double>(), digits);
        };
        const double us = row["time_us"];
        const bool right = row["wrong"] == 0;
        correct = correct && right;
        cells.push_back(text("time_us", us < 1000 ? 1 : 0) + (right ? "" : " WRONG"));
        std::string error = "-";
        if (!row["predicted_us"].is_null()) {
          const double percent = 100 * (row["predicted_us"].get<double>() / us - 1);
          error = fmt::format("{:+.0f}%", percent);
          if (bytes >= 64 * 1024) errors.push_back(percent);
        }
        rounds = text("rounds");
        if (!one) continue;
        table.add({format_bytes(bytes), row["chosen"], cells.back(), text("predicted_us", 1),
                   error, text("busbw_gbs", 2), rounds, text("messages_per_rank"),
                   text("bytes_per_rank")});
      }
      cells.push_back(errors.empty() ? "-" : fmt::format("{:+.0f}%", median(errors)));
      cells.push_back(rounds);
      if (!one) table.add(cells);
    }
    console.line(
        link ? fmt::format("predicted from lesson 1's ping-pong on {} ranks", link->ranks)
             : fmt::format(
                   "to see predictions, first run mpirun -np {} build/bin/send_recv_perf",
                   program.comm.size()));
    console.line(
        "median times in microseconds on the slowest rank; error: how far off the prediction "
        "is");
    table.print(console);
    return console.verdict(program.comm, correct,
                           "every element on every rank, for every algorithm and size",
                           "some rank holds a wrong result");
  }
};

}  // namespace dist
