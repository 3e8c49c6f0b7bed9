#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace gpt {

// One file of a corpus: its bytes are text[offset, offset + bytes).
struct Document {
  std::string path;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Texts, one after the other without separator.
struct Corpus {
  std::string text;
  std::vector<Document> documents;

  int64_t bytes() const { return static_cast<int64_t>(text.size()); }
  std::string_view content(const Document& document) const;
};

// Reads files and folders; a folder stands for all *.txt below it, in order of their paths. Throws Error
// when a path is missing, a folder has no *.txt, or a file given by name or everything together is empty.
Corpus load_corpus(std::span<const std::string> paths);

// A corpus from memory; `name` stands for it in messages. Throws Error when the text is empty.
Corpus corpus_from_text(std::string name, std::string text);

struct CorpusStats {
  int64_t bytes = 0;
  int64_t distinct_bytes = 0;
  std::optional<int64_t> chars;           // absent when the text is not valid UTF-8
  std::optional<int64_t> distinct_chars;  // likewise
};
CorpusStats corpus_stats(const Corpus& corpus);

// What the flag --tokenizer names: "byte", "char" (the characters of all the given corpora), or the path
// of a tokenizer.json or model directory. Throws Error; invalid UTF-8 is reported with file and offset.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& spec, std::span<const Corpus* const> corpora);

}  // namespace gpt
