#pragma once

#include <vector>

#include "serve/api_field.h"

namespace gpt::serve {

// Returns the descriptions of all request bodies and their parts. A test compares the fields with those that
// the endpoints read.
std::vector<ApiType> request_types();

}  // namespace gpt::serve
