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

// A document of a corpus: a whole file, or one row of a JSON Lines file. The bytes of the document are
// text[offset, offset + bytes) of the corpus.
struct Document {
  int64_t file = 0;  // index in Corpus::files
  int64_t line = 0;  // line number of the JSON Lines row; 0 if the document is a whole file
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Documents in memory, concatenated into one string.
struct Corpus {
  std::string text;
  std::vector<std::string> files;
  std::vector<Document> documents;
  // Messages for the user, one per line. They list the files read from each folder and the files skipped.
  std::string notes;

  int64_t bytes() const { return static_cast<int64_t>(text.size()); }
  std::string_view content(const Document& document) const;
  std::string name(const Document& document) const;  // returns "file" or "file:line"
};

struct CorpusOptions {
  bool any_bytes = false;  // the tokenizer accepts bytes that are not text: see require_text_file
  // Files that other corpora have already loaded. load_corpus skips these files and adds the files that it
  // loads.
  NamedFiles* named = nullptr;
  FolderFilter filter = {};    // selects files inside folders
  std::string field = "text";  // name of the JSON Lines field that holds the text
};

// Loads the files that find_text_files returns, as `gpt data pack` does: text or JSON Lines, optionally
// compressed. Skips empty rows. Returns an empty corpus if `options.named` already contains all files. Throws
// Error when a path is missing or is not text, when a file given by name is empty, when all files together
// are empty, or when the corpus does not fit into memory.
Corpus load_corpus(std::span<const std::string> paths, const CorpusOptions& options = {});

// Throws Error unless more than `bytes` bytes of memory are available. Called before a text is loaded and
// encoded in memory. Larger texts can be packed to shards with `gpt data pack`. `text` is the name of the
// text in the error message.
void require_memory(const std::string& text, int64_t bytes);

// Creates a corpus from a text in memory. Messages show `name` as the file name. Throws Error when the text
// is empty.
Corpus corpus_from_text(std::string name, std::string text);

struct CorpusStats {
  int64_t bytes = 0;
  int64_t distinct_bytes = 0;
  std::optional<int64_t> chars;           // absent when the text is not valid UTF-8
  std::optional<int64_t> distinct_chars;  // absent when the text is not valid UTF-8
};
CorpusStats corpus_stats(const Corpus& corpus);

// Opens the tokenizer that the flag --tokenizer names: "byte", "char" (with the characters of all given
// corpora), or the path of a tokenizer.json or model directory. Throws Error if the tokenizer cannot be
// opened. If a corpus is not valid UTF-8, the error names the file and the offset.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& spec, std::span<const Corpus* const> corpora);

}  // namespace gpt
