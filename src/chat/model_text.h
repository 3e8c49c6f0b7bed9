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

// The tokenizer that a name means: byte, a file or folder as load_tokenizer takes it, or a .gguf.
std::unique_ptr<Tokenizer> named_tokenizer(const std::string& name);
// The tokenizer that a model is used with: the named one, or without a name the model's own or what its GGUF
// file describes; null when there is none. Throws Error when its vocabulary exceeds the model's.
std::unique_ptr<Tokenizer> model_tokenizer(const LoadedModel& loaded, const std::string& name);

// Throws Error where a tokenizer was saved with an adapter, as fine-tuning does, and an id is another text
// for it than for the model's own. Added tokens may differ, and nothing is said of tokenizers that cannot be
// read.
void require_same_tokens(const LoadedModel& loaded, const std::string& adapter);
// Returns a line if the file of an adapter names a different model as its base; else "". Names are compared
// if the paths differ, since a model may have been moved. GGUF files do not have these names.
std::string note_other_base(const LoadedModel& loaded, const std::string& adapter);
// The notes about several adapters, each as a line that begins with "note: ".
std::string notes_of_other_bases(const LoadedModel& loaded, const std::vector<std::string>& choices);
// Throws Error where the ids of a draft model, which is to propose tokens of a model, are not those of the
// model: other texts, or without tokenizers (null) another number of them. `draft`: its name, for the
// message.
void require_same_vocabulary(const Tokenizer* tokenizer, const ModelConfig& config, const std::string& draft,
                             const Tokenizer* draft_tokenizer, const ModelConfig& draft_config);
// What make() makes of the draft model in `draft`; a usage error says that it is the draft's.
template <class Make>
auto made_of_draft(const std::string& draft, Make make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    fail_parameter("draft", "{}: {}", draft, error.what());
  }
}
// load_adapters of adapters that are for the model's tokens.
std::shared_ptr<const Adapter> fitting_adapters(const LoadedModel& loaded,
                                                const std::vector<std::string>& choices);

// Whether a model has a chat template of its own.
bool has_chat_template(const LoadedModel& loaded);
// The model's own chat templates by name.
ChatTemplates model_chat_templates(const LoadedModel& loaded);
// The template of a model's conversations: the model's template of that name, that of the named format or
// .jinja file, or without a name the model's own, with the one for tools if it has one. Throws Error where it
// has none or one that cannot be run, invalid_argument for an unknown name; `parameter`: how one names a
// format, for these.
ChatSource model_chat_source(const LoadedModel& loaded, const std::string& name,
                             const std::string& parameter);
// The same for a tokenizer, which must outlive it. Throws Error also where the two do not belong together.
ChatTemplate model_chat_template(const LoadedModel& loaded, const Tokenizer& tokenizer,
                                 const std::string& name, const std::string& parameter);

// The tokens that end a text, as far as the vocabulary has them.
std::vector<int32_t> eos_ids(const ModelConfig& config);

// The ids of a text that begins a sequence: behind BOS where its tokenizer says that texts are (unless
// no_bos). No text is the model's BOS, where it has one, else a newline. special: the names of special tokens
// in the text are these tokens. Throws Error where it takes a tokenizer and there is none (null).
std::vector<int32_t> prompt_ids(const std::string& text, const Tokenizer* tokenizer,
                                const ModelConfig& config, bool no_bos, bool special = false);
// Warnings about a prompt whose ids are those of prompt_ids: names of special tokens that were read as text,
// or with `special` two BOS tokens at the beginning. option: how the caller names `special`.
std::vector<std::string> prompt_warnings(std::string_view text, std::span<const int32_t> ids,
                                         const Tokenizer* tokenizer, bool special, std::string_view option);

// The bytes of a token; U+FFFD for ids that the vocabulary of the model has and the tokenizer lacks.
std::string bytes_of(const Tokenizer& tokenizer, int32_t id);

// The text of new tokens as they arrive: whole characters, up to the first stop string.
class TextStream {
 public:
  // The tokenizer must outlive the object. drop_blank: one in front is no part of the text. Throws
  // invalid_argument for an empty stop string.
  TextStream(const Tokenizer& tokenizer, const std::vector<std::string>& stops, bool drop_blank = false)
      : tokenizer_(&tokenizer), stops_(stops), drop_blank_(drop_blank) {}

  std::string push(int32_t id);
  std::string finish();  // what was held back
  bool stopped() const { return stops_.stopped(); }

  // Characters that came in whole, and whether the last token ends inside another; characters that came out,
  // a dropped blank among them.
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
