#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace gpt {
namespace {

using nlohmann::json;

[[noreturn]] void fail_at(std::string_view text, size_t offset, const std::string& what,
                          const std::string& problem) {
  const std::string_view before = text.substr(0, offset);
  const size_t line = 1 + static_cast<size_t>(std::ranges::count(before, '\n'));
  const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  fail("{} is not usable JSON: line {}, column {}: {}", what, line, offset - line_start + 1, problem);
}

// Checks the limits in one pass over the bytes, before the parser runs. Without this check, the parser would
// keep whole tokens and the white space before them in memory. It would also treat a NUL byte as the end of
// the text.
class LimitCheck {
 public:
  LimitCheck(std::string_view text, const std::string& what, const JsonLimits& limits)
      : text_(text), what_(what), limits_(limits) {}

  void run() {
    if (text_.size() > limits_.max_bytes) {
      fail("{} is too large: expected at most {} bytes of JSON, found {}", what_, limits_.max_bytes,
           text_.size());
    }
    for (size_t i = 0; i < text_.size();)
      i = step(i);
  }

 private:
  // Maximum number of characters of a JSON number. Any double can be written exactly with fewer than 800
  // characters.
  static constexpr size_t kMaxNumber = 1024;

  size_t step(size_t i) {
    switch (text_[i]) {
      case ' ':
      case '\t':
      case '\n':
      case '\r':
        token_ = 0;
        return skip_blanks(i);
      case '"':
        token_ = 0;
        return skip_string(i);
      case '{':
      case '[':
        if (++depth_ > limits_.max_depth) {
          fail_at(text_, i, what_, fmt::format("nested deeper than {} levels", limits_.max_depth));
        }
        [[fallthrough]];
      case ',':
        if (++elements_ > limits_.max_elements) {
          fail_at(text_, i, what_, fmt::format("more than {} values", limits_.max_elements));
        }
        token_ = 0;
        break;
      case '}':
      case ']':
        --depth_;
        [[fallthrough]];
      case ':':
        token_ = 0;
        break;
      case '\0':
        fail_at(text_, i, what_, "unexpected NUL byte");
      default:
        if (++token_ > kMaxNumber)
          fail_at(text_, i, what_, fmt::format("number longer than {} characters", kMaxNumber));
    }
    return i + 1;
  }

  size_t skip_blanks(size_t start) {
    const size_t end = std::min(text_.find_first_not_of(" \t\n\r", start), text_.size());
    if (end - start > limits_.max_string_bytes) {
      fail_at(text_, start, what_,
              fmt::format("more than {} consecutive whitespace characters", limits_.max_string_bytes));
    }
    return end;
  }

  // Returns the position after the closing quote. If the quote is missing, returns the end of the text, and
  // the parser then reports the error.
  size_t skip_string(size_t open) {
    size_t i = open + 1;
    while (i < text_.size() && text_[i] != '"') {
      i += text_[i] == '\\' ? 2 : 1;
      if (i - open > limits_.max_string_bytes) {
        fail_at(text_, open, what_, fmt::format("string longer than {} bytes", limits_.max_string_bytes));
      }
    }
    return std::min(i + 1, text_.size());
  }

  std::string_view text_;
  const std::string& what_;
  const JsonLimits& limits_;
  int64_t depth_ = 0;
  uint64_t elements_ = 0;
  size_t token_ = 0;
};

// Turns "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ... ; last read: ..."
// into a message without the library's error number. The text after "last read: " comes from the file, so it
// is made printable.
std::string parser_message(const std::string& full) {
  const size_t start = full.find("] ") == std::string::npos ? 0 : full.find("] ") + 2;
  const size_t quote = full.find("last read: ");
  if (quote == std::string::npos) return full.substr(start, 200);
  std::string last = full.substr(quote + 11);
  if (last.size() >= 2 && last.front() == '\'') last = last.substr(1, last.rfind('\'') - 1);
  return full.substr(start, std::min<size_t>(quote - start, 200)) + "last read: " + printable(last);
}

using TakeMember = std::function<void(const std::string& name, json& value)>;

// Builds the tree and rejects duplicate keys of an object. With `take`, passes each member of the root to
// `take` instead of keeping it. keep_digits: keep all digits of integers beyond 64 bits.
template <class Json>
class TreeBuilder : public nlohmann::json_sax<Json> {
  using Sax = nlohmann::json_sax<Json>;
  using string_t = typename Sax::string_t;

 public:
  TreeBuilder(std::string_view text, const std::string& what, bool keep_digits, TakeMember take = {},
              size_t max_values = 0)
      : text_(text),
        what_(what),
        keep_digits_(keep_digits),
        take_(std::move(take)),
        max_values_(max_values) {}

  Json& root() { return root_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(typename Sax::number_integer_t value) override { return add(value); }
  bool number_unsigned(typename Sax::number_unsigned_t value) override { return add(value); }
  bool number_float(typename Sax::number_float_t value, const string_t& text) override {
    const bool integer = text.find_first_of(".eE") == string_t::npos;
    return add(integer && keep_digits_ ? big_integer<Json>(text) : Json(value));
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(typename Sax::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    Open& open = open_.back();
    if (is_known(open, name))
      fail("{} is not usable JSON: duplicate key {}{}", what_, printable(name),
           take_ ? " in " + printable(name_) : "");
    if (open_.size() == 1) name_ = name;
    auto& members = open.container->template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, json>) {
      member_ = &members.try_emplace(std::move(name)).first->second;
    } else {  // ordered_map's own functions would search all members again
      member_ = &static_cast<Members&>(members).emplace_back(std::move(name), nullptr).second;
    }
    return true;
  }
  bool parse_error(size_t end, const std::string& last, const nlohmann::detail::exception& e) override {
    if (e.id == kNumberOverflow)
      fail_at(text_, end - std::min(end, last.size()), what_,
              fmt::format("expected a number below 1.8e308, found {}", printable_text(last, 40)));
    fail("{} is not valid JSON: {}", what_, parser_message(e.what()));
  }

 private:
  using Members = std::vector<std::pair<const std::string, Json>>;  // base class of nlohmann::ordered_map
  struct Open {
    Json* container;
    std::unordered_set<std::string> keys = {};  // keys of an object in an ordered_map, whose lookup is linear
  };

  // Returns true if the object already has this key. Otherwise remembers the key.
  static bool is_known(Open& open, const std::string& name) {
    if constexpr (std::is_same_v<Json, json>) return open.container->contains(name);
    return !open.keys.insert(name).second;
  }

  Json* place(Json&& value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back().container;
    if (parent.is_object()) return &(*member_ = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  bool add(Json&& value) {
    place(std::move(value));
    return take_member();
  }
  bool open(Json&& container) {
    open_.push_back({place(std::move(container))});
    return true;
  }
  bool close() {
    open_.pop_back();
    return take_member();
  }
  bool take_member() {
    if (!take_) return true;
    if (++values_ > max_values_)
      fail("{}: expected at most {} values in {}", what_, max_values_, printable(name_));
    if (open_.size() != 1) return true;
    if constexpr (std::is_same_v<Json, json>) take_(name_, root_[name_]);
    root_.clear();
    values_ = 0;
    return true;
  }

  std::string_view text_;
  const std::string& what_;
  bool keep_digits_;
  TakeMember take_;
  size_t max_values_, values_ = 0;  // counts the values of the current member
  std::string name_;                // name of the current member
  Json root_;
  std::vector<Open> open_;  // the path from the root; containers on the path do not move
  Json* member_ = nullptr;  // receives the value of the last key
};

template <class Json>
Json parse(std::string_view text, const std::string& what, const JsonLimits& limits, bool keep_digits) {
  LimitCheck(text, what, limits).run();
  TreeBuilder<Json> builder(text, what, keep_digits);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return std::move(builder.root());
}

}  // namespace

json parse_json(std::string_view text, const std::string& what, const JsonLimits& limits) {
  return parse<json>(text, what, limits, false);
}

nlohmann::ordered_json parse_json_document(std::string_view text, const std::string& what,
                                           const JsonLimits& limits) {
  return parse<nlohmann::ordered_json>(text, what, limits, true);
}

json read_json_file(const std::string& path, const JsonLimits& limits) {
  return parse_json(read_file(path, limits.max_bytes), path, limits);
}

void visit_members(std::string_view text, const std::string& what, const JsonLimits& limits,
                   size_t max_values, const TakeMember& f) {
  LimitCheck(text, what, limits).run();
  TreeBuilder<json> builder(text, what, false, f, max_values);
  json::sax_parse(text.begin(), text.end(), &builder);
}

namespace {

template <class Json>
std::string_view kind_of(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "a boolean";
  if (value.is_number_float() || is_big_integer(value)) return "a fractional or very large number";
  if (value.is_number_integer()) return value < 0 ? "a negative number" : "a number";
  return "null";
}

}  // namespace

void refuse_json_list(std::string_view text, const std::string& path) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != text.npos && text[begin] == '[')
    fail(
        "{}: expected one JSON object per line (JSON Lines), found a JSON array; write each element on a "
        "separate line",
        path);
}

std::string_view json_kind(const json& value) {
  return kind_of(value);
}
std::string_view json_kind(const nlohmann::ordered_json& value) {
  return kind_of(value);
}

bool has_fraction(const json& value) {
  if (value.is_structured())
    return std::any_of(value.begin(), value.end(), [](const json& member) { return has_fraction(member); });
  return value.is_number_float();
}

}  // namespace gpt
