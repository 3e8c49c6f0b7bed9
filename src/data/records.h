#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/byte_stream.h"

namespace gpt {

// What is wrong with one record, and not with all of its file.
class RecordError : public Error {
 public:
  using Error::Error;
};
template <class... A>
[[noreturn]] void fail_record(fmt::format_string<A...> format, A&&... args) {
  throw RecordError(ErrorCode::io, "", format, fmt::make_format_args(args...));
}

// A line of a file of JSON lines, or a row of a table.
struct Record {
  int64_t line = 0;                // where it begins
  std::string text;                // the line
  std::vector<std::string> cells;  // of the row, as many as there are columns
};

// Reads .csv and .tsv (also compressed) as tables whose first row has the names of the columns, cells quoted
// as in RFC 4180; any other file as lines. Lines and rows end with \n, \r\n or \r, as in Python. Memory does
// not depend on the size of the file.
class RecordReader {
 public:
  enum class Blank : uint8_t { skip, keep };

  // Throws Error when the file cannot be read, is no text, or has no header.
  explicit RecordReader(const std::string& path, Blank blank = Blank::skip)
      : RecordReader(path, open_byte_stream(path), blank) {}
  // The same for a file that is open.
  RecordReader(const std::string& path, std::unique_ptr<ByteStream> stream, Blank blank = Blank::skip);

  // False at the end. Lines and rows without anything in them are passed over, unless blank ones are kept and
  // there are not several columns. Throws RecordError naming
  // file and line for what is no UTF-8 or longer than 16 MiB, for wrong quotes and a wrong number of cells;
  // the next call goes on behind it. Wrong quotes of a cell over several lines are an Error: rows may be
  // lost.
  bool next(Record& record);
  bool is_table() const { return separator_ != 0; }
  static bool is_table(std::string_view path);  // by its name
  const std::vector<std::string>& columns() const { return columns_; }

 private:
  int peek();
  int get();
  bool at_line_end();
  void end_line();
  bool fill();
  bool next_line(std::string& line);
  bool next_row(std::vector<std::string>& cells);
  std::string quoted_cell(int64_t line);
  [[noreturn]] void fail_quotes(int64_t begin, const std::string& problem) const;
  std::string plain_cell();
  void take(std::string& text, int c) const;
  void skip_line();
  void read_header();

  bool is_passed_over(const Record& record) const;

  std::string path_;
  Blank blank_;
  char separator_ = 0;  // of cells; 0: lines
  std::vector<std::string> columns_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  size_t at_ = 0;
  int64_t line_ = 1, first_line_ = 1;
};

}  // namespace gpt
