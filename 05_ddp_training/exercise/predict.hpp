// Advanced exercise: predict how long a step takes before you measure it.
// Check it with ./learn check 5 predict; ./learn hint 5 predict prints the next hint.
#pragma once

#include "05_ddp_training/exercise/step_to_predict.hpp"
#include "tools/exercises/not_started.hpp"

namespace dist::exercise {

// Predicts the step's time in the three ways of lesson 5 (step_to_predict.hpp says what each
// means). With overlap, a bucket's all-reduce starts as soon as all of its layers are done and
// the previous bucket's all-reduce has ended; it does not slow backward down.
//
// For example, 2 ranks with an alpha of 3 ms and no beta, 1 ms of forward, and two layers of 2
// and 4 ms, each a bucket of its own, take 31 ms by hand (four all-reduces of 6 ms), 13 with
// one bucket, and 15 with overlap: the second bucket is full at 7 ms, but the link is free
// at 9.
//
// This is a pure function: it sends nothing and measures nothing.
//
// Target: the exact times, up to rounding. Once you have them, the judge lets two ranks take
// real steps on a pretended link, and prints your predictions beside their times.
inline Prediction predict(const StepToPredict& step) {
  not_started();  // replace this line
}

}  // namespace dist::exercise
