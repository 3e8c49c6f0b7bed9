#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace gpt {

inline constexpr const char* kDraftAliases = "--model-draft|-md|--speculative-model|--assistant-model";

// The flags of speculative decoding except --draft, which a server has for each model.
struct SpeculationFlags {
  std::string source;  // value of --speculate; "": not given
  int64_t draft_tokens = 16;
};
void add_speculation_options(CLI::App& app, SpeculationFlags& flags);

// Throws invalid_argument if the value of --draft is a number, as it is for llama.cpp.
void check_draft(const std::string& path);

// Returns "; 30 of 40 draft tokens were accepted", or "" if there were no draft tokens.
std::string speculation_note(int64_t proposed, int64_t accepted);

}  // namespace gpt
