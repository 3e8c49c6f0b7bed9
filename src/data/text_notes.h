#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/text_blocks.h"

namespace gpt {

// What people should know of a block's text, as it is seldom meant.
struct TextFacts {
  bool mark = false;                // a byte order mark is left out in front of it
  int64_t crlf = 0;                 // lines that end with CRLF; of JSON lines none
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
  Kind mark_, crlf_, invalid_;
  uint64_t invalid_at_ = 0;  // in the first of these files
};

}  // namespace gpt
