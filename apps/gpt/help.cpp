#include "help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/parse.h"
#include "command_doc.h"
#include "report/utf8_text.h"

namespace gpt {
namespace {

constexpr int kWidth = 80;
constexpr int kMostLabel = 27;  // longer labels get a line of their own

// Breaks a text at spaces into lines of at most `width` columns. A longer word gets its own line.
std::vector<std::string> wrapped(const std::string& text, int width) {
  std::vector<std::string> lines(1);
  for (const std::string_view view : split(text, ' ')) {
    const std::string word(view);
    if (!lines.back().empty() && display_width(lines.back()) + 1 + display_width(word) > width)
      lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

// Formats "  LABEL   text" with the text in its own column.
std::string entry(const std::string& label, const std::string& text, int label_width) {
  std::string out = "  " + label;
  const int column = 2 + label_width + 2;
  const bool fits = display_width(label) <= label_width;
  bool first = true;
  for (const std::string& line : wrapped(text, kWidth - column)) {
    if (first && fits) {
      out += std::string(static_cast<size_t>(column - 2 - display_width(label)), ' ') + line + "\n";
    } else {
      out += (first ? "\n" : "") + std::string(static_cast<size_t>(column), ' ') + line + "\n";
    }
    first = false;
  }
  return out;
}

std::string section(const DocSection& section) {
  if (section.entries.empty()) return "";
  int width = 0;
  for (const DocEntry& e : section.entries) {
    if (display_width(e.label) <= kMostLabel) width = std::max(width, display_width(e.label));
  }
  std::string out = "\n" + section.title + ":\n";
  for (const DocEntry& e : section.entries)
    out += entry(e.label, e.fallback.empty() ? e.text : fmt::format("{} (default {})", e.text, e.fallback),
                 width);
  return out;
}

std::string sections(const std::vector<DocSection>& all) {
  std::string out;
  for (const DocSection& one : all)
    out += section(one);
  return out;
}

// Breaks a command line that is too long before a flag, and continues it on further lines.
std::string command_lines(std::string line) {
  std::string out;
  while (display_width(line) > kWidth) {
    const size_t cut = line.rfind(" --", kWidth - 2);
    const size_t begin = line.find_first_not_of(' ');
    if (cut == std::string::npos || cut <= begin) break;
    out += line.substr(0, cut) + " \\\n";
    line = std::string(6, ' ') + line.substr(cut + 1);
  }
  return out + line + "\n";
}

// Formats an example and its explanation. The explanation gets its own line if both do not fit on one line.
std::string example(const std::string& line) {
  if (display_width(line) <= kWidth) return line + "\n";
  const size_t gap = line.rfind("  ");
  const size_t begin = line.find_first_not_of(' ');
  if (gap == std::string::npos || gap < begin) return command_lines(line);
  const std::string command = line.substr(0, line.find_last_not_of(' ', gap) + 1);
  const std::string note = line.substr(gap + 2);
  if (display_width(command) + 3 + display_width(note) <= kWidth) return command + "   " + note + "\n";
  std::string out = command_lines(command);
  for (const std::string& part : wrapped(note, kWidth - 6))
    out += std::string(6, ' ') + part + "\n";
  return out;
}

// Formats a footer. Prose is wrapped, other lines are kept if they fit.
std::string footer(const std::vector<DocPart>& parts) {
  std::string out;
  for (const DocPart& part : parts) {
    out += "\n";
    for (const std::string& line : wrapped(part.prose, kWidth))
      out += line + "\n";
    for (const std::string& line : part.lines)
      out += example(line);
  }
  return out;
}

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode mode) const override {
    const CommandDoc doc = command_doc(*app, mode == CLI::AppFormatMode::All);
    std::string out = fmt::format("{}\n\nUsage: {}\n", capitalized(doc.summary), doc.usage);
    out += section(doc.arguments) + sections(doc.commands);
    if (app->get_parent() != nullptr) out += sections(doc.options);
    out += footer(doc.footer);
    if (doc.is_short)
      out += fmt::format("\n'{} --help-all' shows all {} options.\n", doc.name, doc.option_count);
    return out;
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  return std::make_shared<HelpFormatter>();
}

}  // namespace gpt
