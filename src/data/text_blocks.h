#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "data/byte_stream.h"

namespace gpt {

// The files that names stand for, in order.
struct TextFiles {
  std::vector<std::string> files;
  // What every folder gives and what is passed over, a line each; what is named twice.
  std::string notes;
};
// Which files of folders are taken, by shell patterns (*.py, src/*.c) of their name or their path below the
// folder. Files that are named themselves are taken in any case.
struct FolderFilter {
  std::vector<std::string> include;  // none: text and code, by their names (file_kind.h)
  std::vector<std::string> exclude;  // files, and folders with all that is in them
};
// Files by where they are, links followed, so that none is taken twice, whatever it is called.
class NamedFiles {
 public:
  bool add(const std::string& path);  // false when it was named before
  std::string notes();                // what was named again since the last call; lines

 private:
  std::string place(const std::string& path);

  std::unordered_map<std::string, std::string> folders_;  // where they are
  std::unordered_set<std::string> known_;
  std::vector<std::string> again_;
};

// A file is itself; a folder all text below it by path (FolderFilter), links to folders left out; anything
// else a pattern with * ? [...]. A file that is named twice is taken once; one that is in `named` was named
// before. Throws Error for a name that stands for nothing, for a folder that holds a model, and for links
// that lead nowhere.
TextFiles find_text_files(const std::vector<std::string>& names, NamedFiles* named = nullptr,
                          const FolderFilter& filter = {});

// Whether a folder holds config.json beside weights, or the log of a run.
bool is_model_or_run(const std::string& folder);

// Throws Error where a model, a run or shards in the folder `out` would be read as data the next time that
// these names are read (see find_text_files), or hide it: one of them is this folder, or a pattern for files
// in it. Names of other kinds are passed over. Folders in a folder of text are not entered where they hold a
// model, a run or a sweep.
void refuse_output_among_texts(const std::string& out, const std::vector<std::string>& names);

// A place in a list of files: bytes (decompressed) and lines before it.
struct TextPosition {
  int64_t file = 0;
  uint64_t offset = 0;
  int64_t line = 1;
  bool operator==(const TextPosition&) const = default;
};

// Some text from one file.
struct TextBlock {
  std::string text;
  TextPosition begin;
  bool json = false;      // whole lines, each a JSON object
  size_t mark_bytes = 0;  // of a UTF-8 byte order mark, left out in front of the text
  bool begins_document = true, ends_document = true;  // not json: a file is one document
};

struct TextBlockOptions {
  size_t block_bytes = size_t{1} << 20;     // about so many
  size_t max_document = size_t{256} << 20;  // of a line, or of a file that must not be cut
  bool cut_documents = true;                // files are cut where text_cut.h says, else read as a whole
  bool any_bytes = false;                   // see require_text_file
};

// Reads files one after the other in blocks: the one way to text in files. Where a block ends depends on the
// file alone. Throws Error naming the file when it is no text (file_kind.h), and the line where that is too
// long.
class TextBlocks {
 public:
  explicit TextBlocks(std::vector<std::string> files, const TextBlockOptions& options = {});

  bool next(TextBlock& block);  // false at the end of the last file
  // Goes on at a place where a block began.
  void skip_to(const TextPosition& position);

  const std::vector<std::string>& files() const { return files_; }
  const std::string& path(const TextBlock& block) const {
    return files_[static_cast<size_t>(block.begin.file)];
  }
  // Bytes of the files as they are on disk, for showing how far reading has come.
  uint64_t bytes_done() const { return closed_bytes_ + (stream_ ? stream_->consumed() : 0); }
  uint64_t bytes_total() const;

 private:
  bool open_next();
  bool fill(size_t size);
  size_t block_end(bool& last);
  size_t json_end(bool& last);
  [[noreturn]] void fail_long(const char* what) const;

  std::vector<std::string> files_;
  TextBlockOptions options_;
  std::unique_ptr<ByteStream> stream_;
  std::string ahead_;  // read but not handed out
  bool at_end_ = true;
  uint64_t closed_bytes_ = 0;
  TextPosition at_;
};

// Throws Error naming file, line and byte unless the block is valid UTF-8.
void require_utf8(const TextBlock& block, const std::string& path);

// Calls f with the text of every JSON line, the value of the field, which must be a string, and the number of
// the line. Empty lines are passed over. Throws Error naming file and line for what is no JSON object, is
// nested deeper than 32, lacks the field or has it twice.
void for_each_json_text(const TextBlock& block, const std::string& path, const std::string& field,
                        const std::function<void(std::string_view text, int64_t line)>& f);

// What people should know of a block's text, as it is seldom meant.
struct TextFacts {
  bool mark = false;                // a byte order mark is left out in front of it
  int64_t crlf = 0;                 // lines that end with CRLF; of JSON lines none
  int64_t ends = 0;                 // how often <|endoftext|> is written in it, as characters
  std::optional<uint64_t> invalid;  // the first byte of the file that is not UTF-8
};
TextFacts text_facts(const TextBlock& block);

// A line about each of these, for any number of files.
class TextNotes {
 public:
  // The blocks of a file one after the other.
  void add(const std::string& path, const TextFacts& facts);
  std::string lines() const;

 private:
  struct Kind {
    std::string first, last;  // files that have it
    int64_t files = 0, count = 0;

    void add(const std::string& path, int64_t n);
    std::string names() const;  // "a.txt and 3 more files"
  };
  Kind mark_, crlf_, ends_, invalid_;
  uint64_t invalid_at_ = 0;  // in the first of these files
};

// The value of a field of a JSON object, which must be a string. Throws Error naming `place` for what is no
// JSON object, is nested deeper than 32, lacks the field, has it twice or with another type. Other fields may
// hold anything.
std::string json_line_text(std::string_view line, const std::string& field, const std::string& place);

}  // namespace gpt
