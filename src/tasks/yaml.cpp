#include "tasks/yaml.h"

#include <yaml-cpp/yaml.h>

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/parse.h"
#include "base/utf8.h"

namespace gpt {
namespace {

using Value = nlohmann::ordered_json;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::string without_underscores(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  return digits;
}

// YAML 1.1 has decimal, octal (012), hexadecimal and binary integers.
std::optional<int64_t> integer_of(std::string_view text) {
  std::string digits = without_underscores(text);
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  if (digits.empty() || digits[0] < '0' || digits[0] > '9') return std::nullopt;
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0b")) {
    base = digits[1] == 'x' ? 16 : 2;
    digits.erase(0, 2);
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
  }
  int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || stop != end || digits[0] == '-') return std::nullopt;
  return negative ? -value : value;
}

// A number with a point: 1e5 without one is text in YAML 1.1, and so is its exponent without a sign.
std::optional<double> fraction_of(std::string_view text) {
  std::string digits = without_underscores(text);
  if (digits.starts_with('+')) digits.erase(0, 1);
  if (digits.find('.') == std::string::npos) return std::nullopt;
  if (digits.find_first_not_of("0123456789.+-eE") != std::string::npos) return std::nullopt;
  const size_t exponent = digits.find_first_of("eE");
  if (exponent != std::string::npos &&
      (exponent + 1 >= digits.size() || (digits[exponent + 1] != '+' && digits[exponent + 1] != '-')))
    return std::nullopt;
  return parse_number<double>(digits);
}

Value plain_value(const std::string& text) {
  if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return nullptr;
  if (is_one_of(text, {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) return true;
  if (is_one_of(text, {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) return false;
  if (const auto integer = integer_of(text)) return *integer;
  if (const auto fraction = fraction_of(text)) return *fraction;
  return text;
}

// Builds the value from yaml-cpp's events.
class Builder : public YAML::EventHandler {
 public:
  Builder(const std::string& what, const YamlLimits& limits, std::map<std::string, int64_t>* lines)
      : what_(what), limits_(limits), lines_(lines) {}

  Value take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, nullptr, anchor); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) refuse(mark, "an alias inside of what it stands for");
    count(mark, known->second.values);
    const Value copy = known->second.value;
    add(mark, copy, 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    if (const auto bad = first_invalid_utf8(text))
      refuse(mark, fmt::format("bytes that are no UTF-8, {} bytes into a text", *bad));
    add(mark, scalar(mark, tag, text), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Value::array());
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Value::object());
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Value value;
    YAML::Mark mark;
    YAML::anchor_t anchor;
    int64_t first_value;  // values before it
    std::optional<std::string> key = {};
    std::vector<Value> merged = {};  // maps of merge keys
  };
  struct Anchored {
    Value value;
    int64_t values;
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& found) const {
    fail("{}, line {}: expected a task's YAML, found {}", what_, mark.line + 1, found);
  }

  void count(const YAML::Mark& mark, int64_t n) {
    values_ += n;
    if (values_ > limits_.max_values)
      refuse(mark, fmt::format("more than {} values, aliases counted", limits_.max_values));
  }

  Value scalar(const YAML::Mark& mark, const std::string& tag, const std::string& text) const {
    if (tag == "!function") return Value{{kYamlFunction, text}};
    if (tag == "?") return plain_value(text);
    if (tag == "!" || tag == "tag:yaml.org,2002:str") return text;
    if (tag.empty()) return plain_value(text);
    refuse(mark, fmt::format("the tag {}", printable_text(tag, 40)));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Value empty) {
    if (!tag.empty() && tag != "?" && tag != "!")
      refuse(mark, fmt::format("the tag {}", printable_text(tag, 40)));
    if (static_cast<int>(open_.size()) >= limits_.max_depth)
      refuse(mark, fmt::format("more than {} maps and lists inside each other", limits_.max_depth));
    open_.push_back({std::move(empty), mark, anchor, values_});
    count(mark, 1);
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    for (const Value& merged : done.merged) {
      for (const auto& [key, value] : merged.items()) {
        if (!done.value.contains(key)) done.value[key] = value;
      }
    }
    keep(done.anchor, done.value, values_ - done.first_value);
    place(done.mark, std::move(done.value));
  }

  void add(const YAML::Mark& mark, Value value, YAML::anchor_t anchor) {
    count(mark, 1);
    keep(anchor, value, 1);
    place(mark, std::move(value));
  }

  void keep(YAML::anchor_t anchor, const Value& value, int64_t values) {
    if (anchor != 0) anchors_[anchor] = {value, values};
  }

  void place(const YAML::Mark& mark, Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = open_.back();
    if (parent.value.is_array()) {
      parent.value.push_back(std::move(value));
    } else if (!parent.key) {
      set_key(mark, parent, value);
    } else if (*parent.key == "<<") {
      merge(mark, parent, value);
      parent.key.reset();
    } else {
      parent.value[*parent.key] = std::move(value);
      parent.key.reset();
    }
  }

  void set_key(const YAML::Mark& mark, Open& parent, const Value& key) {
    if (key.is_structured()) refuse(mark, "a key that is a list or a map");
    std::string name = key.is_string() ? key.get<std::string>() : key.dump();
    if (parent.value.contains(name))
      refuse(mark, fmt::format("the key {} a second time", printable_text(name, 60)));
    if (open_.size() == 1 && lines_ != nullptr) lines_->emplace(name, mark.line + 1);
    parent.key = std::move(name);
  }

  void merge(const YAML::Mark& mark, Open& parent, const Value& value) const {
    const auto one = [&](const Value& map) {
      if (!map.is_object()) refuse(mark, "a merge key (<<) whose value is no map");
      parent.merged.push_back(map);
    };
    if (value.is_array()) {
      std::for_each(value.begin(), value.end(), one);
    } else {
      one(value);
    }
  }

  const std::string& what_;
  const YamlLimits& limits_;
  std::map<std::string, int64_t>* lines_;
  Value root_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;
  int64_t values_ = 0;
};

}  // namespace

nlohmann::ordered_json parse_yaml(std::string_view text, const std::string& what,
                                  std::map<std::string, int64_t>* lines, const YamlLimits& limits) {
  if (text.size() > limits.max_bytes)
    fail("{}: expected a task's YAML of at most {} bytes, found {}", what, limits.max_bytes, text.size());
  std::istringstream in{std::string(text)};
  try {
    YAML::Parser parser(in);
    Builder builder(what, limits, lines);
    if (!parser.HandleNextDocument(builder)) return nullptr;
    Value value = builder.take();
    Builder rest(what, limits, nullptr);
    if (parser.HandleNextDocument(rest)) fail("{}: expected one YAML document, found several", what);
    return value;
  } catch (const YAML::Exception& e) {
    fail("{}, line {}: {}", what, e.mark.line + 1, e.msg);
  }
}

}  // namespace gpt
