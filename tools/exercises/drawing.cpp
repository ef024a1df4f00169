// What a message contains is found out by experiment: a run for each number of each rank, in
// which that number is 1 and all others are 0. An element of a message is then the factor with
// which the number is in it. This tells a share that is missing from one that is counted twice,
// an average from a sum, and a number of another chunk from the right one.
#include "tools/exercises/drawing.hpp"

#include "02_broadcast/chunks.hpp"
#include "common/console.hpp"
#include "common/join.hpp"
#include "tools/exercises/counted.hpp"
#include "tools/exercises/exercise.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <utility>

namespace dist::exercise {
namespace {

// Of a sum: `times` the number `index` of `rank`.
struct Term {
  int rank;
  std::size_t index;
  float times;
};
using Numbers = std::vector<std::vector<Term>>;  // each is a sum

// What this rank has done in a small run.
struct Part {
  struct Message {
    Traffic::Message at;
    std::uint64_t bytes;
    Numbers numbers;
  };
  std::vector<Message> sent;
  Numbers has;            // in the end
  bool examined = false;  // by at least one experiment
  bool steady = true;     // it did the same in every experiment
};

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

const std::string kUnknown = "unknown";  // is not made of the ranks' numbers

// "acd", "a2b" if b is counted twice, "abcd/4" for an average.
std::string letters(const std::vector<Term>& sum, int ranks) {
  for (const int divisor : {1, ranks, ranks * ranks}) {
    std::string text;
    for (const auto& [rank, index, factor] : sum) {
      const float times = factor * static_cast<float>(divisor);
      if (!(times > 0.5F && times < 99 && std::abs(times - std::round(times)) < 1e-4F)) break;
      if (std::round(times) != 1) text += fmt::format("{}", std::round(times));
      text += static_cast<char>('a' + rank);
    }
    const bool complete =
        std::ranges::count_if(text, [](char c) { return c >= 'a'; }) == std::ssize(sum);
    if (complete) return divisor == 1 ? text : fmt::format("{}/{}", text, divisor);
  }
  return kUnknown;
}

// Puts the content of messages into words.
struct Words {
  const Drawn& drawn;
  const SmallRun& small;
  int ranks;

  int chunk_of(std::size_t index) const {
    const std::size_t count = small.lengths.front();
    int chunk = 0;
    while (chunk_range(count, ranks, chunk).begin + chunk_range(count, ranks, chunk).count <=
           index) {
      ++chunk;
    }
    return chunk;
  }

  // "chunk 3: ad", "chunks 0 1 2: b" for a longer message, "part of chunk 0: a" for a shorter.
  std::string in_chunks(const Numbers& numbers) const {
    struct Group {
      std::string what;
      std::vector<int> chunks;  // none for zeros, which come from nowhere
      std::size_t count;
    };
    std::vector<Group> groups;  // of neighbouring numbers that contain the same
    for (const std::vector<Term>& sum : numbers) {
      if (sum.empty()) {
        if (groups.empty() || !groups.back().chunks.empty()) groups.push_back({"zeros", {}, 0});
        ++groups.back().count;
        continue;
      }
      const int chunk = chunk_of(sum.front().index);
      const bool mixed = std::ranges::any_of(
          sum, [&](const Term& term) { return term.index != sum.front().index; });
      const std::string what = mixed ? "mixed" : letters(sum, ranks);
      if (groups.empty() || groups.back().what != what) groups.push_back({what, {}, 0});
      Group& group = groups.back();
      if (group.chunks.empty() || group.chunks.back() != chunk) group.chunks.push_back(chunk);
      ++group.count;
    }
    std::vector<std::string> texts;
    for (const auto& [what, chunks, count] : groups) {
      if (chunks.empty()) {
        texts.push_back(count == numbers.size()
                            ? what
                            : fmt::format("{} zero{}", count, count == 1 ? "" : "s"));
        continue;
      }
      std::size_t whole = 0;
      for (const int chunk : chunks)
        whole += chunk_range(small.lengths.front(), ranks, chunk).count;
      texts.push_back(fmt::format("{}chunk{} {}: {}", count < whole ? "part of " : "",
                                  chunks.size() == 1 ? "" : "s", join(chunks, " "), what));
    }
    return join(texts, ", ");
  }

  // "a" for all numbers of rank 0, "a0 a1" for some of them.
  std::string in_numbers(const Numbers& numbers) const {
    std::vector<std::string> texts;
    bool in_order = true;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::vector<Term>& sum = numbers[i];
      const std::string what = sum.empty() ? "0" : letters(sum, ranks);
      if (what == kUnknown) {
        const std::size_t rest = numbers.size() - i;
        return i == 0 ? fmt::format("{} unknown numbers", rest)
                      : fmt::format("{} and {} others", join(texts, " "), rest);
      }
      texts.push_back(sum.empty() ? what : fmt::format("{}{}", what, sum.front().index));
      in_order = in_order && !sum.empty() && sum.front().index == i &&
                 sum.front().rank == numbers[0].front().rank;
    }
    if (!in_order) return join(texts, " ");
    const auto rank = static_cast<std::size_t>(numbers[0].front().rank);
    const bool all = numbers.size() == small.lengths[rank];
    return all ? letters(numbers[0], ranks) : join(texts, " ");
  }

  std::string of(const Numbers& numbers) const {
    if (numbers.empty()) return "0 numbers";
    return drawn.chunks ? in_chunks(numbers) : in_numbers(numbers);
  }
  std::string of(const Part::Message& message) const {
    if (message.bytes != message.numbers.size() * sizeof(float) ||
        std::ranges::all_of(small.lengths, [](std::size_t length) { return length == 0; })) {
      return fmt::format("{} bytes", message.bytes);
    }
    return of(message.numbers);
  }
};

// What this rank has done, as JSON.
Json row_of(const Words& words, const Part& part, int rank) {
  // Whether it still has what it had at first, as far as it promised something else.
  const bool kept = std::ranges::all_of(part.has, [&](const std::vector<Term>& sum) {
    return sum.size() == 1 && sum[0].rank == rank && sum[0].times == 1;
  });
  Json row = {{"has", words.of(part.has)}, {"kept", kept}, {"sends", Json::array()}};
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
    for (const Json& message : row["sends"]) {
      texts.push_back(message["text"]);
      last = std::max<std::uint64_t>(last, message["row"]);
    }
  }
  std::ranges::sort(texts);
  return {{results, texts}, last};
}

bool agree(const Json& yours, const Json& ours, const Drawn& drawn) {
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
