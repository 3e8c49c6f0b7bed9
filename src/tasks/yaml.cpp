#include "tasks/yaml.h"

#include <yaml-cpp/yaml.h>

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "tasks/yaml_scalars.h"

namespace gpt {
namespace {

using Value = nlohmann::ordered_json;

constexpr std::string_view kCoreTag = "tag:yaml.org,2002:";

// Rejects characters that PyYAML's reader rejects, and line ends that PyYAML knows but yaml-cpp does not.
void require_yaml_characters(std::string_view text, const std::string& what) {
  int64_t line = 1;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (c.status != Utf8Status::valid)
      fail("{}, line {}: expected the YAML of a task, found invalid UTF-8", what, line);
    const char32_t code = c.code;
    const bool line_end = code == 0x85 || code == 0x2028 || code == 0x2029;
    const bool known = code == '\t' || code == '\n' || (code >= 0x20 && code <= 0x7e) ||
                       (code >= 0xa0 && code < 0xfffe) || code >= 0x10000;
    if (line_end || !known)
      fail(
          "{}, line {}: expected the YAML of a task, found the character U+{:04X}; write it as an escape "
          "sequence in double quotes",
          what, line, static_cast<uint32_t>(code));
    line += code == '\n' ? 1 : 0;
    at += static_cast<size_t>(c.length);
  }
}

// Returns the text without a byte order mark and with \n as its only line end.
std::string with_plain_line_ends(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      out += '\n';
    }
  }
  return out;
}

// Builds a JSON value from the events of yaml-cpp's parser.
class Builder : public YAML::EventHandler {
 public:
  Builder(const std::string& what, std::string_view source, const YamlLimits& limits,
          std::map<std::string, int64_t>* lines)
      : what_(what), scalars_(source), limits_(limits), lines_(lines) {}

  Value take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, nullptr, anchor); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) refuse(mark, "an alias inside the value that it refers to");
    count(mark, known->second.size);
    place(mark, known->second.value);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const auto read = scalars_.text(static_cast<size_t>(mark.pos), text, indent());
    if (!read)
      refuse(mark,
             "a string that PyYAML rejects or reads differently; write it on one line in double quotes");
    if (const auto bad = first_invalid_utf8(*read))
      refuse(mark, fmt::format("invalid UTF-8 at byte {} of a string", *bad));
    const bool is_key = !open_.empty() && open_.back().value.is_object() && !open_.back().key;
    if (is_key && tag == "?" && *read == "<<") {
      open_.back().key = "";
      open_.back().merges = true;
      return;
    }
    add(mark, scalar(mark, tag, *read), anchor, std::ssize(*read));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(mark, tag, anchor, style, Value::array());
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(mark, tag, anchor, style, Value::object());
  }
  void OnMapEnd() override { close(); }

 private:
  // The size of a value, as counted for the limits.
  struct Size {
    int64_t values = 0, bytes = 0;
  };
  struct Open {
    Value value;
    YAML::Mark mark;
    YAML::anchor_t anchor;
    Size before;                                 // size of everything read before it
    int indent;                                  // column of the innermost block collection
    std::unordered_set<std::string> names = {};  // keys read so far
    std::optional<std::string> key = {};
    bool merges = false;             // the current key is a merge key
    std::vector<Value> merged = {};  // values of the merge keys
  };
  struct Anchored {
    Value value;
    Size size;
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& found) const {
    fail("{}, line {}: expected the YAML of a task, found {}", what_, mark.line + 1, found);
  }

  void count(const YAML::Mark& mark, const Size& size) {
    size_.values += size.values;
    size_.bytes += size.bytes;
    if (size_.values > limits_.max_values)
      refuse(mark, fmt::format("more than {} values, including aliases", limits_.max_values));
    if (size_.bytes > limits_.max_text_bytes)
      refuse(mark, fmt::format("more than {} bytes of text, including aliases", limits_.max_text_bytes));
  }

  int indent() const { return open_.empty() ? -1 : open_.back().indent; }

  Value scalar(const YAML::Mark& mark, const std::string& tag, const std::string& text) const {
    const bool core = tag.starts_with(kCoreTag);
    const std::string kind = core ? tag.substr(kCoreTag.size()) : tag;
    if (kind == "!function") return Value{{kYamlFunction, text}};
    if (kind == "!" || kind == "str") return text;
    try {
      if (kind.empty() || kind == "?") return yaml_plain_value(text);
      if (core) return yaml_tagged_value(kind, text);
    } catch (const Error& e) {
      refuse(mark, e.what());
    }
    refuse(mark, fmt::format("the tag {}", printable_text(tag, 40)));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style, Value empty) {
    const std::string own = std::string(kCoreTag) + (empty.is_array() ? "seq" : "map");
    if (!tag.empty() && tag != "?" && tag != "!" && tag != own)
      refuse(mark, fmt::format("the tag {}", printable_text(tag, 40)));
    if (static_cast<int>(open_.size()) >= limits_.max_depth)
      refuse(mark, fmt::format("more than {} levels of nested maps and lists", limits_.max_depth));
    const bool block = style != YAML::EmitterStyle::Flow;
    const int column = block ? scalars_.column_of_collection(static_cast<size_t>(mark.pos)) : indent();
    open_.push_back({std::move(empty), mark, anchor, size_, column});
    count(mark, {.values = 1});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (!done.merged.empty()) done.value = united(done.merged, std::move(done.value));
    keep(done.anchor, done.value,
         {.values = size_.values - done.before.values, .bytes = size_.bytes - done.before.bytes});
    place(done.mark, std::move(done.value));
  }

  void add(const YAML::Mark& mark, Value value, YAML::anchor_t anchor, int64_t bytes = 0) {
    const Size size{.values = 1, .bytes = bytes};
    count(mark, size);
    keep(anchor, value, size);
    place(mark, std::move(value));
  }

  void keep(YAML::anchor_t anchor, const Value& value, const Size& size) {
    if (anchor != 0) anchors_[anchor] = {value, size};
  }

  // Appends a member to a map that does not have the key. The operator[] of ordered_json would search all
  // members.
  static void append_member(Value& map, const std::string& key, Value value) {
    map.get_ref<Value::object_t&>().emplace_back(key, std::move(value));
  }

  // Returns the members of the merged maps, followed by the members of the map itself. If several merged maps
  // have the same key, the member of the first of these maps is used. Members of the map itself replace
  // merged members.
  static Value united(const std::vector<Value>& merged, Value own) {
    Value out = Value::object();
    auto& members = out.get_ref<Value::object_t&>();
    std::unordered_map<std::string, size_t> places;
    for (const Value& map : merged) {
      for (const auto& [key, value] : map.items()) {
        if (places.emplace(key, members.size()).second) members.emplace_back(key, value);
      }
    }
    for (auto& [key, value] : own.get_ref<Value::object_t&>()) {
      const auto [known, added] = places.emplace(key, members.size());
      if (added) {
        members.emplace_back(key, std::move(value));
      } else {
        (members.begin() + static_cast<std::ptrdiff_t>(known->second))->second = std::move(value);
      }
    }
    return out;
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
    } else if (parent.merges) {
      merge(mark, parent, value);
      parent.merges = false;
      parent.key.reset();
    } else {
      append_member(parent.value, *parent.key, std::move(value));
      parent.key.reset();
    }
  }

  void set_key(const YAML::Mark& mark, Open& parent, const Value& key) {
    if (key.is_structured()) refuse(mark, "a key that is a list or a map");
    std::string name = key.is_string() ? key.get<std::string>() : key.dump();
    if (!parent.names.insert(name).second)
      refuse(mark, fmt::format("the key {} twice", printable_text(name, 60)));
    if (open_.size() == 1 && lines_ != nullptr) lines_->emplace(name, mark.line + 1);
    parent.key = std::move(name);
  }

  void merge(const YAML::Mark& mark, Open& parent, const Value& value) const {
    const auto one = [&](const Value& map) {
      if (!map.is_object()) refuse(mark, "a merge key (<<) whose value is not a map");
      parent.merged.push_back(map);
    };
    if (value.is_array()) {
      std::for_each(value.begin(), value.end(), one);
    } else {
      one(value);
    }
  }

  const std::string& what_;
  YamlScalars scalars_;
  const YamlLimits& limits_;
  std::map<std::string, int64_t>* lines_;
  Value root_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;
  Size size_;
};

}  // namespace

nlohmann::ordered_json parse_yaml(std::string_view text, const std::string& what,
                                  std::map<std::string, int64_t>* lines, const YamlLimits& limits) {
  if (text.size() > limits.max_bytes)
    fail("{}: expected the YAML of a task of at most {} bytes, found {}", what, limits.max_bytes,
         text.size());
  const std::string source = with_plain_line_ends(text);
  require_yaml_characters(source, what);
  std::istringstream in{source};
  try {
    YAML::Parser parser(in);
    Builder builder(what, source, limits, lines);
    if (!parser.HandleNextDocument(builder)) return nullptr;
    Value value = builder.take();
    Builder rest(what, source, limits, nullptr);
    if (parser.HandleNextDocument(rest)) fail("{}: expected one YAML document, found several", what);
    return value;
  } catch (const YAML::Exception& e) {
    fail("{}, line {}: {}", what, e.mark.line + 1, e.msg);
  }
}

}  // namespace gpt
