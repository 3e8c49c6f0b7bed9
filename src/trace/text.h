#pragma once

#include <string>
#include <vector>

#include "trace/capture.h"
#include "trace/token_names.h"
#include "trace/views.h"

namespace gpt {

// Selects the parts of a trace to print. The output fits a terminal with 100 columns.
struct TraceRequest {
  std::string model;     // model name as given by the user
  std::string computed;  // dtype and instruction set, for example "fp32, avx512"
  int64_t block = 0;     // layer to show in detail; -1: all layers
  int64_t head = -1;     // head whose attention map is shown; -1: a summary of all heads
  int64_t query = -1;    // query token whose attention scores are shown; -1: the last token
  int64_t top_k = 5;
  bool colour = false, unicode = false;
};

// Returns the complete trace as text, step by step. Throws invalid_argument if the requested layer, head or
// token does not exist.
std::string trace_text(Capture& capture, const TokenNames& names, const TraceRequest& request);
// Returns the complete trace as a JSON object: model facts, activations with shapes and norms, residual
// stream changes, heads, logit lens and predictions.
std::string trace_json(Capture& capture, const TokenNames& names, const TraceRequest& request);

// Draws a matrix of values from 0 to 1 as text. Each cell is two columns wide, and larger values are darker.
// The characters are " .:-=+*#%@", or shade characters with `unicode`. NaN means a masked cell, which is
// drawn as a dot with `unicode` and as spaces otherwise.
std::string heat_rows(const std::vector<std::vector<double>>& values, const std::vector<std::string>& labels,
                      bool unicode);

}  // namespace gpt
