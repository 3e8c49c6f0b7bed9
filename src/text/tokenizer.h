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

// The tokens with a task of their own, as far as a tokenizer's file names them; -1: none.
struct SpecialIds {
  int64_t bos = -1, eos = -1, unk = -1, pad = -1;
  std::optional<bool> add_bos,
      add_eos;  // whether texts are meant to begin or end with these; `encode` adds none
};

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin, end;
};

// Turns text into token ids and back. Immutable: safe to share between threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view kind() const = 0;  // "byte", "char", "bpe", "sentencepiece", "gpt1"
  virtual int64_t vocab_size() const = 0;     // ids are 0 .. vocab_size() - 1

  // The ids of a text. Throws Error when the text cannot be represented (a character outside the
  // vocabulary, invalid UTF-8 where characters are needed), naming the place.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  // The same, with the names of special tokens in the text read as those tokens: only for text from
  // templates, never for a user's. The same as `encode` where there are no special tokens.
  std::vector<int32_t> encode_special(std::string_view text) const {
    const TextRange all{0, text.size()};
    return encode_trusted(text, {&all, 1});
  }

  // The same, where a special token is found only inside of one of the ranges, which are in order and apart:
  // the parts of a conversation that its template wrote.
  virtual std::vector<int32_t> encode_trusted(std::string_view text, std::span<const TextRange>) const {
    return encode(text);
  }

  // The ids of `encode`, computed by many threads where the kind of tokenizer has places at which a long text
  // can be cut without changing them.
  virtual std::vector<int32_t> encode_parallel(std::string_view text, ThreadPool&) const {
    return encode(text);
  }

  // The bytes that a token stands for; they need not be whole characters. Throws Error when the id is
  // not in the vocabulary.
  virtual std::string token_bytes(int32_t id) const = 0;

  // Whether a token is part of texts: special, unknown and unused ones are not, nor ids without a token.
  virtual bool is_text(int32_t id) const { return id >= 0 && id < vocab_size(); }

  // The bytes of a sequence, unchanged: for showing, pass them through Utf8Stream. Throws Error when
  // an id is not in the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const;

  // The tokenizer as a Hugging Face tokenizer.json, from which `tokenizers` gives the same ids and
  // load_tokenizer an equal tokenizer.
  virtual std::string to_json() const = 0;

  // The tokenizer as metadata of a GGUF file: text/vocab_data.h. Throws Error where the format has no such
  // kind.
  virtual VocabData vocab_data() const;

  virtual SpecialIds special_ids() const { return {}; }
};

// Every byte is a token and its value the id.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

// The sorted distinct code points of all texts, numbered from 0. Throws Error when a text is not valid
// UTF-8 (naming the byte offset) or when there is no character at all.
std::unique_ptr<Tokenizer> make_char_tokenizer(std::span<const std::string_view> texts);
std::unique_ptr<Tokenizer> make_char_tokenizer(std::string_view text);

// Whether a model directory has files that load_tokenizer would try to read.
bool has_tokenizer(const std::string& folder);

// Reads a tokenizer.json, a SentencePiece model (*.model), tiktoken's ranks, a *.bin (c_vocab.h); or what a
// folder has of tokenizer.json, vocab.json and merges.txt, tokenizer.model (with the tokens of
// folder_tokens.h), tokenizer.bin, gpt2_tokenizer.bin, in this order, or its last/ where it is a run. Throws
// Error when it is missing, malformed or of a kind that cannot be read.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

// The same for content already in memory; `name` stands for it in messages.
std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view json, const std::string& name);

}  // namespace gpt
