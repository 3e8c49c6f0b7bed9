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

// Default dtypes of activations and KV cache for weights of a given dtype. Quantized weights use bf16,
// because the rounding of bf16 is small compared with the quantization error. fp16 weights use fp32
// activations, because activations can exceed the range of fp16.
struct InferenceTypes {
  DType activations, cache;
};
InferenceTypes inference_types(DType weights);

// Runs a model on sequences that grow token by token, with a KV cache. The logits of a token are
// bit-identical no matter how its sequence was split into calls and which other sequences are in the same
// step.
class Inference {
 public:
  struct Options {
    int slots = 1;             // number of sequences
    int64_t max_rows = 512;    // maximum number of tokens in a step; at least `slots`
    int64_t capacity = 0;      // maximum number of tokens in a sequence, at most n_ctx (0: n_ctx)
    int64_t cache_tokens = 0;  // size of the KV cache in tokens, for all sequences (0: all slots full)
    bool slide = false;        // beyond the capacity, keep the latest keys (rotary positions only)
    DType dtype = DType::f32;  // dtype of activations; not a quantized dtype
    std::optional<DType> weights = {};  // dtype of matmuls with weights; unset: `dtype`
    // True if matmuls directly read a matrix that is stored in the dtype of the matmuls, instead of a packed
    // copy of the matrix. For matmuls in fp32, 16-bit matrices are always read directly. For matmuls in bf16,
    // direct reads are slower than packed copies.
    bool in_place = false;
    // Dtype of the KV cache: fp32, bf16, fp16, int8 or q4_0. If unset, `dtype` is used.
    std::optional<DType> kv_dtype = {};
    int64_t adapter_rank = 0;  // largest rank of any adapter; 0: no adapters
    Repack repack = Repack::never;
  };
  // The weights of the model must be in the memory of the backend's device. Throws Error if `repack` is
  // Repack::always and the weights cannot be copied to huge pages.
  Inference(const Model& model, const Backend& backend, Options options);

  struct Append {
    int slot;
    std::span<const int32_t> ids;  // at least one token
    int64_t wanted = 1;            // number of last tokens whose logits are returned
  };
  // Appends tokens to sequences in one step of the model. Each slot may occur at most once per call. Writes
  // the wanted logits to consecutive rows of `logits` [wanted,V], in the order of the tokens. Throws Error
  // without appending any token if an id is out of range, if there are more than max_rows tokens, if more
  // than `room` tokens are appended to a sequence, or if the KV cache is full (see reserve). infer/feed.h
  // splits longer batches. Once every slot has been used, this function does not allocate memory.
  void append(std::span<const Append> batch, const TensorView& logits);
  // Like append, but writes hidden states instead of logits. The hidden states [wanted,C] are the input of
  // the output matrix and have the dtype of activations.
  void append_hidden(std::span<const Append> batch, const TensorView& hidden);
  // Appends tokens to one sequence and writes the logits of every appended token, [ids,V].
  void append_all(int slot, std::span<const int32_t> ids, const TensorView& logits) {
    const Append all{slot, ids, std::ssize(ids)};
    append({&all, 1}, logits);
  }

  // Adds an adapter for the model with a rank of at most adapter_rank. Returns the adapter number, which is
  // an argument of `reset`. Throws Error if there are already kMostAdapters adapters.
  int add_adapter(std::shared_ptr<const Adapter> adapter);
  static constexpr int kMostAdapters = (1 << 20) - 1;
  int adapters() const {
    return static_cast<int>(adapters_.size());
  }  // exclusive upper bound of adapter numbers
  // Frees an adapter and the cache pages that were computed with it. Slots that use the adapter become empty.
  // A later call of add_adapter may return the same number again.
  void free_adapter(int adapter);
  // Empties a slot and sets the adapter of its next sequence (-1: none). Copies of the slot use the same
  // adapter, and `reuse` only finds prefixes that were computed with this adapter. salt: sequences share
  // cached prefixes only if they have the same salt; less than kSalts (0: no salt).
  static constexpr uint64_t kSalts = uint64_t{1} << 40;
  void reset(int slot, int adapter = -1, uint64_t salt = 0);
  // Removes all tokens of a sequence except the first n, as if they had never been appended. Throws Error if
  // the KV cache no longer contains all keys that the next token attends to. The tokens of the last step can
  // always be removed.
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
  // Returns the maximum number of tokens that one step can append to a sequence. 0 means that the sequence is
  // full.
  int64_t room(int slot) const;

  // The following functions call the KV cache (see KvCache). `reserve` ensures that there is memory for the
  // next n tokens (at most `room`). `reuse` starts a sequence with the longest cached prefix of its tokens.
  bool reserve(int slot, int64_t n) { return cache_.reserve(slot, n); }
  int64_t reuse(int slot, std::span<const int32_t> ids) { return cache_.reuse(slot, ids); }
  KvCache::Prospect prospect(std::span<const int32_t> ids, int adapter = -1, uint64_t salt = 0) const {
    return cache_.prospect(ids, root_of(adapter, salt));
  }
  int64_t available_blocks() const { return cache_.available_blocks(); }

  // Returns the matrices that have no packed copy, so that every step reads the stored weights. `repack`
  // copies these matrices to huge pages.
  static std::vector<TensorView> weights_as_stored(const Model& model, const KernelTable& kernels,
                                                   const Options& options);

  // Returns true if further steps with this number of tokens may copy weights to huge pages.
  bool repacks_after(int64_t rows) const;

  int64_t bytes() const;
  // Returns the number of bytes that an Inference with these options needs, without allocating the memory.
  static int64_t planned_bytes(const ModelConfig& config, Options options, const KernelTable& kernels,
                               int threads);
  const ModelConfig& config() const { return model_.config; }
  const Backend& backend() const { return backend_; }
  DType activations() const { return options_.dtype; }

  // Runs `batch` sequences of equal length without the KV cache, with at most max_rows tokens in total.
  // Passes every intermediate result to the observer and writes the logits of all tokens, [ids,V].
  void observe(std::span<const int32_t> ids, int64_t batch, Observer& observer, const TensorView& logits);
  // Applies the final norm and the head to a residual stream [N,C], N <= max_rows, and writes the logits
  // [N,V]. This is the logit lens (nostalgebraist 2020).
  void read_out(const TensorView& stream, const TensorView& logits);

 private:
  // Returns the root under which sequences with this adapter and salt share cache pages. The roots of one
  // adapter form a contiguous range.
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
  std::vector<int> free_adapters_;  // unused adapter numbers
  std::vector<int> slot_adapter_;   // adapter number of each slot; -1: none
  std::vector<RowsAdapter> row_adapters_, output_adapters_;
  std::vector<int32_t> pages_;  // page tables of all sequences in a step
  DeviceArray<int32_t> device_ids_, device_positions_, device_pages_;
  DeviceArray<int64_t> device_cache_rows_, device_output_rows_;
  DeviceArray<AttentionSeq> device_seqs_, device_output_seqs_;
  std::vector<TensorView> repacked_;  // weights to copy to huge pages; empty: none
  // Logits of a step, if the caller's memory is on the host and ops cannot write to it.
  Buffer logits_;
};

}  // namespace gpt
