#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gpt {

// How many examples were passed over, and why the first of them.
struct SkippedLines {
  int64_t count = 0;
  std::string first;
  std::string note() const;  // a line for people, "" where there are none
};

// Calls f with every line of files of JSON lines (also as .gz and .zst) that is a JSON object, whose order of
// keys is kept, and its place, "pairs.jsonl:12". Lines are read by parse_json_document. Empty lines are
// passed over. Throws Error naming the place for what is none, and whatever f throws; with skip_bad such
// lines are counted instead. Files must be named .jsonl or .ndjson.
SkippedLines for_each_json_line(
    const std::vector<std::string>& names, bool skip_bad,
    const std::function<void(const nlohmann::ordered_json& line, const std::string& place)>& f);

// Throws Error for data without a single good example: the number of bad ones and what is wrong with the
// first, if bad ones were passed over. Call it if no example was read.
[[noreturn]] void fail_without_examples(const std::vector<std::string>& files, const SkippedLines& skipped);

// Throws Error that says what an example of a task has, and what this one has, where it lacks one of these
// members.
void require_members(const nlohmann::ordered_json& object, const std::vector<std::string>& names,
                     const char* task, const std::string& place);

// A member that is a string; a number or a boolean is its JSON text, 3 or true. Throws Error naming place and
// member.
std::string text_member(const nlohmann::ordered_json& object, const char* name, const std::string& place);

}  // namespace gpt
