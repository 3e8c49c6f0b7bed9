#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// A value of a pickle. What Python would do with it is left to the reader: nothing is ever called.
struct PickleValue {
  enum class Kind : uint8_t {
    none,
    boolean,     // number
    integer,     // number
    real,        // real
    text,        // text: str or bytes
    list,        // items
    tuple,       // items
    dict,        // items: key, value, key, value, ...
    global,      // text: "module.name"
    call,        // items: the global, its arguments
    persistent,  // items[0]: the id
  };
  Kind kind = Kind::none;
  int64_t number = 0;
  double real = 0;
  std::string_view text = {};
  std::vector<const PickleValue*> items = {};

  // The value of a dict's key; null when there is none, or when this is no dict.
  const PickleValue* find(std::string_view key) const;
};

// What a pickle says, as a graph of values: opcodes of protocols 2 to 5 as far as dicts, lists, tuples,
// numbers, strings, references to globals and calls of them need, with bounds on memory. Values may be shared
// and may contain themselves, so whoever walks them bounds depth and number.
class Pickle {
 public:
  // globals: the only ones that may be named. "collections.OrderedDict" called without arguments is a dict.
  // Any other one, any other opcode and any damage throws Error naming `what`. The bytes must outlive the
  // object.
  Pickle(std::span<const std::byte> bytes, const std::string& what,
         std::span<const std::string_view> globals);

  Pickle() = default;  // without a value

  const PickleValue& root() const { return *root_; }
  size_t bytes() const { return bytes_; }  // of the pickle; more may follow it
  std::vector<const PickleValue*> of_kind(PickleValue::Kind kind) const;

  static constexpr size_t kMaxBytes = size_t{32} << 20;
  static constexpr size_t kMaxValues = size_t{1} << 20;

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  std::deque<std::string> names_;  // of globals
  const PickleValue* root_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace gpt
