#include "text/bpe_trainer.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>

#include "base/error.h"

namespace gpt {
namespace {

// Prefetch distance, in elements.
constexpr size_t kAhead = 8;

uint64_t key_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}
int32_t left_of(uint64_t key) {
  return static_cast<int32_t>(key >> 32);
}
int32_t right_of(uint64_t key) {
  return static_cast<int32_t>(key & 0xffffffffu);
}

// Counts pairs of tokens and numbers them in the order of insertion. A hash table with open addressing.
class PairCounts {
 public:
  PairCounts() : slots_(size_t{1} << 16) {}

  // Returns the number of a pair. A new pair has the count 0.
  uint32_t find_or_add(uint64_t key) {
    if (2 * (counts_.size() + 1) > slots_.size()) grow();
    Slot& slot = find(slots_, key);
    if (slot.key != key) {
      slot = {key, static_cast<uint32_t>(counts_.size())};
      counts_.push_back(0);
    }
    return slot.number;
  }
  void prefetch(uint64_t key) const { __builtin_prefetch(&slots_[place(key, slots_.size())]); }
  int64_t& operator[](uint32_t number) { return counts_[number]; }
  size_t size() const { return counts_.size(); }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};  // not a valid pair, because ids are not negative
  struct Slot {
    uint64_t key = kFree;
    uint32_t number = 0;
  };

  static size_t place(uint64_t key, size_t size) {
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> (65 - std::bit_width(size)));
  }
  static Slot& find(std::vector<Slot>& slots, uint64_t key) {
    size_t at = place(key, slots.size());
    while (slots[at].key != kFree && slots[at].key != key)
      at = (at + 1) & (slots.size() - 1);
    return slots[at];
  }
  void grow() {
    if (counts_.size() >= std::numeric_limits<uint32_t>::max() / 4)
      fail("the text has too many distinct token pairs to learn merges; use less text");
    std::vector<Slot> larger(2 * slots_.size());
    for (const Slot& slot : slots_) {
      if (slot.key != kFree) find(larger, slot.key) = slot;
    }
    slots_ = std::move(larger);
  }

  std::vector<Slot> slots_;
  std::vector<int64_t> counts_;
};

// A pair that may be merged, with the words in which it appeared in one round. The pair may appear again in a
// later round, because a later merge may produce one of its tokens again. It then becomes a new candidate,
// with the words of that round.
struct Candidate {
  uint64_t key;
  uint64_t words;  // index of the first word in places_
  uint32_t count;  // number of words
  uint32_t pair;   // number of the pair
};

// A priority queue of candidates. The candidate with the largest count comes first, and ties go to the
// smallest pair. The count of a candidate is the count at the time of its last check. Most pairs are rare and
// are never merged, so the heap does not contain candidates with a count below a floor. The floor is lowered
// when the heap is empty.
class Queue {
 public:
  struct Entry {
    int64_t count;
    uint64_t key;
    uint32_t candidate;
    bool operator<(const Entry& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };

  void push(const Entry& entry) {
    if (entry.count < floor_) {
      low_.push_back(entry);
      return;
    }
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end());
  }
  // Returns false if the queue is empty.
  bool pop(Entry& entry) {
    while (heap_.empty()) {
      if (low_.empty()) return false;
      sink();
    }
    std::pop_heap(heap_.begin(), heap_.end());
    entry = heap_.back();
    heap_.pop_back();
    return true;
  }

 private:
  void sink() {
    int64_t highest = 0;
    for (const Entry& entry : low_)
      highest = std::max(highest, entry.count);
    floor_ = highest / 8 + 1;
    const auto low =
        std::partition(low_.begin(), low_.end(), [this](const Entry& entry) { return entry.count < floor_; });
    heap_.assign(low, low_.end());
    low_.erase(low, low_.end());
    std::make_heap(heap_.begin(), heap_.end());
  }

  int64_t floor_ = std::numeric_limits<int64_t>::max();
  std::vector<Entry> heap_, low_;
};

// Collects the tokens that are next to the merged pair, on one side, in one round. For each token, stores the
// words in which it occurs next to the pair, and the number of these occurrences in all texts.
class Neighbours {
 public:
  void start_round(size_t vocab_size) {
    ++round_;
    tokens_.clear();
    places_.clear();
    if (slot_of_.size() < vocab_size) slot_of_.resize(2 * vocab_size);
  }
  void see(int32_t token, int64_t count, uint32_t word) {
    uint64_t& slot = slot_of_[static_cast<size_t>(token)];
    if (slot >> 32 != round_) {
      slot = uint64_t{round_} << 32 | tokens_.size();
      tokens_.push_back({.id = token});
    }
    const auto at = static_cast<uint32_t>(slot);
    Token& t = tokens_[at];
    t.sum += count;
    if (t.last == word) return;
    t.last = word;
    ++t.words;
    places_.push_back({at, word});
  }

  struct Token {
    int32_t id;
    uint32_t last = ~uint32_t{0};  // the word in which the token was last seen
    uint32_t words = 0;
    int64_t sum = 0;
    uint64_t begin = 0;
  };
  std::vector<Token>& tokens() { return tokens_; }

  struct Place {
    uint32_t slot, word;
  };
  const std::vector<Place>& places() const { return places_; }

  // Appends the words of each token to `list`. The words of one token are contiguous.
  void append_words(std::vector<uint32_t>& list) {
    uint64_t end = list.size();
    for (Token& t : tokens_) {
      t.begin = end;
      end += t.words;
      t.words = 0;
    }
    list.resize(end);
    for (const auto& [slot, word] : places_) {
      Token& t = tokens_[slot];
      list[t.begin + t.words++] = word;
    }
  }

 private:
  uint32_t round_ = 0;
  std::vector<uint64_t> slot_of_;  // by id: round in the upper half, slot in the lower half
  std::vector<Token> tokens_;
  std::vector<Place> places_;
};

}  // namespace

void WordList::add(uint64_t count, const std::vector<int32_t>& ids) {
  if (data_.size() + kHeader + ids.size() > std::numeric_limits<uint32_t>::max())
    fail(
        "the distinct words of the text have more than 2^32 symbols; use less text or a smaller `max_words`");
  data_.push_back(static_cast<uint32_t>(ids.size()));
  data_.push_back(static_cast<uint32_t>(count));
  data_.push_back(static_cast<uint32_t>(count >> 32));
  for (const int32_t id : ids)
    data_.push_back(static_cast<uint32_t>(id));
  ++size_;
}

// A merged pair keeps its count, as in Hugging Face's trainer. If the pair appears again later, the new count
// is added to the old count. The pair then has the rank of its last merge.
class BpeTrainer {
 public:
  explicit BpeTrainer(BpeTrainInput input)
      : tokens_(std::move(input.tokens)), words_(std::move(input.words.data_)) {
    for (size_t id = 0; id < tokens_.size(); ++id)
      ids_.emplace(tokens_[id], static_cast<int32_t>(id));
    GPT_ASSERT(ids_.size() == tokens_.size());
    count_pairs();
  }

  BpeTrainResult train(size_t vocab_size, const BpeTrainProgress& progress) {
    constexpr size_t kRoundsPerReport = 64;
    Queue::Entry top;
    while (tokens_.size() < vocab_size && queue_.pop(top)) {
      const Candidate candidate = candidates_[top.candidate];
      const int64_t count = pairs_[candidate.pair];
      if (count < 1) continue;
      if (count != top.count) {
        top.count = count;
        queue_.push(top);
        continue;
      }
      if (length_of(candidate) > kMaxTokenBytes) continue;
      merge(candidate);
      if (progress && tokens_.size() % kRoundsPerReport == 0)
        progress(std::ssize(tokens_), static_cast<int64_t>(vocab_size));
    }
    keep_last_of_equal(merges_);
    return {std::move(tokens_), std::move(merges_), text_tokens_};
  }

 private:
  struct Word {
    uint32_t* begin;
    uint32_t* end;
    int64_t count;
  };
  Word word_at(uint32_t place) {
    uint32_t* header = words_.data() + place;
    return {header + WordList::kHeader, header + WordList::kHeader + header[0],
            static_cast<int64_t>(uint64_t{header[2]} << 32 | header[1])};
  }

  uint32_t next_place(uint32_t place) const {
    return place + static_cast<uint32_t>(WordList::kHeader) + words_[place];
  }

  void count_pairs() {
    for (uint32_t place = 0; place < words_.size(); place = next_place(place))
      text_tokens_ += word_at(place).count * words_[place];
    // The first pass counts the words of every pair, the second pass stores the words.
    std::vector<uint32_t> last;  // by pair: the word in which the pair was last seen
    for_each_adjacent([&](uint64_t key, uint32_t place, int64_t count) {
      const uint32_t pair = pairs_.find_or_add(key);
      if (pair == candidates_.size()) {
        candidates_.push_back({key, 0, 0, pair});
        last.push_back(~uint32_t{0});
      }
      pairs_[pair] += count;
      if (last[pair] != place) ++candidates_[pair].count;
      last[pair] = place;
    });
    uint64_t end = 0;
    for (Candidate& c : candidates_) {
      c.words = end;
      end += c.count;
      c.count = 0;
    }
    places_.resize(end);
    std::ranges::fill(last, ~uint32_t{0});
    for_each_adjacent([&](uint64_t key, uint32_t place, int64_t) {
      Candidate& c = candidates_[pairs_.find_or_add(key)];
      if (last[c.pair] != place) places_[c.words + c.count++] = place;
      last[c.pair] = place;
    });
    for (const Candidate& c : candidates_)
      queue_.push({pairs_[c.pair], c.key, c.pair});
  }

  // Calls f for all pairs of adjacent symbols. Must only be used before the first merge.
  template <class F>
  void for_each_adjacent(F&& f) {
    for (uint32_t place = 0; place < words_.size(); place = next_place(place)) {
      const Word word = word_at(place);
      for (const uint32_t* s = word.begin; s + 1 < word.end; ++s)
        f(key_of(static_cast<int32_t>(s[0]), static_cast<int32_t>(s[1])), place, word.count);
    }
  }

  void merge(const Candidate& c) {
    const int32_t left = left_of(c.key), right = right_of(c.key);
    const int32_t joined = join(left, right);
    merges_.push_back({left, right, joined});
    before_.start_round(tokens_.size());
    behind_.start_round(tokens_.size());
    twins_.start_round(tokens_.size());
    for (uint32_t i = 0; i < c.count; ++i) {
      if (i + kAhead < c.count) __builtin_prefetch(words_.data() + places_[c.words + i + kAhead]);
      merge_in_word(places_[c.words + i], left, right, joined);
    }
    update_counts(left, right, joined);
    add_candidates(joined);
  }

  size_t length_of(const Candidate& c) const {
    return tokens_[static_cast<size_t>(left_of(c.key))].size() +
           tokens_[static_cast<size_t>(right_of(c.key))].size();
  }

  int32_t join(int32_t left, int32_t right) {
    std::string bytes = tokens_[static_cast<size_t>(left)] + tokens_[static_cast<size_t>(right)];
    const auto [found, is_new] = ids_.emplace(bytes, static_cast<int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(std::move(bytes));
    return found->second;
  }

  void merge_in_word(uint32_t place, int32_t left, int32_t right, int32_t joined) {
    const Word word = word_at(place);
    const auto l = static_cast<uint32_t>(left), r = static_cast<uint32_t>(right),
               x = static_cast<uint32_t>(joined);
    uint32_t* out = word.begin;
    for (const uint32_t* in = word.begin; in < word.end; ++out) {
      if (in + 1 >= word.end || in[0] != l || in[1] != r) {
        *out = *in++;
        continue;
      }
      in += 2;
      if (out > word.begin) {
        const uint32_t neighbour = out[-1];
        (neighbour == x ? twins_ : before_).see(static_cast<int32_t>(neighbour), word.count, place);
      }
      if (in < word.end) behind_.see(static_cast<int32_t>(*in), word.count, place);
      *out = x;
    }
    text_tokens_ -= word.count * (word.end - out);
    words_[place] = static_cast<uint32_t>(out - word.begin);
  }

  // Updates the counts of the pairs next to a merge. Before the merge, a neighbor formed a pair with the left
  // or right token. After the merge, the neighbor forms a pair with the new token.
  void update_counts(int32_t left, int32_t right, int32_t joined) {
    changes_.clear();
    for (const auto& t : before_.tokens()) {
      changes_.push_back({key_of(t.id, left), -t.sum});
      changes_.push_back({key_of(t.id, joined), t.sum});
    }
    for (const auto& t : behind_.tokens()) {
      changes_.push_back({key_of(right, t.id), -t.sum});
      changes_.push_back({key_of(joined, t.id), t.sum});
    }
    for (const auto& t : twins_.tokens()) {
      changes_.push_back({key_of(joined, left), -t.sum});
      changes_.push_back({key_of(joined, joined), t.sum});
    }
    for (size_t i = 0; i < changes_.size(); ++i) {
      if (i + kAhead < changes_.size()) pairs_.prefetch(changes_[i + kAhead].key);
      pairs_[pairs_.find_or_add(changes_[i].key)] += changes_[i].sum;
    }
  }

  void add_candidates(int32_t joined) {
    // all pairs (joined, joined) form one candidate
    for (const auto& place : twins_.places())
      behind_.see(joined, 0, place.word);
    for (const bool in_front : {true, false}) {
      Neighbours& side = in_front ? before_ : behind_;
      side.append_words(places_);
      for (const auto& t : side.tokens()) {
        const uint64_t key = in_front ? key_of(t.id, joined) : key_of(joined, t.id);
        const uint32_t pair = pairs_.find_or_add(key);
        if (pairs_[pair] < 1) continue;
        queue_.push({pairs_[pair], key, static_cast<uint32_t>(candidates_.size())});
        candidates_.push_back({key, t.begin, t.words, pair});
      }
    }
  }

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<uint32_t> words_;
  PairCounts pairs_;
  std::vector<Candidate> candidates_;
  std::vector<uint32_t> places_;  // words of the candidates
  Queue queue_;
  std::vector<Bpe::Merge> merges_;
  int64_t text_tokens_ = 0;

  // Neighbors in the current round. before_ contains the tokens before the merged pair, except the new token.
  // twins_ contains the new token if it is before the merged pair. behind_ contains the tokens after the
  // merged pair.
  Neighbours before_, behind_, twins_;
  struct Change {
    uint64_t key;
    int64_t sum;
  };
  std::vector<Change> changes_;
};

BpeTrainResult train_bpe(BpeTrainInput input, int64_t vocab_size, const BpeTrainProgress& progress) {
  if (vocab_size < std::ssize(input.tokens)) {
    fail("the vocabulary is too small: expected at least the {} tokens of the alphabet, found {}",
         input.tokens.size(), vocab_size);
  }
  return BpeTrainer(std::move(input)).train(static_cast<size_t>(vocab_size), progress);
}

}  // namespace gpt
