#include "05_ddp_training/trainer/report/progress_bar.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace dist {

ProgressBar::ProgressBar(const Console& console, std::string label, std::size_t total)
    : visible_(console.speaks() && std::getenv("LEARN_TERMINAL") != nullptr),
      label_(std::move(label)),
      total_(std::max<std::size_t>(total, 1)) {}

ProgressBar::~ProgressBar() {
  clear();
}

void ProgressBar::advance() {
  constexpr std::size_t kWidth = 30;
  ++done_;
  const std::size_t filled = std::min(kWidth, done_ * kWidth / total_);
  if (!visible_ || filled == drawn_) return;
  drawn_ = filled;
  fmt::print(stderr, "\r{} [{:<{}}] {}/{}", label_, std::string(filled, '#'), kWidth, done_,
             total_);
  std::fflush(stderr);
}

void ProgressBar::clear() {
  if (!visible_ || drawn_ == 0) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = 0;
}

}  // namespace dist
