#include "finetune/json_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "data/file_kind.h"
#include "data/text_blocks.h"

namespace gpt {

std::string SkippedLines::note() const {
  if (count == 0) return "";
  return fmt::format("{} passed over; the first: {}\n", format_amount(count, "bad example"), first);
}

SkippedLines for_each_json_line(const std::vector<std::string>& names, bool skip_bad,
                                const std::function<void(const nlohmann::json&, const std::string&)>& f) {
  SkippedLines skipped;
  const auto read = [&](std::string_view text, const std::string& place) {
    const nlohmann::json line = parse_json(text, place);
    if (!line.is_object()) fail("{}: expected a JSON object, found {}", place, json_kind(line));
    f(line, place);
  };
  TextBlocks blocks(find_text_files(names).files);
  TextBlock block;
  while (blocks.next(block)) {
    const std::string& path = blocks.path(block);
    if (!block.json) fail("{}: expected lines of JSON, in a file named .jsonl", path);
    int64_t number = block.begin.line;
    for (size_t begin = 0; begin < block.text.size(); ++number) {
      const size_t end = std::min(block.text.find('\n', begin), block.text.size());
      const std::string_view text(block.text.data() + begin, end - begin);
      begin = end + 1;
      if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      try {
        read(text, fmt::format("{}:{}", path, number));
      } catch (const Error& error) {
        if (!skip_bad) throw;
        if (skipped.count++ == 0) skipped.first = error.what();
      }
    }
  }
  return skipped;
}

std::string string_member(const nlohmann::json& object, const char* name, const std::string& place) {
  const auto found = object.find(name);
  if (found == object.end()) fail("{}: expected \"{}\", found none", place, name);
  if (!found->is_string()) fail("{}: \"{}\": expected a string, found {}", place, name, json_kind(*found));
  return found->get<std::string>();
}

}  // namespace gpt
