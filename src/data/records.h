#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/byte_stream.h"

namespace gpt {

// Thrown for a problem that affects one record. The other records of the file can still be read.
class RecordError : public Error {
 public:
  using Error::Error;
};
template <class... A>
[[noreturn]] void fail_record(fmt::format_string<A...> format, A&&... args) {
  throw RecordError(ErrorCode::io, "", format, fmt::make_format_args(args...));
}

// A line of a JSON Lines file, or a row of a table.
struct Record {
  int64_t line = 0;                // line number where the record begins
  std::string text;                // the line; empty for a table
  std::vector<std::string> cells;  // the cells of the row, one per column
};

// Reads a file record by record. Files with the ending .csv or .tsv, also compressed, are tables: the first
// row has the column names, and cells are quoted as in RFC 4180. In all other files, each line is a record.
// Lines and rows end with \n, \r\n or \r, as in Python. Memory use does not depend on the file size.
class RecordReader {
 public:
  enum class Blank : uint8_t { skip, keep };

  // Throws Error when the file cannot be read, is not text, or has no header.
  explicit RecordReader(const std::string& path, Blank blank = Blank::skip)
      : RecordReader(path, open_byte_stream(path), blank) {}
  // Reads from a stream that is already open.
  RecordReader(const std::string& path, std::unique_ptr<ByteStream> stream, Blank blank = Blank::skip);

  // Reads the next record. Returns false at the end. Skips blank lines and rows; with Blank::keep, skips
  // blank rows only in tables with several columns. Throws RecordError naming the file and the line for
  // invalid UTF-8, for records longer than 16 MiB, for wrong quotes and for a wrong number of cells. The next
  // call then continues after the bad record. Throws Error for wrong quotes in a cell that spans several
  // lines, because rows may be lost.
  bool next(Record& record);
  bool is_table() const { return separator_ != 0; }
  static bool is_table(std::string_view path);  // decides by the file name
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
  char separator_ = 0;  // separator of cells; 0 if the file is read line by line
  std::vector<std::string> columns_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  size_t at_ = 0;
  int64_t line_ = 1, first_line_ = 1;
};

}  // namespace gpt
