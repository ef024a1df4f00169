// What becomes of the samples that do not divide among the ranks. Given: nothing to fill in.
#pragma once

namespace dist::exercise {

enum class Policy {
  pad,    // the same number on every rank: samples from the order's beginning once more
  drop,   // the same number on every rank: what does not divide is left out
  exact,  // every sample on one rank, none twice: some ranks have one more than the others
};

}  // namespace dist::exercise
