#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gpt {

// Counts the examples that were skipped, and stores the error of the first one.
struct SkippedLines {
  int64_t count = 0;
  std::string first;
  std::string note() const;  // returns a line for the terminal, or "" if no example was skipped
};

// Calls f for each JSON object in JSON lines files (.jsonl or .ndjson, optionally compressed as .gz or .zst).
// The place is a text such as "pairs.jsonl:12". Lines are parsed by parse_json_document, which keeps the
// order of keys. Empty lines are ignored. Throws Error naming the place if a line is not a JSON object, and
// passes on exceptions of f. If `skip_bad` is true, such lines are counted instead.
SkippedLines for_each_json_line(
    const std::vector<std::string>& names, bool skip_bad,
    const std::function<void(const nlohmann::ordered_json& line, const std::string& place)>& f);

// Throws an Error that says that the data contains no valid example. If examples were skipped, the error
// contains the number of skipped examples and the error of the first skipped example. Call this function if
// no example was read.
[[noreturn]] void fail_without_examples(const std::vector<std::string>& files, const SkippedLines& skipped);

// Throws Error if the object lacks one of these members. The error lists the members that the task expects
// and the members of the object.
void require_members(const nlohmann::ordered_json& object, const std::vector<std::string>& names,
                     const char* task, const std::string& place);

// Returns a member as text. Numbers and booleans are converted to their JSON text, such as 3 or true. Throws
// Error if the member is missing or has a different type. The error names the place and the member.
std::string text_member(const nlohmann::ordered_json& object, const char* name, const std::string& place);

}  // namespace gpt
