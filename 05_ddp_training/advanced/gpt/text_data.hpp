// What this file adds: the text that a GPT learns from, and its last tenth, which tests it.
#pragma once

#include "04_distributed_sampler/datasets/refuse.hpp"
#include "05_ddp_training/advanced/gpt/text_dataset.hpp"
#include "05_ddp_training/trainer/data.hpp"
#include "common/console.hpp"
#include "common/hash.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace dist {

class TextData : public TrainingData {
 public:
  // Its windows have `context` characters.
  explicit TextData(std::size_t context) : context_(context) {}
  const Vocabulary& vocabulary() const { return *vocabulary_; }  // valid after load()

  std::string name(const Options& options) const override {
    return "windows of " + printable(std::filesystem::path(options.data).filename().string());
  }
  std::string flag() const override { return "--text"; }
  std::string set_flag() const override { return "--text"; }
  std::vector<CommandLine::Value> hashes(const Options&) const override {
    return {{"training data", description_}};
  }

 private:
  void load_sets(const Options& options) override {
    const std::string& path = options.data;
    std::error_code unknown;  // whether it is there, opening it tells
    if (std::filesystem::is_directory(path, unknown)) {
      throw Error(path + " is a folder, not a text");
    }
    std::ifstream file(path, std::ios::binary);
    if (!file) throw Error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (file.bad()) throw Error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    files_ = {path};
    const std::string_view learn = std::string_view(text).substr(0, text.size() / 10 * 9);
    const std::string_view test = std::string_view(text).substr(learn.size());
    check_file(test.size() > context_,
               "{}: has {} characters, so the tenth that is kept for testing has {}, and no "
               "window of {} and the next",
               path, text.size(), test.size(), context_);
    vocabulary_.emplace(text);
    train_ = std::make_unique<TextDataset>(learn, *vocabulary_, context_, /*stride=*/1);
    test_ = std::make_unique<TextDataset>(test, *vocabulary_, context_, /*stride=*/context_);
    Hash hash;
    hash.add(text.data(), text.size());
    description_ = fmt::format("text, {} characters, {:016x}", text.size(), hash.value());
  }

  std::size_t context_;
  std::optional<Vocabulary> vocabulary_;
  std::string description_;
};

}  // namespace dist
