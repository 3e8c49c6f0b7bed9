#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/marked_text.h"

namespace gpt::jinja {

class Value;
struct List;
struct Dict;
struct Object;

struct Undefined {
  std::string what;  // message, such as "'x' is undefined"
  // True if the value is the result of an inline if without an else branch. Such a value can be written to
  // the output without an error.
  bool lenient = false;
};
struct None {};
struct BigInteger {  // an integer that needs more than 64 bits
  std::string digits;
};

// A Python value in a template. Lists and dicts are immutable, so there are no cycles. Copies of a Value
// share the list or dict.
class Value {
 public:
  using Text = std::shared_ptr<const JinjaText>;

  Value() : data_(None{}) {}
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(JinjaText text) : data_(std::make_shared<const JinjaText>(std::move(text))) {}
  explicit Value(std::string_view text);  // the origin of the text is the template
  explicit Value(const char* text) : Value(std::string_view(text)) {}
  explicit Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  explicit Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}
  static Value undefined(std::string what, bool lenient = false);
  // Converts an integer of any size that is written as in JSON and Python.
  static Value of_digits(const std::string& digits);

  bool is_undefined() const { return std::holds_alternative<std::shared_ptr<const Undefined>>(data_); }
  // Returns true if using the value is an error because it is undefined. `strict` is
  // JinjaOptions::strict_undefined.
  bool is_refused(bool strict) const {
    return strict && is_undefined() && !std::get<std::shared_ptr<const Undefined>>(data_)->lenient;
  }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const std::string* big_integer() const {
    const auto* found = std::get_if<std::shared_ptr<const BigInteger>>(&data_);
    return found == nullptr ? nullptr : &(*found)->digits;
  }
  const double* real() const { return std::get_if<double>(&data_); }
  const JinjaText* text() const { return pointer<Text>(); }
  const List* list() const { return pointer<std::shared_ptr<const List>>(); }
  const Dict* dict() const { return pointer<std::shared_ptr<const Dict>>(); }
  Object* object() const { return pointer<std::shared_ptr<Object>>(); }
  const std::string& undefined_what() const {
    return std::get<std::shared_ptr<const Undefined>>(data_)->what;
  }

  bool is_number() const {
    return boolean() != nullptr || integer() != nullptr || real() != nullptr || big_integer() != nullptr;
  }
  // Returns a pointer to the integer, or null for other types and for integers beyond 64 bits. A bool counts
  // as 0 or 1, as in Python.
  const int64_t* as_integer(int64_t& room) const;
  double as_double() const;  // the value must be a number

 private:
  template <class P>
  auto pointer() const -> decltype(std::declval<P>().get()) {
    const P* found = std::get_if<P>(&data_);
    return found == nullptr ? nullptr : found->get();
  }
  std::variant<None, bool, int64_t, double, std::shared_ptr<const BigInteger>, Text,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Object>,
               std::shared_ptr<const Undefined>>
      data_;
};

// A view is the result of range(), or of keys(), values() or items() of a dict.
enum class ListKind : uint8_t { list, tuple, view, generator };
struct List {
  std::vector<Value> items;
  ListKind kind;
  int depth;                      // nesting depth, including this list
  mutable bool consumed = false;  // a generator can only be iterated once
  bool group = false;             // true for a tuple from groupby, with the attributes .grouper and .list
};
struct Dict {
  std::vector<std::pair<Value, Value>> items;  // items in the order of insertion
  int depth;
};

// A value that has a state or can be called.
struct Object {
  virtual ~Object() = default;
  virtual const char* kind() const = 0;
};

// The number of steps and bytes that a rendering may still use.
struct Limits {
  static constexpr int64_t most_steps = 5'000'000;
  // Limit for the total size of all texts and concatenated lists, including temporary values.
  static constexpr int64_t most_bytes = int64_t{64} << 20;
  int64_t steps = most_steps, bytes = most_bytes;

  void step(int64_t n = 1);
  void use(size_t n);
};

// Builds a text and counts its bytes against the limits.
class TextBuilder {
 public:
  explicit TextBuilder(Limits& limits) : limits_(limits) {}
  TextBuilder& add(const JinjaText& text) { return add(text, 0, text.text.size()); }
  TextBuilder& add(const JinjaText& text, size_t begin, size_t end) {
    limits_.use(end > begin ? end - begin : 0);
    out_.append(text, begin, end);
    return *this;
  }
  TextBuilder& add(std::string_view text, int32_t origin = JinjaSpan::kTemplate, bool generated = false) {
    limits_.use(text.size());
    out_.append(text, origin, generated);
    return *this;
  }
  const JinjaText& text() const { return out_; }
  Limits& limits() const { return limits_; }
  JinjaText take() { return std::move(out_); }
  Value value() { return Value(std::move(out_)); }

 private:
  Limits& limits_;
  JinjaText out_;
};

// Creates a list or dict. Throws Error if the nesting is too deep, or if an item is an object with a state.
Value make_list(std::vector<Value> items, ListKind kind = ListKind::list);
// If a key occurs several times, the last value is used.
Value make_dict(Limits& limits, std::vector<std::pair<Value, Value>>&& items);

// Throws Error for lists and dicts, which cannot be keys of a dict.
void require_hashable(const Value& key);

const Value* find_item(Limits& limits, const Dict& dict, const Value& key);
const Value* find_item(Limits& limits, const Dict& dict, std::string_view key);

// Returns the name of the Python type: "str", "int", "dict", ...
std::string type_name(const Value& value);

bool equals(Limits& limits, const Value& a, const Value& b);
// Compares two values. The result is < 0, 0 or > 0 if a is less than, equal to or greater than b. Throws
// Error if the values have no order.
int compare(Limits& limits, const Value& a, const Value& b);

// append_str() appends str(value), and append_repr() appends repr(value).
void append_str(TextBuilder& out, const Value& value);
void append_repr(TextBuilder& out, const Value& value);

// Returns the variables of a context, by name. JinjaTemplate::render_marked describes the origin of the texts
// in these variables.
template <class Json>
std::vector<std::pair<std::string, Value>> context_of(const Json& json);

struct JsonStyle {
  int64_t indent = -1;  // spaces per level; negative: everything on one line
  std::string item_separator = ", ", key_separator = ": ";
  bool ensure_ascii = false, sort_keys = false;
};
// Equivalent to json.dumps of Python. Throws Error for values that JSON cannot represent.
void append_json(TextBuilder& out, const Value& value, const JsonStyle& style, int64_t level = 0);

}  // namespace gpt::jinja
