// What this file adds: a text that a model writes, one character after another.
#pragma once

#include "05_ddp_training/advanced/gpt/text_dataset.hpp"
#include "05_ddp_training/model/module.hpp"
#include "common/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace dist {

// Appends `count` characters to `text`, each drawn from what the model expects after the last
// `context` ones. A `temperature` below 1 prefers likely characters.
inline std::string write(Module& model, const Vocabulary& vocabulary, std::size_t context,
                         std::string text, std::size_t count, double temperature,
                         Generator& generator, const Stream& stream) {
  for (const std::size_t end = text.size() + count; text.size() < end;) {
    const std::size_t length = std::min(text.size(), context);
    const Tensor last({1, length}, Device{}), ids({1, length}, stream.device());
    for (std::size_t i = 0; i < length; ++i) {
      last.span()[i] = static_cast<float>(vocabulary.token(text[text.size() - length + i]));
    }
    copy(stream, ids, last);
    const Tensor logits = model.forward(ids, stream);
    std::vector<float> chances =
        to_host(stream, logits.narrow((length - 1) * vocabulary.size(), vocabulary.size()));
    const float largest = std::ranges::max(chances);
    double sum = 0;
    for (float& x : chances) {
      x = static_cast<float>(std::exp((x - largest) / temperature));
      sum += static_cast<double>(x);
    }
    float draw = 0;
    fill_uniform(std::span(&draw, 1), 0, sum, generator);
    std::size_t next = 0;
    while (next + 1 < chances.size() && (draw -= chances[next]) > 0) ++next;
    text += vocabulary.character(next);
  }
  return text;
}

}  // namespace dist
