#include "grammar/stacks.h"

#include <algorithm>

#include "base/error.h"

namespace gpt::grammar {
namespace {

constexpr size_t kMostItems = 4096;
constexpr size_t kFew = 24;  // up to this number of items, a linear search is used

uint64_t hash_of(std::span<const Stacks::Item> items, bool ends) {
  uint64_t hash = ends ? 0x51ED270B7A3F9C15ULL : items.size();
  for (const Stacks::Item& item : items) {
    const uint64_t both = static_cast<uint64_t>(item.state) << 32 | static_cast<uint32_t>(item.context);
    hash = (hash ^ both) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 31;
  }
  return hash;
}

void sort_unique(std::vector<Stacks::Item>& items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

}  // namespace

Stacks::Stacks(const Automaton& automaton, const std::vector<uint32_t>& ends)
    : automaton_(automaton), ends_(ends) {
  merged_.clear();
  context_of(true);  // creates context 0, the end of the text
}

Stacks::Position Stacks::begin() {
  work_.clear();
  work_.push_back({automaton_.rules[0].start, 0});
  text_ends_ = automaton_.empty_text;
  return close();
}

Stacks::Position Stacks::within(int32_t state) {
  work_.assign({{state, 0}});
  text_ends_ = false;
  return position_of(false);
}

Stacks::Position Stacks::after(Context context) {
  const Frame& frame = contexts_[static_cast<size_t>(context)];
  if (frame.after != kUnknown) return frame.after;
  work_.assign(pairs_.begin() + static_cast<std::ptrdiff_t>(frame.begin),
               pairs_.begin() + static_cast<std::ptrdiff_t>(frame.end));
  text_ends_ = frame.ends;
  const Position after = close();
  return contexts_[static_cast<size_t>(context)].after = after;
}

std::span<const Stacks::Item> Stacks::items(Position position) const {
  const Place& place = positions_[static_cast<size_t>(position)];
  return std::span(pairs_).subspan(place.begin, place.end - place.begin);
}

Stacks::Position Stacks::make_step(Position position, uint8_t byte) {
  work_.clear();
  text_ends_ = false;
  for (const Item& item : items(position)) {
    for (const Automaton::ByteEdge& edge : automaton_.bytes_of(item.state)) {
      if (byte > edge.last) continue;
      if (byte >= edge.first) work_.push_back({edge.target, item.context});
      break;
    }
  }
  const Position next = work_.empty() ? kDead : close();
  int32_t& table = positions_[static_cast<size_t>(position)].table;
  if (table < 0) {
    table = static_cast<int32_t>(tables_.size());
    tables_.emplace_back().fill(kUnknown);
  }
  return tables_[static_cast<size_t>(table)][byte] = next;
}

// Adds an item to work_ unless it is already there.
void Stacks::add_work(Item item) {
  const auto key = [](const Item& i) {
    return static_cast<uint64_t>(i.state) << 32 | static_cast<uint32_t>(i.context);
  };
  if (work_.size() < kFew) {
    if (std::find(work_.begin(), work_.end(), item) != work_.end()) return;
  } else {
    if (seen_.empty()) {
      for (const Item& known : work_)
        seen_.insert(key(known));
    }
    if (!seen_.insert(key(item)).second) return;
  }
  work_.push_back(item);
  check_size();
}

void Stacks::check_size() const {
  if (work_.size() > kMostItems)
    fail("grammar: more than {} parses of the same text; make it less ambiguous", kMostItems);
}

// Returns the position that consists of the states in work_ and all states reachable from them without
// reading a byte.
Stacks::Position Stacks::close() {
  pop_finished();
  merge_contexts();
  call_rules();
  std::erase_if(work_, [&](const Item& item) { return automaton_.bytes_of(item.state).empty(); });
  std::sort(work_.begin(), work_.end());
  return position_of(text_ends_);
}

// Adds the return states of all rules that can end here. The loop appends new items to work_ while iterating
// over it.
void Stacks::pop_finished() {
  for (size_t i = 0; i < work_.size(); ++i) {
    const Item item = work_[i];
    if (!automaton_.states[static_cast<size_t>(item.state)].final) continue;
    const Frame frame = contexts_[static_cast<size_t>(item.context)];
    text_ends_ |= frame.ends;
    for (size_t pair = frame.begin; pair < frame.end; ++pair)
      add_work(pairs_[pair]);
  }
  if (!seen_.empty()) seen_.clear();
}

// Merges all items with the same state into one item. The context of the new item is the union of their
// contexts.
void Stacks::merge_contexts() {
  if (work_.size() < 2) return;
  sort_unique(work_);
  std::vector<Item> result;
  for (size_t i = 0; i < work_.size();) {
    size_t end = i + 1;
    while (end < work_.size() && work_[end].state == work_[i].state)
      ++end;
    Item item = work_[i];
    if (end > i + 1) {
      merged_.clear();
      bool ends = false;
      for (size_t k = i; k < end; ++k) {
        const Frame& frame = contexts_[static_cast<size_t>(work_[k].context)];
        ends |= frame.ends;
        merged_.insert(merged_.end(), pairs_.begin() + static_cast<std::ptrdiff_t>(frame.begin),
                       pairs_.begin() + static_cast<std::ptrdiff_t>(frame.end));
      }
      item.context = context_of(ends);
    }
    result.push_back(item);
    i = end;
  }
  work_ = std::move(result);
}

bool Stacks::only_ends(int32_t state) const {
  const Automaton::State& s = automaton_.states[static_cast<size_t>(state)];
  return s.final && s.bytes_begin == s.bytes_end && s.calls_begin == s.calls_end;
}

void Stacks::note_calls(Item item) {
  for (const Automaton::CallEdge& call : automaton_.calls_of(item.state))
    calls_.push_back(
        {automaton_.rules[static_cast<size_t>(call.rule)].rank, call.rule, {call.target, item.context}});
}

// Adds the start states of the called rules. Rules are called in the order of their ranks, so that all
// callers of a rule at this position are known before the rule is called. A tail call returns directly to the
// caller of its rule. This keeps the stacks short.
void Stacks::call_rules() {
  calls_.clear();
  for (const Item& item : work_)
    note_calls(item);
  while (!calls_.empty()) {
    const PendingCall first = *std::ranges::min_element(calls_, {}, &PendingCall::rank);
    merged_.clear();
    bool ends = false;
    for (const PendingCall& call : calls_) {
      if (call.rank != first.rank) continue;
      if (!only_ends(call.back.state)) {
        merged_.push_back(call.back);
        continue;
      }
      const Frame& frame = contexts_[static_cast<size_t>(call.back.context)];
      ends |= frame.ends;
      merged_.insert(merged_.end(), pairs_.begin() + static_cast<std::ptrdiff_t>(frame.begin),
                     pairs_.begin() + static_cast<std::ptrdiff_t>(frame.end));
    }
    std::erase_if(calls_, [&](const PendingCall& call) { return call.rank == first.rank; });
    const Item start{automaton_.rules[static_cast<size_t>(first.rule)].start, context_of(ends)};
    work_.push_back(start);
    note_calls(start);
    check_size();
  }
}

// Returns the context whose return states are in merged_. Creates the context if it does not exist.
Stacks::Context Stacks::context_of(bool ends) {
  sort_unique(merged_);
  const auto [at, fresh] =
      context_by_hash_.try_emplace(hash_of(merged_, ends), static_cast<int32_t>(contexts_.size()));
  for (int32_t known = fresh ? -1 : at->second; known >= 0;
       known = contexts_[static_cast<size_t>(known)].next) {
    const Frame& frame = contexts_[static_cast<size_t>(known)];
    if (frame.ends == ends &&
        std::ranges::equal(merged_, std::span(pairs_).subspan(frame.begin, frame.end - frame.begin)))
      return known;
  }
  Frame frame{pairs_.size(), pairs_.size() + merged_.size(), ends, ends ? 0 : kNoEnd};
  for (const Item& item : merged_) {
    frame.distance = std::min(
        frame.distance, sum_of_distances(ends_[static_cast<size_t>(item.state)], way_out(item.context)));
  }
  if (!fresh) frame.next = std::exchange(at->second, static_cast<int32_t>(contexts_.size()));
  pairs_.insert(pairs_.end(), merged_.begin(), merged_.end());
  contexts_.push_back(frame);
  return static_cast<Context>(contexts_.size() - 1);
}

// Returns the position whose items are in work_. Creates the position if it does not exist.
Stacks::Position Stacks::position_of(bool ends) {
  if (work_.empty() && !ends) return kDead;
  const auto [at, fresh] =
      position_by_hash_.try_emplace(hash_of(work_, ends), static_cast<int32_t>(positions_.size()));
  for (int32_t known = fresh ? -1 : at->second; known >= 0;
       known = positions_[static_cast<size_t>(known)].next) {
    if (positions_[static_cast<size_t>(known)].ends == ends && std::ranges::equal(work_, items(known)))
      return known;
  }
  Place place{pairs_.size(), pairs_.size() + work_.size(), ends, ends ? 0 : kNoEnd};
  for (const Item& item : work_) {
    place.distance = std::min(
        place.distance, sum_of_distances(ends_[static_cast<size_t>(item.state)], way_out(item.context)));
  }
  if (!fresh) place.next = std::exchange(at->second, static_cast<int32_t>(positions_.size()));
  pairs_.insert(pairs_.end(), work_.begin(), work_.end());
  positions_.push_back(place);
  return static_cast<Position>(positions_.size() - 1);
}

size_t Stacks::bytes() const {
  constexpr size_t kMapEntry = 48;
  return pairs_.size() * sizeof(Item) + contexts_.size() * (sizeof(Frame) + kMapEntry) +
         positions_.size() * (sizeof(Place) + kMapEntry) + tables_.size() * sizeof(tables_[0]);
}

Stacks::Position Stacks::copy_to(Stacks& other, Position position) const {
  if (position == kDead) return kDead;
  // A context only refers to older contexts. The loops therefore mark the required contexts from newest to
  // oldest, and then copy the marked contexts from oldest to newest.
  std::vector<Context> copies(contexts_.size(), kUnknown);
  constexpr Context kWanted = -3;
  for (const Item& item : items(position))
    copies[static_cast<size_t>(item.context)] = kWanted;
  const auto pairs_of = [&](size_t c) {
    return std::span(pairs_).subspan(contexts_[c].begin, contexts_[c].end - contexts_[c].begin);
  };
  for (size_t c = contexts_.size(); c-- > 0;) {
    if (copies[c] != kWanted) continue;
    for (const Item& pair : pairs_of(c))
      copies[static_cast<size_t>(pair.context)] = kWanted;
  }
  const auto moved = [&](std::span<const Item> from, std::vector<Item>& to) {
    to.clear();
    for (const Item& item : from)
      to.push_back({item.state, copies[static_cast<size_t>(item.context)]});
  };
  for (size_t c = 0; c < contexts_.size(); ++c) {
    if (copies[c] != kWanted) continue;
    moved(pairs_of(c), other.merged_);
    copies[c] = other.context_of(contexts_[c].ends);
  }
  moved(items(position), other.work_);
  std::sort(other.work_.begin(), other.work_.end());
  return other.position_of(may_end(position));
}

}  // namespace gpt::grammar
