#include "report/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "report/utf8_text.h"

namespace gpt {
namespace {

size_t column_count(const TextTable& table) {
  size_t count = table.columns.size();
  if (count > 0) return count;
  for (const auto& row : table.rows)
    count = std::max(count, row.size());
  return count;
}

std::string cell_at(const std::vector<std::string>& row, size_t column) {
  return column < row.size() ? visible_text(row[column]) : std::string();
}

std::vector<int> column_widths(const TextTable& table, size_t columns) {
  std::vector<int> widths(columns, 0);
  for (size_t c = 0; c < columns; ++c) {
    widths[c] = display_width(cell_at(table.columns, c));
    for (const auto& row : table.rows)
      widths[c] = std::max(widths[c], display_width(cell_at(row, c)));
  }
  return widths;
}

std::string format_row(const std::vector<std::string>& row, const std::vector<int>& widths,
                       const std::vector<bool>& numeric) {
  std::string line;
  for (size_t c = 0; c < widths.size(); ++c) {
    if (c > 0) line += "  ";
    const std::string cell = cell_at(row, c);
    const auto padding = static_cast<size_t>(widths[c] - display_width(cell));
    if (numeric[c]) line.append(padding, ' ');
    line += cell;
    if (!numeric[c]) line.append(padding, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string rule(const std::vector<int>& widths) {
  std::string line;
  for (size_t c = 0; c < widths.size(); ++c) {
    if (c > 0) line += "  ";
    line.append(static_cast<size_t>(widths[c]), '-');
  }
  return line + "\n";
}

}  // namespace

std::string fixed(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

bool looks_numeric(const std::string& cell) {
  size_t i = 0;
  if (i < cell.size() && (cell[i] == '+' || cell[i] == '-')) ++i;
  if (i < cell.size() && cell[i] == '.') ++i;
  if (i >= cell.size() || std::isdigit(static_cast<unsigned char>(cell[i])) == 0) {
    return cell == "nan" || cell == "inf" || cell == "-inf" || cell == "?" || cell == "-";
  }
  // After the digits, a single word is allowed as a unit: "10.8 M", "87.3 %", "1.50 GiB", "12 tok/s", "3e-4".
  const size_t end = cell.find_first_not_of("0123456789.,eE+-", i);
  if (end == std::string::npos) return true;
  const size_t unit = cell[end] == ' ' ? end + 1 : end;
  return cell.size() - unit <= 6 && cell.find_first_of(" 0123456789", unit) == std::string::npos;
}

std::vector<bool> numeric_columns(const TextTable& table) {
  std::vector<bool> numeric(column_count(table), false);
  for (size_t c = 0; c < numeric.size(); ++c) {
    bool any = false, all = true;
    for (const auto& row : table.rows) {
      if (c >= row.size() || row[c].empty()) continue;
      any = true;
      all = all && looks_numeric(row[c]);
    }
    numeric[c] = any && all;
  }
  return numeric;
}

std::string format_table(const TextTable& table) {
  const size_t columns = column_count(table);
  const std::vector<int> widths = column_widths(table, columns);
  const std::vector<bool> numeric = numeric_columns(table);
  std::string out;
  if (!table.columns.empty()) out += format_row(table.columns, widths, numeric) + rule(widths);
  for (const auto& row : table.rows)
    out += format_row(row, widths, numeric);
  return out;
}

}  // namespace gpt
