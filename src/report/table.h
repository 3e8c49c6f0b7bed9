#pragma once

#include <string>
#include <vector>

namespace gpt {

// A table of texts with column names. A row may have fewer cells than the header. Cells beyond the last
// column of the header are dropped.
struct TextTable {
  std::vector<std::string> columns;  // empty: a table without a header
  std::vector<std::vector<std::string>> rows;
};

// Formats a number for a cell with the given number of decimals.
std::string fixed(double value, int digits);

// Returns true for cells that are right-aligned: numbers with separators, signs, exponents, units or "%".
bool looks_numeric(const std::string& cell);

// Returns true for each column in which all non-empty cells look numeric and at least one cell is non-empty.
std::vector<bool> numeric_columns(const TextTable& table);

// Formats a table as lines, with two spaces between columns, a rule under the header, right-aligned numeric
// columns, and no trailing spaces. Control characters in cells are made visible (utf8_text.h), so that names
// from untrusted files cannot control the terminal. The text ends with a newline unless it is empty.
std::string format_table(const TextTable& table);

}  // namespace gpt
