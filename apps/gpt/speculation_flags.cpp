#include "speculation_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "options.h"

namespace gpt {

void add_speculation_options(CLI::App& app, SpeculationFlags& flags) {
  add_value(
      app, "--speculate", flags.source, "ngram|draft|off",
      "compute several likely tokens at once: those that followed the last tokens before, or those of the "
      "--draft model; changes the time alone (draft where there is one, else off)");
  add_shown(app, "--draft-tokens", flags.draft_tokens, "N", "most tokens that are proposed at once");
}

void check_draft(const std::string& path) {
  const bool number = !path.empty() && path.find_first_not_of("0123456789") == std::string::npos;
  if (number)
    fail_usage("--draft: expected a model, found {}; --draft-tokens {} is how many tokens", path, path);
}

std::string speculation_note(int64_t proposed, int64_t accepted) {
  if (proposed == 0) return "";
  return fmt::format("; {} of {} proposed tokens were right", format_thousands(accepted),
                     format_thousands(proposed));
}

}  // namespace gpt
