#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/automaton.h"

namespace gpt::grammar {

// A generalized parser that follows all possible parses of a text at the same time. Parses that reach the
// same state are merged (Scott & Johnstone 2010, "GLL parsing"). A position therefore has at most as many
// items as the grammar has states, even if the grammar is ambiguous. Equal positions have the same number, so
// repeating a step is a single table lookup. Does not use recursion. Not thread-safe.
class Stacks {
 public:
  // The number of a parser position. A position stores all information about the text so far that affects its
  // continuation.
  using Position = int32_t;
  static constexpr Position kDead = -1;  // no string of the grammar begins with this text

  // The number of a context, which is the return stack of a rule. A context is a list of return states in the
  // callers. Each return state is stored with the context of its caller. Context 0 is the end of the text.
  using Context = int32_t;
  struct Item {
    int32_t state;
    Context context;
    bool operator==(const Item&) const = default;
    auto operator<=>(const Item&) const = default;
  };

  // Keeps references to both arguments, which must outlive this object. `ends` is the distance from each
  // state to the end of its rule.
  Stacks(const Automaton& automaton, const std::vector<uint32_t>& ends);

  Position begin();  // position at the start of a text
  // Returns a position in the middle of a rule. Only the byte edges of `state` are followed, and the text
  // ends at the end of the rule.
  Position within(int32_t state);
  Position after(Context context);  // position after the end of a rule with this context
  // Returns the position after reading `byte`. Throws Error if that position has more than 4096 items.
  Position step(Position position, uint8_t byte) {
    const int32_t table = positions_[static_cast<size_t>(position)].table;
    if (table >= 0) {
      const Position known = tables_[static_cast<size_t>(table)][byte];
      if (known != kUnknown) return known;
    }
    return make_step(position, byte);
  }

  // Returns the states that can read the next byte. Each state of the automaton occurs at most once in the
  // result.
  std::span<const Item> items(Position position) const;
  bool may_end(Position position) const { return positions_[static_cast<size_t>(position)].ends; }
  // Returns the minimum cost of completing the text. The cost is 0 if the text may end at this position.
  uint32_t distance(Position position) const { return positions_[static_cast<size_t>(position)].distance; }
  uint32_t way_out(Context context) const { return contexts_[static_cast<size_t>(context)].distance; }

  size_t bytes() const;  // approximate memory usage
  // Copies a position to `other`, a parser for the same automaton. Returns the number of the position in
  // `other`.
  Position copy_to(Stacks& other, Position position) const;

 private:
  static constexpr Position kUnknown = -2;
  struct Frame {  // the data of a context
    size_t begin, end;
    bool ends;  // true if the text may end here
    uint32_t distance;
    Position after = kUnknown;
    int32_t next = -1;  // next frame with the same hash
  };
  struct Place {  // the data of a position
    size_t begin, end;
    bool ends;
    uint32_t distance;
    int32_t table = -1;
    int32_t next = -1;
  };
  struct PendingCall {
    int32_t rank;
    RuleId rule;
    Item back;
  };

  Position make_step(Position position, uint8_t byte);
  void add_work(Item item);
  void check_size() const;
  Position close();
  void pop_finished();
  void merge_contexts();
  void call_rules();
  void note_calls(Item item);
  Context context_of(bool ends);
  Position position_of(bool ends);
  bool only_ends(int32_t state) const;

  const Automaton& automaton_;
  const std::vector<uint32_t>& ends_;
  std::vector<Item> pairs_;  // items of all frames and places
  std::vector<Frame> contexts_;
  std::vector<Place> positions_;
  std::unordered_map<uint64_t, int32_t> context_by_hash_, position_by_hash_;
  std::deque<std::array<Position, 256>> tables_;
  std::vector<Item> work_, merged_;  // scratch space of close() and its helpers
  std::vector<PendingCall> calls_;
  std::unordered_set<uint64_t> seen_;
  bool text_ends_ = false;
};

}  // namespace gpt::grammar
