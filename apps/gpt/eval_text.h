#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/model_files.h"
#include "run/run_data.h"

namespace gpt {

// What `gpt eval` was asked to evaluate on; nothing where a flag was not given.
struct EvalTextRequest {
  std::vector<std::string> data;  // empty: what the run was trained on
  std::string split;              // all, train or val; "": what was held out of text that the run knows
  std::optional<double> val_fraction;
  std::optional<int64_t> seed;  // of tales
  std::string tokenizer;        // instead of the model's
  FolderFilter filter;          // of other text
  std::string field;            // of other text in JSON lines; "": the run's, else "text"
};

struct EvalText {
  RunData data;                 // owns the tokens
  TokenSpan tokens;             // the part that is evaluated
  std::string split;            // which one: all, train or val
  bool trained = false;         // it was chosen from what the run was trained on
  bool seen = false;            // the run was trained on some of what is evaluated, as far as that is known
  std::optional<double> floor;  // nats per byte
  std::string note;             // for people: what was chosen and why; "" when that needs no words
};

// Loads the text and chooses the part to evaluate. Without a requested split, that is the held-out part of
// the text that the model was trained on, and the whole of any different text. Throws invalid_argument when
// no text is known.
EvalText load_eval_text(const EvalTextRequest& request, const std::string& model, const LoadedModel& loaded);

}  // namespace gpt
