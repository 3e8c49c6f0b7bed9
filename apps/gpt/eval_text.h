#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/model_files.h"
#include "run/run_data.h"

namespace gpt {

// The text that `gpt eval` should evaluate; optional members are empty if their flag was not given.
struct EvalTextRequest {
  std::vector<std::string> data;  // if empty, the training data of the run
  std::string split;  // "all", "train" or "val"; "": the held-out part if the text belongs to the run
  std::optional<double> val_fraction;
  std::optional<int64_t> seed;  // seed of the built-in tales
  std::string tokenizer;        // replaces the model's tokenizer
  FolderFilter filter;          // for the files of folders; not used for the run's own text
  // Field of JSON lines with the text; not used for the run's own text. "": the field of the run, else
  // "text".
  std::string field;
};

struct EvalText {
  RunData data;                 // owns the tokens
  TokenSpan tokens;             // the part of the text that is evaluated
  std::string split;            // the part's name: "all", "train" or "val"
  bool trained = false;         // true if the text was chosen from the run's training data
  bool seen = false;            // true if the run is known to have trained on some of the evaluated text
  std::optional<double> floor;  // entropy of the text in nats per byte, if known
  std::string note;             // tells the user which part was chosen and why; "" if that is obvious
};

// Loads the text and selects the part to evaluate. By default, it selects the held-out part if the model was
// trained on the text, and the whole text otherwise. Throws invalid_argument if there is no text to evaluate.
EvalText load_eval_text(const EvalTextRequest& request, const std::string& model, const LoadedModel& loaded);

}  // namespace gpt
