#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

#include "infer/sequence_model.h"
#include "support/backend.h"
#include "tensor/device.h"

namespace gpt {

// A decoder without a model. Its logits are a function of the ids in the context window of a slot and of the
// number of ids fed to the slot. The decoder checks the preconditions of its callers, counts their requests,
// and remembers every sequence that it has computed. Memory is counted in cache pages of kBlock ids, and
// sequences share no pages.
class FakeDecoder : public SequenceModel {
 public:
  // Returns logits [vocab] for the last n_ctx ids fed to a slot and the total number of ids fed to it.
  using Model = std::function<std::vector<float>(std::span<const int32_t> window, size_t length)>;

  FakeDecoder(int64_t vocab, int64_t n_ctx, int slots, bool slides = false, Model model = {}, int threads = 1)
      : pool_(threads),
        vocab_(vocab),
        n_ctx_(n_ctx),
        slides_(slides),
        model_(std::move(model)),
        ids_(static_cast<size_t>(slots)),
        reserved_(ids_.size()) {
    if (!model_) model_ = [vocab](std::span<const int32_t> w, size_t n) { return hashed(w, n, vocab); };
    for (auto& ids : ids_)
      ids.assign(3, 0);  // left over from an earlier use
  }

  const Backend& backend() const override { return backend_; }
  int64_t vocab_size() const override { return vocab_; }
  int64_t n_ctx() const override { return n_ctx_; }
  int slots() const override { return static_cast<int>(ids_.size()); }
  bool can_slide() const override { return slides_; }
  void reset(int slot, int = -1, uint64_t = 0) override {
    at(slot).clear();
    reserved_.at(static_cast<size_t>(slot)) = 0;
  }
  void truncate(int slot, int64_t n) override {
    require(n >= 0 && n <= length(slot), "more ids taken back than there are");
    at(slot).resize(static_cast<size_t>(n));
  }
  bool can_roll_back() const override { return rolls_back; }
  bool rolls_back = true;
  int64_t length(int slot) const override { return std::ssize(ids_.at(static_cast<size_t>(slot))); }

  static constexpr int64_t kBlock = 4;
  int64_t memory = 1 << 20;  // cache pages

  int64_t room(int slot) const override { return slides_ ? n_ctx_ : n_ctx_ - length(slot); }
  bool reserve(int slot, int64_t n) override {
    require(n >= 1 && n <= room(slot), "a reservation beyond the room");
    return take(slot, length(slot) + n);
  }
  int64_t reuse(int slot, std::span<const int32_t> ids) override {
    require(length(slot) == 0, "reuse in a slot that is not empty");
    const int64_t known = prospect(ids).known;
    if (!take(slot, known)) return 0;
    at(slot).assign(ids.begin(), ids.begin() + known);
    return known;
  }
  Prospect prospect(std::span<const int32_t> ids, int = -1, uint64_t = 0) const override {
    int64_t known = 0;
    for (const std::vector<int32_t>& past : remembered_) {
      const auto end = std::mismatch(ids.begin(), ids.end() - 1, past.begin(), past.end());
      known = std::max(known, end.first - ids.begin());
    }
    return {known, blocks_of(std::ssize(ids))};
  }
  int64_t available_blocks() const override {
    return memory - std::accumulate(reserved_.begin(), reserved_.end(), int64_t{0});
  }
  void forget() {
    remembered_.clear();
    tokens_fed = 0;
  }

  void copy(int from, int to) override {
    require(from != to, "copy of a slot to itself");
    at(to) = at(from);
    reserved_.at(static_cast<size_t>(to)) = reserved_.at(static_cast<size_t>(from));
  }

  void forward(std::span<const Append> batch, const TensorView& logits) override {
    const MappedView to(logits, Access::write);
    std::set<int> seen;
    int64_t tokens = 0, row = 0;
    for (const Append& append : batch) {
      require(seen.insert(append.slot).second, "a slot twice in a batch");
      require(!append.ids.empty() && std::ssize(append.ids) <= n_ctx_, "an append of a bad size");
      for (const int32_t id : append.ids)
        require(id >= 0 && id < vocab_, "an id out of range");
      require(reserve(append.slot, std::ssize(append.ids)), "ids without memory");
      std::vector<int32_t>& ids = at(append.slot);
      ids.insert(ids.end(), append.ids.begin(), append.ids.end());
      require(slides_ || std::ssize(ids) <= n_ctx_, "more ids than the context holds");
      tokens += std::ssize(append.ids);
      remember(ids);
      require(append.wanted <= std::ssize(append.ids), "logits of more ids than there are");
      for (int64_t left = append.wanted; left-- > 0;) {
        std::ranges::copy(logits_of(std::span(ids).first(ids.size() - static_cast<size_t>(left))),
                          to->row<float>(row++));
      }
    }
    tokens_fed += tokens;
    largest_batch = std::max(largest_batch, tokens);
  }

  // Returns the logits after feeding `ids` to an empty slot.
  std::vector<float> logits_of(std::span<const int32_t> ids) const {
    return model_(ids.last(std::min(ids.size(), static_cast<size_t>(n_ctx_))), ids.size());
  }

  static std::vector<float> hashed(std::span<const int32_t> window, size_t length, int64_t vocab) {
    uint64_t hash = length + 1;
    for (const int32_t id : window)
      hash = (hash ^ static_cast<uint64_t>(id)) * 0x9E3779B97F4A7C15ull + (hash >> 29);
    std::vector<float> row(static_cast<size_t>(vocab));
    for (float& x : row) {
      hash = hash * 6364136223846793005ull + 1442695040888963407ull;
      x = static_cast<float>(hash >> 40) / static_cast<float>(1 << 22) - 2;
    }
    return row;
  }

  int64_t tokens_fed = 0;
  int64_t largest_batch = 0;

 private:
  static void require(bool condition, const char* what) {
    if (!condition) throw std::logic_error(what);
  }
  // A sliding sequence needs the ids that attention sees and those that one call adds.
  int64_t blocks_of(int64_t ids) const { return (std::min(ids, 2 * n_ctx_) + kBlock - 1) / kBlock; }
  bool take(int slot, int64_t ids) {
    int64_t& held = reserved_.at(static_cast<size_t>(slot));
    if (blocks_of(ids) - held > available_blocks()) return false;
    held = std::max(blocks_of(ids), held);
    return true;
  }
  void remember(const std::vector<int32_t>& ids) {
    for (std::vector<int32_t>& past : remembered_) {
      if (past.size() >= ids.size() || !std::equal(past.begin(), past.end(), ids.begin())) continue;
      past = ids;  // a longer version of the same sequence
      return;
    }
    remembered_.push_back(ids);
  }
  std::vector<int32_t>& at(int slot) { return ids_.at(static_cast<size_t>(slot)); }

  ThreadPool pool_;
  Backend backend_ = test::backend(pool_, Isa::ref);
  int64_t vocab_;
  int64_t n_ctx_;
  bool slides_;
  Model model_;
  std::vector<std::vector<int32_t>> ids_;
  std::vector<int64_t> reserved_;  // cache pages by slot
  std::vector<std::vector<int32_t>> remembered_;
};

}  // namespace gpt
