#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace gpt {

// The flags of speculative decoding, but for --draft, which a server has for each model.
struct SpeculationFlags {
  std::string source;  // --speculate; "": not given
  int64_t draft_tokens = 16;
};
void add_speculation_options(CLI::App& app, SpeculationFlags& flags);

// Throws invalid_argument where --draft has a number, which is what llama.cpp's has.
void check_draft(const std::string& path);

// "; 30 of 40 proposed tokens were right", or "" where none were proposed.
std::string speculation_note(int64_t proposed, int64_t accepted);

}  // namespace gpt
