#pragma once

#include <string>

#include "data/token_data.h"

namespace gpt {

// Stores the number of samples taken from a validation text, and the number of samples whose tokens also
// occur in the training text.
struct SharedSamples {
  int64_t samples = 0, found = 0;
  int64_t length = 0;  // number of tokens per sample
};

// Takes samples from the whole validation text, and searches for them in the first 2^28 tokens of the
// training text. Takes no samples if a text is too short.
SharedSamples find_shared_samples(const TokenSpan& train, const TokenSpan& val);

// Returns a warning line if at least a quarter of the samples are found. Otherwise returns "".
std::string note_shared_samples(const TokenSpan& train, const TokenSpan& val);

}  // namespace gpt
