// A README's fenced blocks, each with the marks (HTML comments) on the lines before its fence.
#pragma once

#include "tests/support/run_command.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace dist::test {

// The READMEs of the course, the pages that they link to, and CONTRIBUTING.md, as paths
// relative to the root of the repository.
inline const std::vector<std::string> kReadmes{"README.md",
                                               "01_send_recv/README.md",
                                               "02_broadcast/README.md",
                                               "03_all_reduce/README.md",
                                               "04_distributed_sampler/README.md",
                                               "05_ddp_training/README.md",
                                               "03_all_reduce/several_hosts/hierarchical.md",
                                               "05_ddp_training/advanced/checkpoints.md",
                                               "05_ddp_training/advanced/determinism.md",
                                               "05_ddp_training/advanced/gpu_step.md",
                                               "05_ddp_training/advanced/memory.md",
                                               "05_ddp_training/advanced/mixed_precision.md",
                                               "05_ddp_training/advanced/optimizers.md",
                                               "05_ddp_training/advanced/sharding.md",
                                               "docs/beyond.md",
                                               "docs/cheat_sheet.md",
                                               "docs/running.md",
                                               "CONTRIBUTING.md"};

struct Block {
  std::string place;     // "README.md:12", with the line number of the fence
  std::string language;  // after the fence; usually empty
  std::vector<std::string> marks;
  std::vector<std::string> lines;  // without the indentation of the fence
  std::size_t section = 0;         // how many headings come before it

  // The text after `name` in a mark: "needs a GPU" in <!-- not run: needs a GPU -->.
  std::optional<std::string> mark(const std::string& name) const {
    for (const std::string& text : marks) {
      if (text == name) return "";
      if (text.rfind(name + ": ", 0) == 0) return text.substr(name.size() + 2);
    }
    return std::nullopt;
  }
  std::string text() const {
    std::string joined;
    for (const std::string& line : lines) joined += line + "\n";
    return joined;
  }
};

inline std::vector<Block> blocks_of(const std::string& name, const std::string& readme) {
  static const std::regex mark("^ *<!-- (.*) -->$");
  std::vector<Block> blocks;
  std::vector<std::string> marks;
  std::istringstream text(readme);
  bool inside = false;
  std::size_t indent = 0, number = 0, section = 0;
  std::string line;
  while (std::getline(text, line)) {
    ++number;
    const std::size_t fence = line.find("```");
    std::smatch found;
    if (fence != std::string::npos && line.find_first_not_of(' ') == fence) {
      inside = !inside;
      indent = fence;
      if (inside) {
        blocks.push_back(
            {name + ":" + std::to_string(number), line.substr(fence + 3), marks, {}, section});
      }
      marks.clear();
    } else if (inside) {
      blocks.back().lines.push_back(line.substr(std::min(indent, line.size())));
    } else if (std::regex_match(line, found, mark)) {
      marks.push_back(found[1]);
    } else {
      marks.clear();
      if (line.rfind('#', 0) == 0) ++section;
    }
  }
  if (inside) throw std::runtime_error(name + ": the last fence is not closed");
  return blocks;
}

inline std::vector<Block> blocks_of(const std::string& name) {
  return blocks_of(name, content_of(SOURCE_DIR "/" + name));
}

}  // namespace dist::test
