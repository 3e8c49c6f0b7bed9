#pragma once

#include <string>
#include <vector>

namespace gpt {

// Rows of text under column names. Rows may be shorter than the header; longer ones lose the rest.
struct TextTable {
  std::vector<std::string> columns;  // empty = a table without a header line
  std::vector<std::vector<std::string>> rows;
};

// A number for a cell, with so many digits behind the point.
std::string fixed(double value, int digits);

// True for what should be set flush right: numbers with separators, signs, exponents, units or "%".
bool looks_numeric(const std::string& cell);

// For each column, whether every non-empty cell in it looks numeric (and there is at least one).
std::vector<bool> numeric_columns(const TextTable& table);

// The table as lines, two spaces between columns, a rule under the header, numeric columns flush right,
// no trailing spaces. Cells are made visible (utf8_text.h), so names from untrusted files cannot steer the
// terminal. Ends with a newline unless empty.
std::string format_table(const TextTable& table);

}  // namespace gpt
