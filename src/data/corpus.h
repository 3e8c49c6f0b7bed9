#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_blocks.h"
#include "text/tokenizer.h"

namespace gpt {

// A file of a corpus, or a row of a file of JSON lines: its bytes are text[offset, offset + bytes).
struct Document {
  int64_t file = 0;  // in Corpus::files
  int64_t line = 0;  // of the row; 0: all of the file
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Texts, one after the other.
struct Corpus {
  std::string text;
  std::vector<std::string> files;
  std::vector<Document> documents;
  std::string notes;  // for people: what folders give and what is passed over; lines

  int64_t bytes() const { return static_cast<int64_t>(text.size()); }
  std::string_view content(const Document& document) const;
  std::string name(const Document& document) const;  // "file" or "file:line"
};

struct CorpusOptions {
  bool any_bytes = false;       // the tokenizer takes bytes that are no text: see require_text_file
  NamedFiles* named = nullptr;  // files of other corpora, which are left out, and then those of this one
  FolderFilter filter = {};     // of folders
  std::string field = "text";   // of the text in JSON lines
};

// Reads what find_text_files finds, as `gpt data pack` does: text, JSON lines, either compressed. Empty rows
// are left out; nothing is left where all was named before. Throws Error when a path is missing or no text, a
// file given by name or everything together is empty, or it does not fit into memory.
Corpus load_corpus(std::span<const std::string> paths, const CorpusOptions& options = {});

// Throws Error where so many bytes more do not fit into memory, for which a text is kept whole and encoded;
// packing is for larger ones. `text`: its name in the message.
void require_memory(const std::string& text, int64_t bytes);

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
