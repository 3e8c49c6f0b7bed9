#include "speculation_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "options.h"

namespace gpt {

void add_speculation_options(CLI::App& app, SpeculationFlags& flags) {
  add(app,
      {.flags = "--speculate",
       .help =
           "Draft several tokens and verify them together. ngram: the tokens that followed the same tokens "
           "earlier in the text. draft: tokens of the --draft model. Only the speed changes",
       .fallback = "draft with --draft, otherwise off",
       .choices = {"ngram", "draft", "off"},
       .is_open = true},
      flags.source);
  add(app,
      {.flags = "--draft-tokens",
       .value = "N",
       .help = "Maximum number of draft tokens per step",
       .aliases = "--draft-max|--draft-n|--num-speculative-tokens|--prompt-lookup-num-tokens"},
      flags.draft_tokens);
}

void check_draft(const std::string& path) {
  const bool number = !path.empty() && path.find_first_not_of("0123456789") == std::string::npos;
  if (number)
    fail_usage("--draft: expected a model, found {}; for the number of draft tokens, use --draft-tokens {}",
               path, path);
}

std::string speculation_note(int64_t proposed, int64_t accepted) {
  if (proposed == 0) return "";
  return fmt::format("; {} of {} draft tokens were accepted", format_thousands(accepted),
                     format_thousands(proposed));
}

}  // namespace gpt
