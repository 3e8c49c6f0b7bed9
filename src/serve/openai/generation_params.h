#pragma once

#include <string>
#include <vector>

#include "serve/models/served_model.h"
#include "serve/openai/json_request.h"

namespace gpt::serve {

// Limits of a single request.
struct RequestLimits {
  int64_t n = 8;                        // choices per prompt, including best_of
  int64_t top_logprobs = 20;            // alternatives per token
  int64_t stops = 16;                   // number of stop strings
  int64_t stop_bytes = 1024;            // bytes per stop string
  int64_t sequences = 128;              // prompts times choices
  int64_t logprobs = int64_t{1} << 18;  // log-probabilities in a response that is not streamed
  int64_t trace_tokens = 512;           // tokens in POST /trace
  double trace_flops = 4e12;            // operations in POST /trace; ten seconds to a minute on a few cores
  int64_t trace_bytes = int64_t{64} << 20;  // size of the page in POST /trace
  // Parameters of the model in POST /trace, which holds the model in fp32.
  int64_t trace_parameters = 2'000'000'000;
};

// The parameters that chat completions and completions have in common.
struct GenerationParams {
  Request request;  // without prompt and log-probabilities; max_tokens 0: all the room in the context
  std::vector<std::string> stops;
  int64_t n = 1;
  bool stream = false, include_usage = false;
};

// Reads the fields that chat completions and completions have in common. Throws ApiError that names a field
// if its value is out of range or not supported.
GenerationParams parse_generation(const Fields& fields, const ServedModel& model,
                                  const RequestLimits& limits);

// Throws ApiError if a response with `tokens` tokens and `top` alternatives per token has more
// log-probabilities than allowed.
void check_logprobs(int64_t tokens, int64_t top, const RequestLimits& limits);

// Limits max_tokens to the room that the prompt leaves in the context. If max_tokens is 0, it is set to all
// of this room. Throws ApiError (400, context_length_exceeded) if the prompt leaves no room. `param` is the
// field that contains the prompt.
void fit_context(Request& request, int64_t n_ctx, const char* param);

}  // namespace gpt::serve
