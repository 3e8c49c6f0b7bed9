#pragma once

#include <string>
#include <vector>

#include "serve/json_request.h"
#include "serve/served_model.h"

namespace gpt::serve {

// What one request may ask for.
struct RequestLimits {
  int64_t n = 8;                             // choices of a prompt, best_of included
  int64_t top_logprobs = 20;                 // alternatives of a token
  int64_t stops = 16;                        // stop strings
  int64_t stop_bytes = 1024;                 // of one
  int64_t sequences = 128;                   // prompts times choices
  int64_t logprobs = int64_t{1} << 18;       // of an answer that is kept until it is sent
  int64_t trace_tokens = 512;                // of POST /trace, and what it may take
  double trace_flops = 4e12;                 // ten seconds to a minute on a few cores
  int64_t trace_bytes = int64_t{64} << 20;   // of the page
  int64_t trace_parameters = 2'000'000'000;  // of the model, which it holds in fp32
};

// What chat completions and completions have in common.
struct GenerationParams {
  Request request;  // but for prompt and log-probabilities; max_tokens 0: as many as the context has room for
  std::vector<std::string> stops;
  int64_t n = 1;
  bool stream = false, include_usage = false;
};

// Reads the fields that both have. Throws ApiError that names the field for what is out of range or not
// supported.
GenerationParams parse_generation(const Fields& fields, const ServedModel& model,
                                  const RequestLimits& limits);

// Throws ApiError where an answer would have more log-probabilities than are allowed: of `tokens` tokens,
// each with `top` alternatives.
void check_logprobs(int64_t tokens, int64_t top, const RequestLimits& limits);

// Limits max_tokens to the room that the prompt leaves in the context; 0 becomes all of this room. Throws
// ApiError (400, context_length_exceeded) where the prompt leaves no room. param: the field with the prompt.
void fit_context(Request& request, int64_t n_ctx, const char* param);

}  // namespace gpt::serve
