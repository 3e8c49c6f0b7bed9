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

// The files that a list of names resolves to, in order.
struct TextFiles {
  std::vector<std::string> files;
  // Messages for the user, one per line. They list the files read and the files skipped in every folder, and
  // the files that were named twice.
  std::string notes;
};
// Selects files in folders by shell patterns (*.py, src/*.c). A pattern is matched against the file name and
// against the file's path relative to the folder. A file that the user names directly is always selected.
struct FolderFilter {
  std::vector<std::string> include;  // empty: text and source code, by file name (file_kind.h)
  std::vector<std::string> exclude;  // excludes files, and folders with all their contents
};
// A set of files, identified by their resolved paths. It prevents a file from being read twice under
// different names.
class NamedFiles {
 public:
  bool add(const std::string& path);  // returns false if the file was named before
  // Returns one line for each file that was named again since the last call.
  std::string notes();

 private:
  std::string place(const std::string& path);

  std::unordered_map<std::string, std::string> folders_;  // resolved path of each folder
  std::unordered_set<std::string> known_;
  std::vector<std::string> again_;
};

// Resolves names to text files. A name can be a file, a folder, or a pattern with * ? [...]. A folder stands
// for all text files in it and its subfolders, filtered by FolderFilter and sorted by path. Links to folders
// are not followed. A file that is named twice is read once. A file that is already in `named` is skipped.
// Throws Error for a name that matches nothing, for a folder that holds a model, and for broken links.
TextFiles find_text_files(const std::vector<std::string>& names, NamedFiles* named = nullptr,
                          const FolderFilter& filter = {});

// Returns true if the folder contains a model, an adapter, a run or a sweep.
bool is_model_or_run(const std::string& folder);

// Throws Error if the folder `out` is one of `names` (see find_text_files), or if one of `names` is a pattern
// that matches an output file in `out`. In both cases, the next run with the same `names` would read the
// output as data, or reject the data folder as a run. A folder of text may contain `out` as a subfolder,
// because find_text_files skips subfolders with a model, a run or a sweep.
void refuse_output_among_texts(const std::string& out, const std::vector<std::string>& names);

// A position in a list of files: the index of the file, the offset in its decompressed bytes, and the line
// number.
struct TextPosition {
  int64_t file = 0;
  uint64_t offset = 0;
  int64_t line = 1;
  bool operator==(const TextPosition&) const = default;
};

// A block of text from one file.
struct TextBlock {
  std::string text;
  TextPosition begin;
  bool json = false;      // the text consists of whole lines, each of them a JSON object
  size_t mark_bytes = 0;  // size of the UTF-8 byte order mark that was removed before the text
  bool begins_document = true, ends_document = true;  // if not json: a file is one document
};

struct TextBlockOptions {
  size_t block_bytes = size_t{1} << 20;     // approximate size of a block
  size_t max_document = size_t{256} << 20;  // maximum size of a line, or of a file that must not be cut
  bool cut_documents = true;                // cut files at safe positions (text_cut.h)
  bool any_bytes = false;                   // see require_text_file
};

// Reads files one after the other in blocks. All text files are read through this class. The boundaries of
// the blocks depend only on the file and the options. Throws Error naming a file that is not text
// (file_kind.h), or a file and line if a line is too long.
class TextBlocks {
 public:
  explicit TextBlocks(std::vector<std::string> files, const TextBlockOptions& options = {});

  bool next(TextBlock& block);  // returns false at the end of the last file
  // Continues at `position`, where a block must begin.
  void skip_to(const TextPosition& position);

  const std::vector<std::string>& files() const { return files_; }
  const std::string& path(const TextBlock& block) const {
    return files_[static_cast<size_t>(block.begin.file)];
  }
  // Return the progress in bytes of the files on disk: the bytes read so far, and all bytes.
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
  std::string ahead_;  // bytes that were read but not yet returned
  bool at_end_ = true;
  uint64_t closed_bytes_ = 0;
  TextPosition at_;
};

// Throws Error naming file, line and byte unless the block is valid UTF-8.
void require_utf8(const TextBlock& block, const std::string& path);

// Calls f with the text and the line number of every JSON line in the block. The text is the value of the
// field, which must be a string. Skips empty lines. Throws Error naming the file and the line if a line is
// not a JSON object, is nested deeper than 32, lacks the field or has it twice.
void for_each_json_text(const TextBlock& block, const std::string& path, const std::string& field,
                        const std::function<void(std::string_view text, int64_t line)>& f);

// Unusual properties of a text. They are rarely intended, so they are reported to the user.
struct TextFacts {
  bool mark = false;                // a byte order mark was removed before the text
  int64_t crlf = 0;                 // number of lines that end with CRLF; 0 for JSON Lines
  int64_t ends = 0;                 // number of times that the text contains <|endoftext|>
  std::optional<uint64_t> invalid;  // offset in the file of the first byte that is not UTF-8
};
TextFacts text_facts(const TextBlock& block);

// Summarizes the facts about any number of files, with one line per kind of fact.
class TextNotes {
 public:
  // Blocks of the same file must be added consecutively.
  void add(const std::string& path, const TextFacts& facts);
  std::string lines() const;

 private:
  struct Kind {
    std::string first, last;  // first and last file with this fact
    int64_t files = 0, count = 0;

    void add(const std::string& path, int64_t n);
    std::string names() const;  // returns text such as "a.txt and 3 more files"
  };
  Kind mark_, crlf_, ends_, invalid_;
  uint64_t invalid_at_ = 0;  // offset in the first file that is not UTF-8
};

// Returns the value of a field in a JSON object. Throws Error naming `place` if the line is not a JSON object
// or is nested deeper than 32, or if the field is missing, occurs twice or is not a string. Other fields may
// have any value.
std::string json_line_text(std::string_view line, const std::string& field, const std::string& place);

}  // namespace gpt
