#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "infer/stop_strings.h"
#include "model/model_files.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace gpt {

// Loads a tokenizer by name: "byte", a file or folder that load_tokenizer accepts, or a .gguf file.
std::unique_ptr<Tokenizer> named_tokenizer(const std::string& name);
// Returns the tokenizer to use with a model: the named one or, if `name` is empty, the tokenizer in the
// model's folder or GGUF file. Returns null if there is no tokenizer. Throws Error if the vocabulary of the
// tokenizer is larger than the vocabulary of the model.
std::unique_ptr<Tokenizer> model_tokenizer(const LoadedModel& loaded, const std::string& name);

// Throws Error if an adapter belongs to a different tokenizer. Fine-tuning saves the tokenizer with the
// adapter. Each token of this tokenizer must have the same text as in the tokenizer of the model. Added
// tokens may differ. Tokenizers that cannot be read are not compared.
void require_same_tokens(const LoadedModel& loaded, const std::string& adapter);
// Returns a warning line if the file of an adapter names a different base model, or "" otherwise. If the
// paths differ, only the names are compared, because a model may have been moved. GGUF files do not name a
// base model.
std::string note_other_base(const LoadedModel& loaded, const std::string& adapter);
// Returns the warnings about several adapters, each as a line that begins with "note: ".
std::string notes_of_other_bases(const LoadedModel& loaded, const std::vector<std::string>& choices);
// Throws Error if a draft model has a different vocabulary than the model. The size of the vocabulary and the
// text of each token must be equal. If a tokenizer is missing (null), only the vocabulary sizes of the models
// are compared. `draft` is the name of the draft model in the error message.
void require_same_vocabulary(const Tokenizer* tokenizer, const ModelConfig& config, const std::string& draft,
                             const Tokenizer* draft_tokenizer, const ModelConfig& draft_config);
// Returns the result of make(). If make() throws a usage error, the name of the draft model is added to the
// error message.
template <class Make>
auto made_of_draft(const std::string& draft, Make make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    fail_parameter("draft", "{}: {}", draft, error.what());
  }
}
// Loads adapters like load_adapters. Also throws the errors of require_same_tokens.
std::shared_ptr<const Adapter> fitting_adapters(const LoadedModel& loaded,
                                                const std::vector<std::string>& choices);

// Returns true if the model comes with a chat template.
bool has_chat_template(const LoadedModel& loaded);
// Returns the chat templates that come with the model, by name.
ChatTemplates model_chat_templates(const LoadedModel& loaded);
// Returns the chat template for a model. `name` may be one of the model's templates, a built-in format or a
// .jinja file. If `name` is empty, the model's default template is used, together with its tool template if
// it has one. Throws Error if the model has no template or the template cannot be run, and invalid_argument
// for an unknown name. `parameter` is the option that selects a format, for error messages.
ChatSource model_chat_source(const LoadedModel& loaded, const std::string& name,
                             const std::string& parameter);
// Returns the chat template of a model for a tokenizer, which must outlive the result. Also throws Error if
// the template and the tokenizer do not belong together.
ChatTemplate model_chat_template(const LoadedModel& loaded, const Tokenizer& tokenizer,
                                 const std::string& name, const std::string& parameter);

// Returns the end-of-text tokens of the model that are inside its vocabulary.
std::vector<int32_t> eos_ids(const ModelConfig& config);

// Encodes the text at the start of a sequence. A BOS token is added if the tokenizer's configuration requires
// one, unless no_bos is true. An empty text becomes the model's BOS or, if the model has none, a newline. If
// `special` is true, names of special tokens in the text are encoded as these tokens. Throws Error if a
// tokenizer is needed but `tokenizer` is null.
std::vector<int32_t> prompt_ids(const std::string& text, const Tokenizer* tokenizer,
                                const ModelConfig& config, bool no_bos, bool special = false);
// Returns warnings about a prompt that prompt_ids encoded. If `special` is false, warns about names of
// special tokens in the text, which were encoded as plain text. If `special` is true, warns about two BOS
// tokens at the start. `option` is the name of the setting `special` in the warnings.
std::vector<std::string> prompt_warnings(std::string_view text, std::span<const int32_t> ids,
                                         const Tokenizer* tokenizer, bool special, std::string_view option);

// Returns the bytes of a token. Returns U+FFFD for an id that the model has but the tokenizer lacks.
std::string bytes_of(const Tokenizer& tokenizer, int32_t id);

// Decodes new tokens to text as they arrive. Returns only whole characters, up to the first stop string.
class TextStream {
 public:
  // The tokenizer must outlive the object. If `drop_blank` is true, one leading space is removed from the
  // text. Throws invalid_argument for an empty stop string.
  TextStream(const Tokenizer& tokenizer, const std::vector<std::string>& stops, bool drop_blank = false)
      : tokenizer_(&tokenizer), stops_(stops), drop_blank_(drop_blank) {}

  std::string push(int32_t id);
  std::string finish();  // returns the text that was held back
  bool stopped() const { return stops_.stopped(); }

  // `read_chars` counts the complete characters received. `inside_char` is true if the last token ends inside
  // a character. `shown_chars` counts the characters returned, including a removed leading space.
  int64_t read_chars() const { return read_chars_; }
  bool inside_char() const { return stream_.inside_char(); }
  int64_t shown_chars() const { return shown_chars_; }

 private:
  std::string shown(std::string text);

  const Tokenizer* tokenizer_;
  Utf8Stream stream_;
  StopStrings stops_;
  bool drop_blank_;
  int64_t read_chars_ = 0, shown_chars_ = 0;
};

}  // namespace gpt
