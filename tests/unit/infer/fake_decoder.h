#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

#include "infer/sequence_model.h"

namespace gpt {

// A decoder without a model: the logits are a function of the ids that the slot can see and of how many
// it was fed. It checks what callers owe it and counts what they ask for.
class FakeDecoder : public SequenceModel {
 public:
  // Logits [vocab] from the last n_ctx ids fed to a slot and the number of all ids fed to it.
  using Model = std::function<std::vector<float>(std::span<const int32_t> window, size_t length)>;

  FakeDecoder(int64_t vocab, int64_t n_ctx, int slots, bool slides = false, Model model = {})
      : vocab_(vocab),
        n_ctx_(n_ctx),
        slides_(slides),
        model_(std::move(model)),
        ids_(static_cast<size_t>(slots)) {
    if (!model_) model_ = [vocab](std::span<const int32_t> w, size_t n) { return hashed(w, n, vocab); };
    for (auto& ids : ids_)
      ids.assign(3, 0);  // left over from an earlier use
  }

  int64_t vocab_size() const override { return vocab_; }
  int64_t n_ctx() const override { return n_ctx_; }
  int slots() const override { return static_cast<int>(ids_.size()); }
  bool can_slide() const override { return slides_; }
  void reset(int slot) override { at(slot).clear(); }
  int64_t length(int slot) const override { return std::ssize(ids_.at(static_cast<size_t>(slot))); }

  void copy(int from, int to) override {
    require(from != to, "copy of a slot to itself");
    at(to) = at(from);
  }

  void forward(std::span<const Append> batch, float* logits) override {
    std::set<int> seen;
    int64_t tokens = 0;
    for (const Append& append : batch) {
      require(seen.insert(append.slot).second, "a slot twice in a batch");
      require(!append.ids.empty() && std::ssize(append.ids) <= n_ctx_, "an append of a bad size");
      for (const int32_t id : append.ids)
        require(id >= 0 && id < vocab_, "an id out of range");
      std::vector<int32_t>& ids = at(append.slot);
      ids.insert(ids.end(), append.ids.begin(), append.ids.end());
      require(slides_ || std::ssize(ids) <= n_ctx_, "more ids than the context holds");
      tokens += std::ssize(append.ids);
      if (!logits) continue;
      const std::vector<float> row = logits_of(ids);
      logits = std::copy(row.begin(), row.end(), logits);
    }
    tokens_fed += tokens;
    largest_batch = std::max(largest_batch, tokens);
  }

  // The logits after `ids`, fed to an empty slot.
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
  std::vector<int32_t>& at(int slot) { return ids_.at(static_cast<size_t>(slot)); }

  int64_t vocab_;
  int64_t n_ctx_;
  bool slides_;
  Model model_;
  std::vector<std::vector<int32_t>> ids_;
};

}  // namespace gpt
