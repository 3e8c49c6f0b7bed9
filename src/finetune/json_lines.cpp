#include "finetune/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "data/records.h"
#include "data/text_blocks.h"

namespace gpt {

std::string SkippedLines::note() const {
  if (count == 0) return "";
  return fmt::format("{} skipped; first error: {}\n", format_amount(count, "invalid example"), first);
}

SkippedLines for_each_json_line(
    const std::vector<std::string>& names, bool skip_bad,
    const std::function<void(const nlohmann::ordered_json& line, const std::string& place)>& f) {
  SkippedLines skipped;
  const auto pass_over = [&](const Error& error) {
    if (!skip_bad) fail("{}", error.what());
    if (skipped.count++ == 0) skipped.first = error.what();
  };
  const auto take = [&](const std::string& text, const std::string& place) {
    try {
      const nlohmann::ordered_json line = parse_json_document(text, place);
      if (!line.is_object()) fail("{}: expected a JSON object, found {}", place, json_kind(line));
      f(line, place);
    } catch (const Error& error) {
      pass_over(error);
    }
  };
  for (const std::string& path : find_text_files(names).files) {
    if (RecordReader::is_table(path)) fail("{}: expected JSON lines, found a table", path);
    RecordReader reader(path);
    Record record;
    bool first = true;
    for (bool more = true; more; first = false) {
      try {
        more = reader.next(record);
        if (more && first) refuse_json_list(record.text, path);
        if (more) take(record.text, fmt::format("{}:{}", path, record.line));
      } catch (const RecordError& error) {
        pass_over(error);
      }
    }
  }
  return skipped;
}

void fail_without_examples(const std::vector<std::string>& files, const SkippedLines& skipped) {
  constexpr size_t kShown = 8;
  const std::string names = format_list(files, kShown);
  if (skipped.count == 0) fail("{}: contains no examples", names);
  fail("{}: {} of {} are invalid; first error: {}", names, format_thousands(skipped.count),
       format_amount(skipped.count, "example"), skipped.first);
}

void require_members(const nlohmann::ordered_json& object, const std::vector<std::string>& names,
                     const char* task, const std::string& place) {
  constexpr size_t kShown = 8;
  const auto has = [&](const std::string& name) { return object.contains(name); };
  if (std::ranges::all_of(names, has)) return;
  std::vector<std::string> found;
  for (const auto& [name, value] : object.items())
    found.push_back(printable(name));
  constexpr const char* kAnswers[] = {"completion", "output", "response"};
  fail("{}: `task` {} requires {}, found {}{}", place, task,
       format_list(transformed(names, printable), kShown),
       found.empty() ? "an empty object" : format_list(found, kShown),
       std::ranges::any_of(kAnswers, has)
           ? R"(; for prompts with one response each, use `task` chat with lines such as {"messages": )"
             R"([{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]})"
           : "");
}

std::string text_member(const nlohmann::ordered_json& object, const char* name, const std::string& place) {
  const auto found = object.find(name);
  if (found == object.end()) fail("{}: expected \"{}\", found none", place, name);
  if (found->is_string()) return found->get<std::string>();
  if (is_number(*found) || found->is_boolean()) return json_text(*found);
  fail("{}: \"{}\": expected a string, a number or a boolean, found {}", place, name, json_kind(*found));
}

}  // namespace gpt
