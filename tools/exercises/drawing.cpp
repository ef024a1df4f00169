// What a message contains is found out by experiment: a run for each number of each rank, in
// which that number is 1 and all others are 0. An element of a message is then the factor with
// which the number is in it. This tells a share that is missing from one that is counted twice,
// an average from a sum, and a number of another chunk from the right one.
#include "tools/exercises/drawing.hpp"

#include "common/console.hpp"
#include "tools/exercises/counted.hpp"
#include "tools/exercises/drawing_words.hpp"
#include "tools/exercises/exercise.hpp"

#include <mpi.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <utility>

namespace dist::exercise {
namespace {

struct Snapshot {
  std::uint64_t bytes;
  std::vector<float> numbers;
};
std::vector<Snapshot> snapshots;  // of this rank's messages, when they were sent

void take_snapshot(const void* data, std::uint64_t bytes) {
  std::vector<float> numbers(bytes / sizeof(float));
  if (!numbers.empty()) std::memcpy(numbers.data(), data, numbers.size() * sizeof(float));
  snapshots.push_back({bytes, std::move(numbers)});
}

// Adds what an experiment with one number (its factor in the terms is still missing) has shown.
void add(Numbers& sums, const std::vector<float>& factors, Term term) {
  sums.resize(std::max(sums.size(), factors.size()));
  for (std::size_t i = 0; i < factors.size(); ++i) {
    term.times = factors[i];
    if (term.times != 0) sums[i].push_back(term);
  }
}

// Called on all ranks: the senders of the messages that this rank has not received. Receives
// them.
std::vector<int> left_behind(const Communicator& comm) {
  comm.barrier();
  std::vector<int> senders;
  for (int found = 1; found != 0;) {
    MPI_Status status;
    MPI_CHECK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm.get(), &found, &status));
    if (found == 0) break;
    int bytes = 0;
    MPI_CHECK(MPI_Get_count(&status, MPI_BYTE, &bytes));
    std::vector<char> unread(static_cast<std::size_t>(std::max(bytes, 0)));
    MPI_CHECK(MPI_Recv(unread.data(), bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                       comm.get(), MPI_STATUS_IGNORE));
    senders.push_back(status.MPI_SOURCE);
  }
  std::ranges::sort(senders);
  return senders;
}

void experiment(const Communicator& all, const Drawn& drawn, const SmallRun& small, Term one,
                Part& part) {
  const Communicator comm = all.duplicate();  // where no message of another run can arrive
  const auto rank = static_cast<std::size_t>(comm.rank());
  std::vector<float> numbers(small.lengths[rank]);
  if (one.rank == comm.rank()) numbers[one.index] = 1;
  snapshots.clear();
  watch_table()->call_at_sends(take_snapshot);
  std::vector<float> has;
  const Traffic traffic = counted(
      comm, [&] { has = drawn.run(comm, std::move(numbers), small.root); }, kOver);
  watch_table()->call_at_sends(nullptr);
  const CallScope over(kOver);
  part.left = left_behind(comm);

  std::vector<Traffic::Message> sent;
  std::ranges::copy_if(traffic.sent, std::back_inserter(sent),
                       [&](const Traffic::Message& each) { return each.from == comm.rank(); });
  if (!std::exchange(part.examined, true)) part.sent.resize(sent.size());
  part.steady &= sent.size() == part.sent.size() && sent.size() == snapshots.size();
  for (std::size_t i = 0; part.steady && i < sent.size(); ++i) {
    part.sent[i].at = sent[i];
    part.sent[i].bytes = snapshots[i].bytes;
    add(part.sent[i].numbers, snapshots[i].numbers, one);
  }
  add(part.has, has, one);
}

Part examine(const Communicator& comm, const Drawn& drawn, const SmallRun& small) {
  Part part;
  for (int rank = 0; rank < comm.size(); ++rank) {
    for (std::size_t i = 0; i < small.lengths[static_cast<std::size_t>(rank)]; ++i) {
      experiment(comm, drawn, small, {rank, i, 0}, part);
    }
  }
  if (std::ranges::all_of(small.lengths, std::logical_not())) {  // there are no numbers
    experiment(comm, drawn, small, {-1, 0, 0}, part);
  }
  return part;
}

// What this rank has done, as JSON.
Json row_of(const Words& words, const Part& part, int rank) {
  // Whether it still has what it had at first, as far as it promised something else.
  const bool kept = std::ranges::all_of(part.has, [&](const std::vector<Term>& sum) {
    return sum.size() == 1 && sum[0].rank == rank && sum[0].times == 1;
  });
  Json row = {{"has", words.of(part.has)},
              {"kept", kept},
              {"left", part.left},
              {"sends", Json::array()}};
  for (const Part::Message& message : part.sent) {
    row["sends"].push_back(
        {{"to", message.at.to},
         {"row", words.drawn.rounds ? message.at.round : row["sends"].size() + 1},
         {"text", words.of(message)}});
  }
  return row;
}

// Called on all ranks. Returns the rows of all ranks on rank 0; null if there is none to show.
Json rows_of(const Communicator& comm, const Drawn& drawn, const SmallRun& small) {
  const Part part = examine(comm, drawn, small);
  const Json mine = row_of({drawn, small, comm.size()}, part, comm.rank());
  Json rows = Json::array();
  for (const std::string& text : gather_text(comm, mine.dump())) {
    rows.push_back(Json::parse(text));
  }
  return comm.all_agree(part.steady) ? rows : Json();
}

// What must be the same, and the number of rounds, of the rows that are drawn in rounds.
std::pair<Json, std::uint64_t> without_order(const Json& rows) {
  std::vector<std::string> results, texts;
  std::uint64_t last = 0;
  for (const Json& row : rows) {
    results.push_back(row["has"]);
    results.push_back(row["left"].dump());
    for (const Json& message : row["sends"]) {
      texts.push_back(message["text"]);
      last = std::max<std::uint64_t>(last, message["row"]);
    }
  }
  std::ranges::sort(texts);
  return {{results, texts}, last};
}

// Without the numbers by which sums in messages are divided.
Json undivided(Json rows) {
  for (Json& row : rows) {
    for (Json& message : row["sends"]) {
      message["text"] =
          std::regex_replace(message["text"].get<std::string>(), std::regex("/[0-9]+"), "");
    }
  }
  return rows;
}

bool agree(const Json& yours, const Json& ours, const Drawn& drawn) {
  if (drawn.divides_anywhere) return undivided(yours) == undivided(ours);
  if (!drawn.rounds || drawn.in_order) return yours == ours;
  const auto [content, rounds] = without_order(yours);
  const auto [right, fewest] = without_order(ours);
  return content == right && rounds <= std::max(fewest, *drawn.rounds);
}

}  // namespace

void draw(const Communicator& comm, const Drawing& drawing, int smallest,
          const std::string& file) {
  const auto& [yours, ours] = drawing;
  for (int ranks = smallest; ranks <= comm.size(); ++ranks) {
    const Communicator some = comm.split(comm.rank() < ranks ? 0 : 1, comm.rank());
    bool same = true, first = true;
    for (const SmallRun& small : yours.runs(ranks)) {
      if (comm.rank() < ranks && same) {
        Json rows = {{"yours", rows_of(some, yours, small)},
                     {"ours", rows_of(some, ours, small)}};
        if (rows["yours"].is_null()) continue;
        same = some.all_agree(agree(rows["yours"], rows["ours"], yours));
        if (some.rank() == 0 && (std::exchange(first, false) || !same)) {
          rows.update({{"ranks", ranks},
                       {"lengths", small.lengths},
                       {"root", small.root},
                       {"chunks", yours.chunks},
                       {"divides_anywhere", yours.divides_anywhere},
                       {"rounds", yours.rounds.has_value()},
                       {"same", same}});
          std::ofstream(file) << rows.dump();
        }
      }
    }
    if (!comm.all_agree(same)) return;
  }
}

}  // namespace dist::exercise
