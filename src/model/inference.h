#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "model/rope_table.h"
#include "model/weight_pages.h"
#include "tensor/device.h"

namespace gpt {

// What inference with weights of a type computes in, unless told otherwise: activations, and cached keys and
// values. Quantised weights go with bf16, whose rounding is small beside theirs. Activations beside fp16
// weights stay fp32, for they may be larger than fp16 can hold.
struct InferenceTypes {
  DType activations, cache;
};
InferenceTypes inference_types(DType weights);

// Runs a model over sequences that grow token by token, with cached keys and values. The logits of a
// token have the same bits however its sequence was cut into calls and whatever ran beside it.
class Inference {
 public:
  struct Options {
    int slots = 1;                      // sequences
    int64_t max_rows = 512;             // tokens of a step, at least the slots
    int64_t capacity = 0;               // tokens a sequence may have, at most n_ctx (0: n_ctx)
    int64_t cache_tokens = 0;           // keys and values of all sequences together (0: all slots full)
    bool slide = false;                 // past the capacity keep the last keys (rotary positions only)
    DType dtype = DType::f32;           // of activations: any but the quantised ones
    std::optional<DType> weights = {};  // what products with weights are computed in (dtype)
    // Matrices stored in that type are read where they are, without a copy; those stored in 16 bits are in
    // any case, for products in fp32. In bf16 it is slower.
    bool in_place = false;
    // Of cached keys and values: fp32, bf16, fp16, int8 or q4_0 (dtype).
    std::optional<DType> kv_dtype = {};
    int64_t adapter_rank = 0;  // the largest of any adapter; 0: there are none
    Repack repack = Repack::never;
  };
  // The model's weights lie in memory of the backend. Throws Error where they are to be repacked at once and
  // cannot be.
  Inference(const Model& model, const Backend& backend, Options options);

  struct Append {
    int slot;
    std::span<const int32_t> ids;  // at least one
    int64_t wanted = 1;            // the logits after so many of them, the last ones, are
  };
  // Appends tokens to sequences (each slot at most once per call) and writes the logits that are wanted, in
  // the order of the tokens, to consecutive rows of logits [wanted,V]. Throws Error, with nothing appended,
  // for ids out of range, for more than max_rows tokens or more than `room` of a sequence (infer/feed.h cuts
  // longer batches), or when the cache is short (see reserve). It is one step through the model; once every
  // slot was used, that allocates nothing.
  void append(std::span<const Append> batch, const TensorView& logits);
  // The same with the hidden states that the head's matrix would read, [wanted,C] of the type of activations,
  // in place of logits.
  void append_hidden(std::span<const Append> batch, const TensorView& hidden);
  // As above for one sequence, with the logits of every appended token: [ids,V].
  void append_all(int slot, std::span<const int32_t> ids, const TensorView& logits) {
    const Append all{slot, ids, std::ssize(ids)};
    append({&all, 1}, logits);
  }

  // Adds an adapter of the model with a rank of at most adapter_rank and returns its number, which `reset`
  // takes. Throws Error when there are kMostAdapters.
  int add_adapter(std::shared_ptr<const Adapter> adapter);
  static constexpr int kMostAdapters = (1 << 20) - 1;
  int adapters() const { return static_cast<int>(adapters_.size()); }  // all numbers are below
  // Frees an adapter, and what is cached for it. Slots that have it become empty. A later adapter may get its
  // number.
  void free_adapter(int adapter);
  // Empties a slot. The sequence that it will hold has this adapter (-1: none), which copies share and
  // `reuse` observes. Sequences share what is cached with others of their salt alone (< kSalts; 0: none).
  static constexpr uint64_t kSalts = uint64_t{1} << 40;
  void reset(int slot, int adapter = -1, uint64_t salt = 0);
  // Takes back all tokens of a sequence but the first n, as if they had never been. Throws Error when a
  // window has moved past what the next token would see; those of the last step can always be taken back.
  void truncate(int slot, int64_t n);
  bool can_truncate(int slot, int64_t n) const { return cache_.can_truncate(slot, n); }
  bool can_roll_back() const { return !cache_.has_states(); }
  void copy(int from, int to) {
    cache_.copy(from, to);
    slot_adapter_[static_cast<size_t>(to)] = slot_adapter_[static_cast<size_t>(from)];
  }
  int64_t length(int slot) const { return cache_.length(slot); }
  int slots() const { return cache_.slots(); }
  int64_t capacity() const { return cache_.capacity(); }
  int64_t max_rows() const { return options_.max_rows; }
  // The most tokens that one step can append to a sequence; 0: it is full.
  int64_t room(int slot) const;

  // The cache's memory, as in KvCache: `reserve` makes sure that the next n tokens (at most `room`) find
  // room, `reuse` starts a sequence with what is known of its tokens.
  bool reserve(int slot, int64_t n) { return cache_.reserve(slot, n); }
  int64_t reuse(int slot, std::span<const int32_t> ids) { return cache_.reuse(slot, ids); }
  KvCache::Prospect prospect(std::span<const int32_t> ids, int adapter = -1, uint64_t salt = 0) const {
    return cache_.prospect(ids, root_of(adapter, salt));
  }
  int64_t available_blocks() const { return cache_.available_blocks(); }

  // Matrices that every step reads as they are stored, in other words those that `repack` is about.
  static std::vector<TensorView> weights_as_stored(const Model& model, const KernelTable& kernels,
                                                   const Options& options);

  // Whether more steps of so many tokens would copy weights to large pages, or may.
  bool repacks_after(int64_t rows) const;

  int64_t bytes() const;
  // The same before there is one: nothing of that size is allocated.
  static int64_t planned_bytes(const ModelConfig& config, Options options, const KernelTable& kernels,
                               int threads);
  const ModelConfig& config() const { return model_.config; }
  const Backend& backend() const { return backend_; }
  DType activations() const { return options_.dtype; }

  // Runs `batch` sequences of equal length without the cache, at most max_rows tokens in all; shows every
  // result to the observer and writes the logits of all tokens, [ids,V].
  void observe(std::span<const int32_t> ids, int64_t batch, Observer& observer, const TensorView& logits);
  // The logit lens (nostalgebraist 2020): the final norm and the head on a residual stream [N,C], N <=
  // max_rows. Writes logits [N,V].
  void read_out(const TensorView& stream, const TensorView& logits);

 private:
  // What sequences with an adapter and a salt share cached blocks under: roots of an adapter are a range.
  static uint64_t root_of(int adapter, uint64_t salt) {
    GPT_ASSERT(adapter < kMostAdapters && salt < kSalts);
    const uint64_t key = static_cast<uint64_t>(adapter + 1) * kSalts + salt;
    return key == 0 ? BlockPool::kRoot : ~key;
  }
  const Adapter* adapter_of(int slot) const {
    const int number = slot_adapter_[static_cast<size_t>(slot)];
    return number < 0 ? nullptr : adapters_[static_cast<size_t>(number)].get();
  }
  void plan();
  void repack();
  void check_step(std::span<const Append> batch) const;
  enum class Output : uint8_t { logits, hidden };
  void run(std::span<const Append> parts, Output output, const TensorView& to);
  void prepare_rows(std::span<const Append> parts);
  void place_rows(std::span<const Append> parts, size_t window_class);
  void choose_output_rows(std::span<const Append> parts);
  SequenceSpans sequences(DeviceSpan<const AttentionSeq> seqs, std::span<const AttentionSeq> host,
                          DeviceSpan<const int32_t> pages) const;
  static PassShape shape(const Options& options, int64_t capacity);
  ForwardContext make_pass(const ExecContext& ctx, int64_t rows);
  void write_output(const ForwardContext& pass, Output output, const TensorView& normed,
                    const TensorView& rows);
  void write_logits(const ForwardContext& pass, const TensorView& normed, const TensorView& logits);
  static int64_t rope_bytes(const ModelConfig& config, const Options& options, const Planner& planner);
  void ensure_rope(int64_t positions);
  int32_t rope_row(int64_t position);

  const Model& model_;
  Backend backend_;
  Options options_;
  KvCache cache_;
  Planner planner_;
  Buffer arena_;
  Workspace workspace_;
  std::vector<RopeTable> rope_;
  Activations acts_;
  std::vector<int32_t> ids_, positions_;
  std::vector<int64_t> cache_rows_;
  std::vector<AttentionSeq> seqs_;
  std::vector<int64_t> output_rows_;
  std::vector<AttentionSeq> output_seqs_;
  std::vector<std::shared_ptr<const Adapter>> adapters_;
  std::vector<int> free_adapters_;  // numbers
  std::vector<int> slot_adapter_;   // numbers; -1: none
  std::vector<RowsAdapter> row_adapters_, output_adapters_;
  std::vector<int32_t> pages_;  // the page tables of all sequences of a step
  DeviceArray<int32_t> device_ids_, device_positions_, device_pages_;
  DeviceArray<int64_t> device_cache_rows_, device_output_rows_;
  DeviceArray<AttentionSeq> device_seqs_, device_output_seqs_;
  std::vector<TensorView> repacked_;  // the weights that are, or shall be; empty: none
  Buffer logits_;                     // of a step, if the caller's are on the host and ops cannot write them
};

}  // namespace gpt
