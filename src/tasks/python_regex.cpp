#include "tasks/python_regex.h"

#include <functional>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "base/utf8.h"
#include "tasks/python_pattern.h"

namespace gpt {
namespace {

constexpr size_t kMaxPattern = 4096;
// Maximum number of pattern items that PCRE2 may try for all matches in a text.
constexpr int64_t kMaxItems = 100'000'000;
// Limits for one match: steps of backtracking, nested steps, and KiB of memory for the state of the match.
constexpr uint32_t kMaxSteps = 2'000'000, kMaxNestedSteps = 200'000, kMaxKib = 65536;

std::string message_of(int code) {
  std::string text(128, '\0');
  const int n = pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR8*>(text.data()), text.size());
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

}  // namespace

struct PythonRegex::Code {
  std::string pattern;
  pcre2_code_8* code = nullptr;
  pcre2_match_context_8* context = nullptr;
  pcre2_match_data_8* match = nullptr;

  ~Code() {
    pcre2_match_data_free_8(match);
    pcre2_match_context_free_8(context);
    pcre2_code_free_8(code);
  }

  // Returns true if there is a match at or after `at`. The text must be valid UTF-8.
  bool search(std::string_view text, size_t at, uint32_t options) const {
    const int rc = pcre2_match_8(code, reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), at,
                                 options | PCRE2_NO_UTF_CHECK, match, context);
    if (rc == PCRE2_ERROR_NOMATCH) return false;
    if (rc < 0)
      fail("the regular expression {} failed on a text of {} bytes: {}", printable_text(pattern, 80),
           text.size(), message_of(rc));
    return true;
  }

  // Called by PCRE2 before each pattern item that it tries.
  static int count_item(pcre2_callout_block_8*, void* left) {
    return --*static_cast<int64_t*>(left) < 0 ? PCRE2_ERROR_MATCHLIMIT : 0;
  }

  // Calls f after each match. As in Python, an empty match can directly follow a non-empty match, but there
  // is at most one empty match at each position.
  void for_each(std::string_view text, const std::function<void(const PCRE2_SIZE*, uint32_t)>& f) const {
    int64_t items = kMaxItems;
    pcre2_set_callout_8(context, count_item, &items);
    uint32_t options = 0;
    for (size_t at = 0; at <= text.size();) {
      if (!search(text, at, options)) {
        if (options == 0 || at == text.size()) return;
        at += static_cast<size_t>(decode_utf8(text, at).length);
        options = 0;
        continue;
      }
      const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer_8(match);
      f(ends, pcre2_get_ovector_count_8(match));
      at = ends[1];
      options = ends[0] == ends[1] ? PCRE2_NOTEMPTY_ATSTART | PCRE2_ANCHORED : 0;
    }
  }
};

PythonRegex::PythonRegex(const std::string& pattern) : code_(std::make_unique<Code>()) {
  code_->pattern = pattern;
  const auto refuse = [&](std::string_view found) {
    fail("the regular expression {}: expected the syntax of Python 3.11, found {}",
         printable_text(pattern, 80), found);
  };
  if (pattern.size() > kMaxPattern) refuse("more than 4096 bytes");
  std::string translated;
  try {
    translated = pcre2_of_python(pattern);
  } catch (const Error& e) {
    refuse(e.what());
  }
  // Maximum depth of nested groups in the translated pattern. The maximum depth in the original pattern is
  // 100.
  constexpr uint32_t kNestedGroups = 1000;
  pcre2_compile_context_8* const context = pcre2_compile_context_create_8(nullptr);
  GPT_ASSERT(context != nullptr);
  pcre2_set_parens_nest_limit_8(context, kNestedGroups);
  int error = 0;
  PCRE2_SIZE at = 0;
  // The start optimizations of PCRE2 10.42 do not find the match of (?=a)a*a in the text "a".
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_AUTO_CALLOUT | PCRE2_NO_START_OPTIMIZE;
  code_->code = pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(translated.data()), translated.size(), kOptions,
                                &error, &at, context);
  pcre2_compile_context_free_8(context);
  if (code_->code == nullptr) refuse("unsupported syntax: " + message_of(error));
  code_->context = pcre2_match_context_create_8(nullptr);
  code_->match = pcre2_match_data_create_from_pattern_8(code_->code, nullptr);
  GPT_ASSERT(code_->context != nullptr && code_->match != nullptr);
  pcre2_set_match_limit_8(code_->context, kMaxSteps);
  pcre2_set_depth_limit_8(code_->context, kMaxNestedSteps);
  pcre2_set_heap_limit_8(code_->context, kMaxKib);
}

PythonRegex::~PythonRegex() = default;
PythonRegex::PythonRegex(PythonRegex&&) noexcept = default;
PythonRegex& PythonRegex::operator=(PythonRegex&&) noexcept = default;

std::vector<std::vector<std::string>> PythonRegex::find_all(std::string_view bytes) const {
  const std::string text = replace_invalid_utf8(bytes);
  std::vector<std::vector<std::string>> matches;
  code_->for_each(text, [&](const PCRE2_SIZE* ends, uint32_t pairs) {
    std::vector<std::string> groups;
    for (uint32_t i = pairs > 1 ? 1 : 0; i < pairs; ++i) {
      const PCRE2_SIZE begin = ends[2 * i], end = ends[2 * i + 1];
      groups.push_back(begin == PCRE2_UNSET ? "" : text.substr(begin, end - begin));
    }
    matches.push_back(std::move(groups));
  });
  return matches;
}

std::string PythonRegex::remove_from(std::string_view bytes) const {
  const std::string text = replace_invalid_utf8(bytes);
  std::string out;
  size_t kept = 0;
  code_->for_each(text, [&](const PCRE2_SIZE* ends, uint32_t) {
    out.append(text, kept, ends[0] - kept);
    kept = ends[1];
  });
  return out.append(text, kept);
}

}  // namespace gpt
