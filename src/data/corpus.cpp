#include "data/corpus.h"

#include <algorithm>
#include <bitset>

#include "base/error.h"
#include "base/file.h"
#include "base/process_memory.h"
#include "base/utf8.h"
#include "data/text_blocks.h"

namespace gpt {
namespace {

class CorpusReader {
 public:
  CorpusReader(std::vector<std::string> files, const CorpusOptions& options)
      : blocks_(std::move(files), {.any_bytes = options.any_bytes}), field_(options.field) {}

  Corpus read() {
    corpus_.files = blocks_.files();
    for (TextBlock block; blocks_.next(block);) {
      reserve(block);
      notes_.add(blocks_.path(block), text_facts(block));
      block.json ? add_rows(block) : add_text(block);
    }
    corpus_.notes = notes_.lines();
    if (empty_rows_ > 0) corpus_.notes += fmt::format("{} empty rows skipped\n", empty_rows_);
    return std::move(corpus_);
  }

 private:
  void reserve(const TextBlock& block) {
    const std::string& path = blocks_.path(block);
    std::string& text = corpus_.text;
    if (block.begin.offset == 0) {
      const uint64_t size = file_bytes(path);
      require_memory(path, static_cast<int64_t>(size));
      text.reserve(text.size() + size);
    }
    const size_t needed = text.size() + block.text.size();
    // Growing the string needs memory for the old and the new buffer at the same time.
    if (needed > text.capacity()) require_memory(path, static_cast<int64_t>(2 * needed));
  }
  void add_text(const TextBlock& block) {
    if (block.begins_document) corpus_.documents.push_back({block.begin.file, 0, corpus_.bytes(), 0});
    corpus_.text += block.text;
    corpus_.documents.back().bytes += std::ssize(block.text);
  }
  void add_rows(const TextBlock& block) {
    for_each_json_text(block, blocks_.path(block), field_, [&](std::string_view text, int64_t line) {
      if (text.empty()) {
        ++empty_rows_;
        return;
      }
      corpus_.documents.push_back({block.begin.file, line, corpus_.bytes(), std::ssize(text)});
      corpus_.text += text;
    });
  }

  TextBlocks blocks_;
  std::string field_;
  Corpus corpus_;
  TextNotes notes_;
  int64_t empty_rows_ = 0;
};

// Throws Error if a file given by name is empty. Adds a note for each empty file found in a folder.
void require_text(Corpus& corpus, std::span<const std::string> names) {
  std::vector<bool> has_text(corpus.files.size());
  for (const Document& document : corpus.documents)
    has_text[static_cast<size_t>(document.file)] = true;
  for (size_t i = 0; i < corpus.files.size(); ++i) {
    if (has_text[i]) continue;
    if (std::ranges::find(names, corpus.files[i]) != names.end())
      fail("{} is empty; give a file with text", corpus.files[i]);
    corpus.notes += corpus.files[i] + " is empty\n";
  }
  if (corpus.text.empty())
    fail("all {} text files in {} are empty; give files with text", corpus.files.size(), names[0]);
}

}  // namespace

void require_memory(const std::string& text, int64_t bytes) {
  const int64_t free = available_memory();
  if (free == 0 || bytes < free) return;
  fail_memory(
      "{} does not fit into memory: expected at most {} more bytes, found {}; pack it with gpt data pack, "
      "which keeps the tokens on disk",
      text, free, bytes);
}

std::string_view Corpus::content(const Document& document) const {
  return std::string_view(text).substr(static_cast<size_t>(document.offset),
                                       static_cast<size_t>(document.bytes));
}

std::string Corpus::name(const Document& document) const {
  const std::string& path = files[static_cast<size_t>(document.file)];
  return document.line == 0 ? path : fmt::format("{}:{}", path, document.line);
}

Corpus load_corpus(std::span<const std::string> paths, const CorpusOptions& options) {
  TextFiles found = find_text_files({paths.begin(), paths.end()}, options.named, options.filter);
  if (found.files.empty()) return {.text = {}, .files = {}, .documents = {}, .notes = std::move(found.notes)};
  Corpus corpus = CorpusReader(std::move(found.files), options).read();
  require_text(corpus, paths);
  corpus.notes = found.notes + corpus.notes;
  return corpus;
}

Corpus corpus_from_text(std::string name, std::string text) {
  if (text.empty()) fail("{} is empty; give some text", name);
  const auto bytes = std::ssize(text);
  return {.text = std::move(text), .files = {std::move(name)}, .documents = {{0, 0, 0, bytes}}, .notes = {}};
}

CorpusStats corpus_stats(const Corpus& corpus) {
  std::bitset<256> bytes;
  for (const char c : corpus.text)
    bytes.set(static_cast<unsigned char>(c));
  CorpusStats stats{corpus.bytes(), static_cast<int64_t>(bytes.count()), {}, {}};
  std::vector<bool> seen(0x110000, false);
  int64_t chars = 0;
  for (size_t at = 0; at < corpus.text.size(); ++chars) {
    const Utf8Char c = decode_utf8(corpus.text, at);
    if (c.status != Utf8Status::valid) return stats;
    seen[c.code] = true;
    at += static_cast<size_t>(c.length);
  }
  stats.chars = chars;
  stats.distinct_chars = std::ranges::count(seen, true);
  return stats;
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& spec, std::span<const Corpus* const> corpora) {
  if (spec == "byte") return make_byte_tokenizer();
  if (spec != "char") return load_tokenizer(spec);
  std::vector<std::string_view> texts;
  for (const Corpus* corpus : corpora) {
    for (const Document& document : corpus->documents) {
      const std::string_view text = corpus->content(document);
      if (const auto at = first_invalid_utf8(text)) {
        fail("{} is not valid UTF-8 at byte {} (0x{:02x}); convert it to UTF-8 or use `tokenizer` byte",
             corpus->name(document), *at,
             static_cast<unsigned>(static_cast<unsigned char>(text[static_cast<size_t>(*at)])));
      }
      texts.push_back(text);
    }
  }
  return make_char_tokenizer(texts);
}

}  // namespace gpt
