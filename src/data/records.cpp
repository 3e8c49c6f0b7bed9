#include "data/records.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "data/file_kind.h"

namespace gpt {
namespace {

constexpr size_t kMaxRecord = size_t{16} << 20;
constexpr std::string_view kMark = "\xef\xbb\xbf";

char separator_of(std::string_view path) {
  for (const std::string_view packed : {".gz", ".zst"}) {
    if (has_ending(path, packed)) path.remove_suffix(packed.size());
  }
  if (has_ending(path, ".csv")) return ',';
  return has_ending(path, ".tsv") ? '\t' : '\0';
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

bool RecordReader::is_table(std::string_view path) {
  return separator_of(path) != 0;
}

RecordReader::RecordReader(const std::string& path, std::unique_ptr<ByteStream> stream, Blank blank)
    : path_(path), blank_(blank), separator_(separator_of(path)), stream_(std::move(stream)) {
  fill();
  if (buffer_.starts_with(kMark)) at_ = kMark.size();
  if (separator_ != 0) {
    read_header();
  } else {
    require_text_file({.path = path, .first = buffer_, .compressed = stream_->compressed()}, false);
  }
}

void RecordReader::read_header() {
  if (!next_row(columns_)) fail("{}: expected a header row with the column names, found nothing", path_);
  std::vector<std::string> sorted = columns_;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) fail("{}:1: the column \"{}\" occurs twice", path_, *twice);
}

bool RecordReader::fill() {
  buffer_.resize(kLookBytes);
  buffer_.resize(stream_->read(buffer_));
  at_ = 0;
  return !buffer_.empty();
}

int RecordReader::peek() {
  if (at_ == buffer_.size() && !fill()) return EOF;
  return static_cast<unsigned char>(buffer_[at_]);
}

int RecordReader::get() {
  const int c = peek();
  if (c == EOF) return EOF;
  ++at_;
  if (c == '\n' || (c == '\r' && peek() != '\n')) ++line_;
  return c;
}

bool RecordReader::at_line_end() {
  return peek() == '\n' || peek() == '\r' || peek() == EOF;
}

void RecordReader::end_line() {
  if (get() == '\r' && peek() == '\n') get();
}

void RecordReader::skip_line() {
  while (!at_line_end())
    get();
  end_line();
}

void RecordReader::take(std::string& text, int c) const {
  if (text.size() == kMaxRecord)
    fail_record("{}:{}: the line or cell is longer than {} bytes", path_, first_line_, kMaxRecord);
  text += static_cast<char>(c);
}

bool RecordReader::next_line(std::string& line) {
  line.clear();
  if (peek() == EOF) return false;
  while (!at_line_end())
    take(line, get());
  end_line();
  return true;
}

std::string RecordReader::plain_cell() {
  std::string cell;
  while (peek() != separator_ && !at_line_end())
    take(cell, get());
  return cell;
}

// A quoted cell that spans several lines may contain whole rows by mistake. Skipping only this record would
// lose these rows without notice, so the error applies to the whole file.
void RecordReader::fail_quotes(int64_t begin, const std::string& problem) const {
  if (line_ == begin) throw RecordError(problem);
  fail(
      "{}; fix the quotes of the cell that begins in line {}: it may contain whole rows, so it cannot be "
      "skipped",
      problem, begin);
}

std::string RecordReader::quoted_cell(int64_t line) {
  std::string cell;
  get();
  for (int c = get();; c = get()) {
    if (c == EOF)
      fail_quotes(line, fmt::format("{}:{}: the opening quote of a cell is never closed", path_, line));
    if (c == '"' && peek() != '"') break;
    if (cell.size() == kMaxRecord)
      fail_quotes(line,
                  fmt::format("{}:{}: the line or cell is longer than {} bytes", path_, line, kMaxRecord));
    cell += static_cast<char>(c == '"' ? get() : c);
  }
  if (peek() != separator_ && !at_line_end()) {
    fail_quotes(
        line,
        fmt::format(
            "{}:{}: expected the end of the cell after its closing quote; double the quotes inside a cell",
            path_, line_));
  }
  return cell;
}

bool RecordReader::next_row(std::vector<std::string>& cells) {
  cells.clear();
  if (peek() == EOF) return false;
  for (;;) {
    cells.push_back(peek() == '"' ? quoted_cell(line_) : plain_cell());
    if (peek() != separator_) break;
    get();
  }
  end_line();
  return true;
}

bool RecordReader::is_passed_over(const Record& record) const {
  if (blank_ == Blank::keep && columns_.size() <= 1) return false;
  const auto& cells = record.cells;
  return separator_ == 0 ? is_blank(record.text) : cells.size() == 1 && is_blank(cells[0]);
}

bool RecordReader::next(Record& record) {
  for (;;) {
    record.line = first_line_ = line_;
    try {
      if (separator_ == 0 ? !next_line(record.text) : !next_row(record.cells)) return false;
    } catch (const RecordError&) {
      skip_line();
      throw;
    }
    if (is_passed_over(record)) continue;
    const auto& cells = record.cells;
    const auto valid = [](const std::string& text) { return !first_invalid_utf8(text); };
    if (!valid(record.text) || !std::ranges::all_of(cells, valid))
      fail_record("{}:{}: not valid UTF-8; convert it to UTF-8", path_, record.line);
    if (separator_ != 0 && cells.size() != columns_.size()) {
      fail_record("{}:{}: expected {} cells as in the header row, found {}", path_, record.line,
                  columns_.size(), cells.size());
    }
    return true;
  }
}

}  // namespace gpt
