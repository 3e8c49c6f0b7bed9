#pragma once

#include <string>
#include <vector>

#include "support/backend.h"
#include "support/small_models.h"
#include "trace/capture.h"

namespace gpt::test {

// A small model with random weights, and the capture of its forward pass for n random tokens.
struct Traced {
  Traced(const std::string& config, int64_t n) : Traced(small_config(config), n) {}
  Traced(const SmallConfig& config, int64_t n)
      : random(make_config(config), DType::f32),
        ids(random_ids(n, random.model.config.vocab_size, 5)),
        capture(random.model, backend(pool, best_isa()), ids, {}) {}

  ThreadPool pool{1};
  RandomModel random;
  std::vector<int32_t> ids;
  Capture capture;
};

}  // namespace gpt::test
