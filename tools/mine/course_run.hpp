// The course's run, with which the reader's run is compared.
#pragma once

#include "05_ddp_training/model/mlp.hpp"
#include "05_ddp_training/trainer/setup.hpp"

namespace dist::mine {

// Called on all ranks. Trains `model` as specified in `setup`, with the course's own broadcast,
// sampler and ring all-reduce, and prints nothing. All gradients travel in one bucket: with
// several buckets, chunks would begin at different elements, and sums over three or more ranks
// would round differently.
void train_as_the_course(Setup& setup, Mlp& model);

}  // namespace dist::mine
