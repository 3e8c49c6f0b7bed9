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

// The ids of special tokens that a tokenizer's files name, or -1 for tokens that are not named.
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

  // Returns the ids of a text. Throws Error with the byte position if the text cannot be encoded. This
  // happens for a character outside the vocabulary, and for invalid UTF-8 if the tokenizer needs characters.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  // Does the same, but reads the names of special tokens in the text as these tokens. Must only be used for
  // text from templates, never for text from users. Equals `encode` for a tokenizer without special tokens.
  std::vector<int32_t> encode_special(std::string_view text) const {
    const TextRange all{0, text.size()};
    return encode_trusted(text, {&all, 1});
  }

  // Does the same, but only matches special tokens inside one of the ranges, such as the parts of a
  // conversation that its template wrote. The ranges must be sorted and must not overlap.
  virtual std::vector<int32_t> encode_trusted(std::string_view text, std::span<const TextRange>) const {
    return encode(text);
  }

  // Returns the ids of `encode`. Uses many threads if this kind of tokenizer can cut a long text without
  // changing the ids.
  virtual std::vector<int32_t> encode_parallel(std::string_view text, ThreadPool&) const {
    return encode(text);
  }

  // Returns the bytes of a token, which may be an incomplete character. Throws Error if the id is not in the
  // vocabulary.
  virtual std::string token_bytes(int32_t id) const = 0;

  // Returns true if the token can be part of text. Returns false for special, unknown and unused tokens, and
  // for ids without a token.
  virtual bool is_text(int32_t id) const { return id >= 0 && id < vocab_size(); }

  // Returns the bytes of a sequence, unchanged. For display, pass them through Utf8Stream. Throws Error if an
  // id is not in the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const;

  // Returns the tokenizer as a Hugging Face tokenizer.json. The `tokenizers` library computes the same ids
  // from it, and load_tokenizer creates an equal tokenizer.
  virtual std::string to_json() const = 0;

  // Returns the tokenizer as metadata of a GGUF file, see text/vocab_data.h. Throws Error if the GGUF format
  // does not support this kind of tokenizer.
  virtual VocabData vocab_data() const;

  virtual SpecialIds special_ids() const { return {}; }
};

// Creates a tokenizer in which every byte is a token. The id of a token is the value of its byte.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

// Creates a tokenizer whose tokens are the distinct code points of all texts. The ids are 0, 1, ... in sorted
// order. Throws Error if a text is not valid UTF-8 (with the byte offset) or if there are no characters.
std::unique_ptr<Tokenizer> make_char_tokenizer(std::span<const std::string_view> texts);
std::unique_ptr<Tokenizer> make_char_tokenizer(std::string_view text);

// Returns true if a model folder has files that load_tokenizer would try to read.
bool has_tokenizer(const std::string& folder);

// Loads a tokenizer from a file or a folder. Supported files are tokenizer.json, SentencePiece models
// (*.model), tiktoken ranks, and *.bin files (c_vocab.h). In a folder, the first of these is used:
// tokenizer.json, vocab.json with merges.txt, tokenizer.model, tokenizer.bin, gpt2_tokenizer.bin. The tokens
// of folder_tokens.h are added. For the folder of a run, the tokenizer in its subfolder last/ is loaded.
// Throws Error if the tokenizer is missing, malformed or of an unsupported kind.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

// Parses a tokenizer.json that is already in memory. `name` is its name in messages.
std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view json, const std::string& name);

}  // namespace gpt
