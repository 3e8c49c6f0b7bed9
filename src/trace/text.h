#pragma once

#include <string>
#include <vector>

#include "trace/capture.h"
#include "trace/token_names.h"
#include "trace/views.h"

namespace gpt {

// What of a trace is printed, for a terminal of 100 columns.
struct TraceRequest {
  std::string model;     // as named by the user
  std::string computed;  // "fp32, avx512"
  int64_t block = 0;     // the block shown in detail; -1: all
  int64_t head = -1;     // its head whose attention is shown; -1: the summary of all heads
  int64_t query = -1;    // the token whose scores are shown; -1: the last
  int64_t top_k = 5;
  bool colour = false, unicode = false;
};

// The whole trace, step by step. Throws invalid_argument for a block, head or token that is not there.
std::string trace_text(Capture& capture, const TokenNames& names, const TraceRequest& request);
// The same as a JSON object: facts, activations with shapes and norms, changes, heads, lens, predictions.
std::string trace_json(Capture& capture, const TokenNames& names, const TraceRequest& request);

// A matrix of values from 0 to 1 as cells of growing darkness, two columns each: " .:-=+*#%@", or with
// unicode the four shades. `shown(r, c)` says whether a cell is part of the picture; others are a dot or
// blank.
std::string heat_rows(const std::vector<std::vector<double>>& values, const std::vector<std::string>& labels,
                      bool unicode);

}  // namespace gpt
