// What this file adds: a text as a data set. A sample is a window of the text: `context`
// characters, and the one that follows each of them as its target.
// Builds on: Dataset (lesson 4), with several targets per sample. Its sampler and its loader
// divide windows among the ranks as they divide digits.
#pragma once

#include "04_distributed_sampler/dataset.hpp"
#include "common/check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dist {

// The characters (bytes) of a text in their order: a character's place is its token.
class Vocabulary {
 public:
  explicit Vocabulary(std::string_view text) : characters_(text) {
    std::ranges::sort(characters_, {}, byte_of);
    characters_.erase(std::ranges::unique(characters_).begin(), characters_.end());
  }
  std::size_t size() const { return characters_.size(); }
  bool has(char character) const { return characters_.find(character) != std::string::npos; }
  // Throws Error if the text has no such character.
  std::int32_t token(char character) const {
    if (!has(character)) throw Error("not in the vocabulary");
    const auto at = std::ranges::lower_bound(characters_, byte_of(character), {}, byte_of);
    return static_cast<std::int32_t>(at - characters_.begin());
  }
  char character(std::size_t token) const { return characters_.at(token); }

 private:
  static unsigned char byte_of(char c) { return static_cast<unsigned char>(c); }
  std::string characters_;
};

class TextDataset : public Dataset {
 public:
  // Window i begins at character `stride` i. Throws Error if the text is shorter than one.
  TextDataset(std::string_view text, const Vocabulary& vocabulary, std::size_t context,
              std::size_t stride)
      : Dataset(text.size() <= context ? 0 : (text.size() - context - 1) / stride + 1, context,
                vocabulary.size(), /*targets=*/context),
        stride_(stride) {
    if (size() == 0) throw Error("the text is shorter than a window");
    for (const char c : text) tokens_.push_back(vocabulary.token(c));
  }

  using Dataset::get;
  void get(std::size_t index, std::span<float> row,
           std::span<std::int32_t> targets) const override {
    const std::int32_t* const window = &tokens_[index * stride_];
    // As floats, which a Tensor consists of: exact for whole numbers up to 2^24.
    std::copy_n(window, row.size(), row.begin());
    std::copy_n(window + 1, targets.size(), targets.begin());
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::size_t stride_;
};

}  // namespace dist
