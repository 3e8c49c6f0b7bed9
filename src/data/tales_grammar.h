#pragma once

#include "data/grammar.h"

namespace gpt {

// The grammar behind tales.h, read once.
const Grammar& tales_grammar();

}  // namespace gpt
