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

// Where a text can be in a grammar, for any number of beginnings of texts: all ways to read a beginning are
// followed at once and merged wherever they meet (Scott & Johnstone 2010, "GLL parsing"), so a position costs
// at most as much as the grammar has states, however ambiguous it is. What was seen before is found again by
// its number, and a byte read from it once costs one look-up the next time. Nothing is by recursion. One
// thread at a time.
class Stacks {
 public:
  // A position: what has been read, as far as it matters for what may follow.
  using Position = int32_t;
  static constexpr Position kDead = -1;  // nothing fits what was read

  // What a rule returns to: states of callers, each with its own context. Context 0 is the end of the text.
  using Context = int32_t;
  struct Item {
    int32_t state;
    Context context;
    bool operator==(const Item&) const = default;
    auto operator<=>(const Item&) const = default;
  };

  // Refers to both, which outlive it. ends: what it costs to get from each state to the end of its rule.
  Stacks(const Automaton& automaton, const std::vector<uint32_t>& ends);

  Position begin();  // of a text
  Position within(
      int32_t state);  // of a rule's rest, read by the state's own byte edges; its end is the text's
  Position after(Context context);  // where a rule with this context has just ended
  // Throws Error where a position would have more than some thousand states.
  Position step(Position position, uint8_t byte) {
    const int32_t table = positions_[static_cast<size_t>(position)].table;
    if (table >= 0) {
      const Position known = tables_[static_cast<size_t>(table)][byte];
      if (known != kUnknown) return known;
    }
    return make_step(position, byte);
  }

  // The states that read the next byte, one or none for each state of the automaton.
  std::span<const Item> items(Position position) const;
  bool may_end(Position position) const { return positions_[static_cast<size_t>(position)].ends; }
  // The least that the rest of the text costs; 0 where it may end.
  uint32_t distance(Position position) const { return positions_[static_cast<size_t>(position)].distance; }
  uint32_t way_out(Context context) const { return contexts_[static_cast<size_t>(context)].distance; }

  size_t bytes() const;  // of memory, about
  // The same position in other stacks over the same automaton.
  Position copy_to(Stacks& other, Position position) const;

 private:
  static constexpr Position kUnknown = -2;
  struct Frame {  // what a context is
    size_t begin, end;
    bool ends;  // the text may end here
    uint32_t distance;
    Position after = kUnknown;
    int32_t next = -1;  // with the same hash
  };
  struct Place {  // what a position is
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
  std::vector<Item> pairs_;  // of all frames and places
  std::vector<Frame> contexts_;
  std::vector<Place> positions_;
  std::unordered_map<uint64_t, int32_t> context_by_hash_, position_by_hash_;
  std::deque<std::array<Position, 256>> tables_;
  std::vector<Item> work_, merged_;  // used by close() and what it calls
  std::vector<PendingCall> calls_;
  std::unordered_set<uint64_t> seen_;
  bool text_ends_ = false;
};

}  // namespace gpt::grammar
