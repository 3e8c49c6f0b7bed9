#include "io/pickle.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "base/printable.h"
#include "io/byte_reader.h"

namespace gpt {

using Kind = PickleValue::Kind;

// Interprets the opcodes of a pickle on a stack. A null pointer on the stack is a mark.
class PickleMachine {
 public:
  PickleMachine(Pickle& pickle, std::span<const std::byte> bytes, const std::string& what,
                std::span<const std::string_view> globals)
      : pickle_(pickle), in_(bytes, what), what_(what), globals_(globals) {}

  const PickleValue* run() {
    while (true) {
      const auto op = in_.number<uint8_t>();
      if (op == '.') break;
      if (!constant(op) && !container(op) && !memo(op) && !object(op)) {
        fail(
            "{}: the pickle has the unsupported opcode {:#04x} at byte {}; save a state_dict of plain "
            "tensors",
            what_, op, in_.position() - 1);
      }
    }
    PickleValue* root = pop();
    if (!stack_.empty()) bad("values are left on the stack");
    pickle_.bytes_ = in_.position();
    return root;
  }

 private:
  [[noreturn]] void bad(const char* why) const {
    fail("{}: the pickle is damaged at byte {}: {}", what_, in_.position(), why);
  }

  bool push(PickleValue* value) {
    if (stack_.size() >= Pickle::kMaxValues) {
      fail("{}: the pickle has more than {} values on its stack", what_, Pickle::kMaxValues);
    }
    stack_.push_back(value);
    return true;
  }
  bool push_new(PickleValue value) {
    if (pickle_.values_.size() >= Pickle::kMaxValues) {
      fail("{}: the pickle has more than {} values", what_, Pickle::kMaxValues);
    }
    return push(&pickle_.values_.emplace_back(std::move(value)));
  }
  PickleValue* pop() {
    if (stack_.empty() || stack_.back() == nullptr) bad("a value is missing");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* top(Kind kind) {
    if (stack_.empty() || stack_.back() == nullptr || stack_.back()->kind != kind)
      bad("expected a list or a dict");
    return stack_.back();
  }
  // Pops and returns the values above the topmost mark.
  std::vector<const PickleValue*> pop_to_mark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), nullptr);
    if (mark == stack_.rend()) bad("a mark is missing");
    std::vector<const PickleValue*> items(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return items;
  }

  bool push_integer(int64_t number) { return push_new({.kind = Kind::integer, .number = number}); }
  bool push_text(uint64_t bytes) { return push_new({.kind = Kind::text, .text = in_.text(bytes)}); }
  bool push_long() {
    const auto size = in_.number<uint8_t>();
    if (size > sizeof(int64_t)) {
      fail("{}: the pickle has an integer of {} bytes, expected at most {}", what_, size, sizeof(int64_t));
    }
    const auto bytes = in_.take(size);
    uint64_t bits = size > 0 && (std::to_integer<unsigned>(bytes.back()) & 0x80u) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = size; i-- > 0;)
      bits = bits << 8 | std::to_integer<uint64_t>(bytes[i]);
    return push_integer(static_cast<int64_t>(bits));
  }
  bool push_real() {
    uint64_t bits = 0;  // big-endian
    for (const std::byte b : in_.take(sizeof bits))
      bits = bits << 8 | std::to_integer<uint64_t>(b);
    return push_new({.kind = Kind::real, .real = std::bit_cast<double>(bits)});
  }

  bool constant(uint8_t op) {
    switch (op) {
      case 0x80:  // PROTO
        if (const auto version = in_.number<uint8_t>(); version < 2 || version > 5)
          fail("{}: expected a pickle of protocol 2 to 5, found {}", what_, version);
        return true;
      case 0x95:  // FRAME
        in_.number<uint64_t>();
        return true;
      case 'N':
        return push_new({.kind = Kind::none});
      case 0x88:
      case 0x89:
        return push_new({.kind = Kind::boolean, .number = op == 0x88});
      case 'J':
        return push_integer(in_.number<int32_t>());
      case 'K':
        return push_integer(in_.number<uint8_t>());
      case 'M':
        return push_integer(in_.number<uint16_t>());
      case 0x8a:
        return push_long();
      case 'G':
        return push_real();
      case 'X':
      case 'B':
      case 'T':
        return push_text(in_.number<uint32_t>());
      case 0x8c:
      case 'C':
      case 'U':
        return push_text(in_.number<uint8_t>());
      case 0x8d:
      case 0x8e:
        return push_text(in_.number<uint64_t>());
      default:
        return false;
    }
  }

  bool push_tuple(std::vector<const PickleValue*> items) {
    return push_new({.kind = Kind::tuple, .items = std::move(items)});
  }
  bool push_tuple(size_t n) {
    std::vector<const PickleValue*> items(n);
    for (size_t i = n; i-- > 0;)
      items[i] = pop();
    return push_tuple(std::move(items));
  }
  bool append(Kind kind, const std::vector<const PickleValue*>& items) {
    if (kind == Kind::dict && items.size() % 2 != 0) bad("a key has no value");
    std::vector<const PickleValue*>& all = top(kind)->items;
    all.insert(all.end(), items.begin(), items.end());
    return true;
  }

  bool container(uint8_t op) {
    switch (op) {
      case '(':
        return push(nullptr);
      case ']':
        return push_new({.kind = Kind::list});
      case '}':
        return push_new({.kind = Kind::dict});
      case ')':
        return push_tuple({});
      case 't':
        return push_tuple(pop_to_mark());
      case 0x85:
      case 0x86:
      case 0x87:
        return push_tuple(static_cast<size_t>(op - 0x84));
      case 'a':
        return append(Kind::list, {pop()});
      case 'e':
        return append(Kind::list, pop_to_mark());
      case 's': {
        const PickleValue* value = pop();
        const PickleValue* key = pop();
        return append(Kind::dict, {key, value});
      }
      case 'u':
        return append(Kind::dict, pop_to_mark());
      case '0':
        pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      default:
        return false;
    }
  }

  bool put(uint32_t slot) {
    if (stack_.empty() || stack_.back() == nullptr) bad("there is no value to memoize");
    if (memo_.size() >= Pickle::kMaxValues) bad("too many memoized values");
    memo_[slot] = stack_.back();
    return true;
  }
  bool get(uint32_t slot) {
    const auto at = memo_.find(slot);
    if (at == memo_.end())
      fail("{}: the pickle reads value {} of its memo, which does not exist", what_, slot);
    return push(at->second);
  }
  bool memo(uint8_t op) {
    switch (op) {
      case 'q':
        return put(in_.number<uint8_t>());
      case 'r':
        return put(in_.number<uint32_t>());
      case 0x94:
        return put(static_cast<uint32_t>(memo_.size()));
      case 'h':
        return get(in_.number<uint8_t>());
      case 'j':
        return get(in_.number<uint32_t>());
      default:
        return false;
    }
  }

  std::string_view line() {
    const size_t begin = in_.position();
    ByteReader ahead = in_;
    while (ahead.number<char>() != '\n') {
    }
    const std::string_view text = in_.text(ahead.position() - begin);
    return text.substr(0, text.size() - 1);
  }
  bool push_global(std::string_view module, std::string_view name) {
    std::string full = std::string(module) + "." + std::string(name);
    if (std::ranges::find(globals_, full) == globals_.end()) {
      fail(
          "{}: the pickle refers to {}, but only plain tensors are loaded and no code is ever run; save a "
          "state_dict",
          what_, printable(full));
    }
    return push_new({.kind = Kind::global, .text = pickle_.names_.emplace_back(std::move(full))});
  }
  bool call() {
    const PickleValue* arguments = pop();
    const PickleValue* global = pop();
    if (global->kind != Kind::global || arguments->kind != Kind::tuple)
      bad("the called object is not a global");
    if (global->text == "collections.OrderedDict" && arguments->items.empty())
      return push_new({.kind = Kind::dict});
    return push_new({.kind = Kind::call, .items = {global, arguments}});
  }

  bool object(uint8_t op) {
    switch (op) {
      case 'c': {
        const std::string_view module = line();
        return push_global(module, line());
      }
      case 0x93: {
        const PickleValue* name = pop();
        const PickleValue* module = pop();
        if (name->kind != Kind::text || module->kind != Kind::text)
          bad("the name of a global is not a string");
        return push_global(module->text, name->text);
      }
      case 'R':
        return call();
      case 'Q':
        return push_new({.kind = Kind::persistent, .items = {pop()}});
      case 'b':  // BUILD: the attributes of an ordered dict, which hold module versions
        pop();
        top(Kind::dict);
        return true;
      default:
        return false;
    }
  }

  Pickle& pickle_;
  ByteReader in_;
  const std::string& what_;
  std::span<const std::string_view> globals_;
  std::vector<PickleValue*> stack_;
  std::unordered_map<uint32_t, PickleValue*> memo_;
};

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != Kind::dict) return nullptr;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i]->kind == Kind::text && items[i]->text == key) return items[i + 1];
  }
  return nullptr;
}

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& what,
               std::span<const std::string_view> globals) {
  if (bytes.size() > kMaxBytes)
    fail("{}: expected a pickle of at most {} bytes, found {}", what, kMaxBytes, bytes.size());
  root_ = PickleMachine(*this, bytes, what, globals).run();
}

std::vector<const PickleValue*> Pickle::of_kind(PickleValue::Kind kind) const {
  std::vector<const PickleValue*> found;
  for (const PickleValue& value : values_)
    if (value.kind == kind) found.push_back(&value);
  return found;
}

}  // namespace gpt
