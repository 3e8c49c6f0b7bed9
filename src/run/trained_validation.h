#pragma once

#include <string>

#include "data/token_data.h"

namespace gpt {

// Samples of a validation text, and how many of them are in the training text token by token.
struct SharedSamples {
  int64_t samples = 0, found = 0;
  int64_t length = 0;  // tokens of each
};

// Takes samples from the whole validation text and looks for them in the training text, of which at most the
// first 2^28 tokens are read. None are taken of a text that is too short to tell.
SharedSamples find_shared_samples(const TokenSpan& train, const TokenSpan& val);

// Returns a line for people if at least a quarter of the samples are found; else "".
std::string note_shared_samples(const TokenSpan& train, const TokenSpan& val);

}  // namespace gpt
