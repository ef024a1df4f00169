// The names that users type for the values of an enum class, in the order in which help lists
// them.
#pragma once

#include "common/check.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace dist {

template <class E>
class Names {
 public:
  using Row = std::pair<std::string, E>;

  Names(std::initializer_list<Row> rows) : rows_(rows) {}
  explicit Names(std::vector<Row> rows) : rows_(std::move(rows)) {}

  // Both throw Error if there is no such row.
  E at(const std::string& name) const { return find(&Row::first, name).second; }
  const std::string& of(E value) const { return find(&Row::second, value).first; }

  std::vector<std::string> all() const {
    std::vector<std::string> names;
    for (const Row& row : rows_) names.push_back(row.first);
    return names;
  }
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }

 private:
  const Row& find(auto member, const auto& wanted) const {
    const auto row = std::ranges::find(rows_, wanted, member);
    if (row == rows_.end()) throw Error("there is no such name or value: a row is missing");
    return *row;
  }

  std::vector<Row> rows_;
};

}  // namespace dist
