#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// A value from a pickle. Globals and calls are represented as data and are never executed.
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
    call,        // items: the global and the tuple of its arguments
    persistent,  // items[0]: the persistent id
  };
  Kind kind = Kind::none;
  int64_t number = 0;
  double real = 0;
  std::string_view text = {};
  std::vector<const PickleValue*> items = {};

  // Returns the value of a dict's key, or nullptr if the key is missing or this value is not a dict.
  const PickleValue* find(std::string_view key) const;
};

// Decodes a pickle into a graph of values without executing anything. Supports the opcodes of protocols 2 to
// 5 for dicts, lists, tuples, numbers, strings, references to globals, and calls of globals. Memory use is
// bounded. Values may be shared and may contain themselves, so code that walks the graph must limit its depth
// and its number of steps.
class Pickle {
 public:
  // `globals` lists the only globals that the pickle may name. A call of "collections.OrderedDict" without
  // arguments becomes a dict. Throws Error that names `what` for all other globals, unsupported opcodes and
  // damaged data. `bytes` must outlive the object.
  Pickle(std::span<const std::byte> bytes, const std::string& what,
         std::span<const std::string_view> globals);

  Pickle() = default;  // an empty object without a root value

  const PickleValue& root() const { return *root_; }
  size_t bytes() const { return bytes_; }  // size of the pickle; more data may follow
  std::vector<const PickleValue*> of_kind(PickleValue::Kind kind) const;

  static constexpr size_t kMaxBytes = size_t{32} << 20;
  static constexpr size_t kMaxValues = size_t{1} << 20;

 private:
  friend class PickleMachine;
  std::deque<PickleValue> values_;
  std::deque<std::string> names_;  // names of the globals
  const PickleValue* root_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace gpt
