#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

class ThreadPool;
struct VocabData;

// The ids of special tokens. An id is -1 if the files of the tokenizer do not name the token.
struct SpecialIds {
  int64_t bos = -1, eos = -1, unk = -1, pad = -1;
  std::optional<bool> add_bos,
      add_eos;  // true if texts are meant to begin or end with these tokens; `encode` does not add them
};

// The bytes [begin, end) of a text.
struct TextRange {
  size_t begin, end;
};

// Converts text to token ids and back. Immutable and safe to share between threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view kind() const = 0;  // "byte", "char", "bpe", "sentencepiece", "gpt1"
  virtual int64_t vocab_size() const = 0;     // ids are 0 .. vocab_size() - 1

  // Encodes a text. Throws Error with the byte position if the text cannot be encoded. A text cannot be
  // encoded if it contains a character outside the vocabulary, or if it contains invalid UTF-8 and the
  // tokenizer only encodes characters.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  // Encodes a text in which the names of special tokens are read as these tokens. Must only be used for text
  // from templates, never for text from users. Returns the same ids as `encode` if the tokenizer has no
  // special tokens.
  std::vector<int32_t> encode_special(std::string_view text) const {
    const TextRange all{0, text.size()};
    return encode_trusted(text, {&all, 1});
  }

  // Encodes a text in which special tokens only match inside the given ranges, such as the parts of a
  // conversation that a template wrote. The ranges must be sorted and must not overlap.
  virtual std::vector<int32_t> encode_trusted(std::string_view text, std::span<const TextRange>) const {
    return encode(text);
  }

  // Encodes a text like `encode`, with several threads if the tokenizer can cut a long text without changing
  // the ids.
  virtual std::vector<int32_t> encode_parallel(std::string_view text, ThreadPool&) const {
    return encode(text);
  }

  // Returns the bytes of a token, which may be a part of a character. Throws Error if the id is not in the
  // vocabulary.
  virtual std::string token_bytes(int32_t id) const = 0;

  // Returns true if a token can be part of text. Returns false for special, unknown and unused tokens, and
  // for ids without a token.
  virtual bool is_text(int32_t id) const { return id >= 0 && id < vocab_size(); }

  // Returns the unmodified bytes of a token sequence. For display, the bytes must be passed through
  // Utf8Stream. Throws Error if an id is not in the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const;

  // Returns the tokenizer as a Hugging Face tokenizer.json. With this file, the `tokenizers` library computes
  // the same ids, and load_tokenizer creates an equal tokenizer.
  virtual std::string to_json() const = 0;

  // Returns the tokenizer as the metadata of a GGUF file, see text/vocab_data.h. Throws Error if GGUF files
  // do not support this kind of tokenizer.
  virtual VocabData vocab_data() const;

  virtual SpecialIds special_ids() const { return {}; }
};

// Creates a tokenizer in which every byte is a token. The id of a token is the value of the byte.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

// Creates a tokenizer whose tokens are the distinct code points of all texts. The sorted code points have the
// ids 0, 1, and so on. Throws Error with the byte offset if a text is not valid UTF-8. Throws Error if there
// are no characters.
std::unique_ptr<Tokenizer> make_char_tokenizer(std::span<const std::string_view> texts);
std::unique_ptr<Tokenizer> make_char_tokenizer(std::string_view text);

// Returns true if a model folder has files that load_tokenizer would try to read.
bool has_tokenizer(const std::string& folder);

// Loads a tokenizer from a file or a folder. A file may be a tokenizer.json, a SentencePiece model (*.model),
// tiktoken ranks, or a *.bin (c_vocab.h). A folder may contain tokenizer.json, vocab.json and merges.txt,
// tokenizer.model, tokenizer.bin, or gpt2_tokenizer.bin; the first one in this order is used. The added
// tokens of the folder (folder_tokens.h) are included. In the folder of a training run, the tokenizer of the
// subfolder last/ is used. Throws Error if the tokenizer is missing, malformed or of an unsupported kind.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

// Parses the content of a tokenizer.json. `name` is the name of the file in messages.
std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view json, const std::string& name);

}  // namespace gpt
