#include "data/corpus.h"

#include <algorithm>
#include <bitset>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "text/utf8.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> text_files_below(const std::string& folder) {
  std::vector<std::string> files;
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".txt" && entry.is_regular_file())
        files.push_back(entry.path().string());
    }
  } catch (const fs::filesystem_error& error) {
    fail("cannot read the folder {}: {}", folder, error.code().message());
  }
  if (files.empty()) {
    fail("the folder {} has no text: expected at least one file *.txt in it; name the files one by one",
         folder);
  }
  std::ranges::sort(files);
  return files;
}

void append_document(Corpus& corpus, const std::string& path, std::string text) {
  corpus.documents.push_back({path, corpus.bytes(), static_cast<int64_t>(text.size())});
  if (corpus.text.empty()) {
    corpus.text = std::move(text);
  } else {
    corpus.text += text;
  }
}

}  // namespace

std::string_view Corpus::content(const Document& document) const {
  return std::string_view(text).substr(static_cast<size_t>(document.offset),
                                       static_cast<size_t>(document.bytes));
}

Corpus load_corpus(std::span<const std::string> paths) {
  if (paths.empty()) fail_usage("no text given; name files or folders with --data");
  Corpus corpus;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
      fail("cannot read {}: {}; expected a text file or a folder of *.txt files", path,
           error ? error.message() : "no such file or folder");
    }
    if (fs::is_directory(status)) {
      for (const std::string& file : text_files_below(path))
        append_document(corpus, file, read_file(file));
    } else {
      append_document(corpus, path, read_file(path));
      if (corpus.documents.back().bytes == 0) fail("{} is empty; give a file with text", path);
    }
  }
  if (corpus.text.empty()) {
    fail("the {} text files of {} are all empty; give files with text", corpus.documents.size(), paths[0]);
  }
  return corpus;
}

Corpus corpus_from_text(std::string name, std::string text) {
  if (text.empty()) fail("{} is empty; give some text", name);
  Corpus corpus;
  append_document(corpus, name, std::move(text));
  return corpus;
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
        fail("{} is not valid UTF-8 at byte {} (0x{:02x}); convert it to UTF-8 or use --tokenizer byte",
             document.path, *at,
             static_cast<unsigned>(static_cast<unsigned char>(text[static_cast<size_t>(*at)])));
      }
      texts.push_back(text);
    }
  }
  return make_char_tokenizer(texts);
}

}  // namespace gpt
