// What happens to the remainder if the number of ranks does not divide the number of samples.
// There is nothing to write in this file.
#pragma once

namespace dist::exercise {

enum class Policy {
  pad,    // the same number on every rank: the order's first samples are repeated
  drop,   // the same number on every rank: the remainder is left out
  exact,  // every sample on exactly one rank: some ranks may have one sample more than others
};

}  // namespace dist::exercise
