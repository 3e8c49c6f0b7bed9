#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "chat/model_text.h"
#include "grammar/grammar_cache.h"
#include "infer/cached_model.h"
#include "model/inference.h"
#include "model/weight_pages.h"
#include "serve/models/engine_worker.h"

namespace gpt::serve {

// An adapter of a model and the name that requests use for it.
struct NamedAdapter {
  std::string name, path;
  double scale = 1;
  int number = -1;  // value for Request::adapter
};

struct ServedModelOptions {
  std::string name, path;
  std::string tokenizer = {};    // replaces the model's own tokenizer
  std::string chat_format = {};  // replaces the model's own chat template; see model_chat_source
  std::vector<NamedAdapter> adapters = {};
  // Memory is reserved for adapters of this rank, or of the largest rank in `adapters`.
  int64_t adapter_rank = 0;
  std::string draft = {};               // path of the draft model, if worker.speculation uses one
  int64_t n_ctx = 0;                    // maximum tokens of a sequence; 0: the model's context, at most 8192
  int sequences = 32;                   // maximum number of concurrent sequences
  int64_t kv_bytes = int64_t{1} << 30;  // size of the KV cache for all sequences
  DType dtype = DType::f32;             // dtype of matmuls with weights
  std::optional<DType> kv_dtype = {};   // default: chosen to match dtype
  bool in_place = false;                // see Inference::Options; also for `repack`
  Repack repack = Repack::automatic;
  // Shared by models and traces. Null: a pool with one thread.
  std::shared_ptr<const ThreadPool> threads = nullptr;
  Isa isa = best_isa();
  EngineWorker::Options worker = {};
  // Receives messages for the operator: why the model cannot chat, or that an adapter was made for a
  // different model. May be called on any thread.
  std::function<void(const std::string& text)> note = {};
};

// A model and everything that is needed to serve it: tokenizer, chat template, adapters, KV cache, and an
// engine on its own thread. Requests with different adapters share batches.
class ServedModel {
 public:
  // Throws Error if a file is missing, invalid, or does not belong to the model.
  explicit ServedModel(const ServedModelOptions& options);

  const std::string& name() const { return options_.name; }
  const ServedModelOptions& options() const { return options_; }
  const Model& model() const { return loaded_.model(); }
  const ModelConfig& config() const { return model().config; }
  int64_t n_ctx() const { return inference_.capacity(); }
  int64_t created() const { return created_; }  // Unix time in seconds when the model was loaded

  const Tokenizer* tokenizer_if_any() const { return tokenizer_.get(); }
  // These functions throw ApiError (400) if the model lacks a tokenizer or a chat template.
  const Tokenizer& tokenizer() const;
  const ChatTemplate& chat_template() const;
  grammar::GrammarCache& grammars() const;
  bool has_chat_template() const { return chat_ != nullptr; }

  // Returns an adapter, or null if the name is unknown. Thread-safe.
  std::shared_ptr<const NamedAdapter> adapter(std::string_view name) const;
  std::vector<std::shared_ptr<const NamedAdapter>> adapters() const;
  // Loads an adapter while others are in use. Throws Error if the adapter does not belong to the model, if
  // its rank is larger than the reserved rank, or if its name is already in use.
  void add_adapter(const NamedAdapter& adapter);
  // Removes an adapter so that new requests do not find it. Returns null if the name is unknown. When nobody
  // holds the adapter any more, the caller frees its memory with `free_adapter`.
  std::shared_ptr<const NamedAdapter> take_adapter(std::string_view name);
  void free_adapter(int number);

  EngineWorker& worker() { return *worker_; }
  // For side tasks on the worker thread: the Inference object and a slot that the engine does not use.
  Inference& inference() { return inference_; }
  int spare_slot() const { return inference_.slots() - 1; }
  int64_t cache_blocks() const { return cache_blocks_; }
  int64_t repacked_bytes() const;  // bytes of repacked weights, including those of a draft model

 private:
  // The slots of the engine: all slots except the last.
  class EngineSlots : public CachedModel {
   public:
    using CachedModel::CachedModel;
    int slots() const override { return CachedModel::slots() - 1; }
  };
  Inference::Options inference_options() const;
  std::vector<WeightedAdapter> read_adapters(const std::vector<NamedAdapter>& adapters) const;
  void note(const std::string& text) const;
  void find_chat_template();
  void number_adapters();
  void load_draft();

  // A draft model. It runs on the worker thread, but never at the same time as the model itself.
  struct Draft {
    Draft(const std::string& path, const Backend& backend, Inference::Options options);
    LoadedModel loaded;
    Inference inference;
    CachedModel cached;
  };

  ServedModelOptions options_;
  LoadedModel loaded_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::string tokenizer_problem_;
  mutable std::once_flag grammars_made_;
  mutable std::optional<grammar::GrammarCache> grammars_;  // created on first use
  std::unique_ptr<const ChatTemplate> chat_;
  std::vector<WeightedAdapter> read_adapters_;  // in the order of ServedModelOptions::adapters
  int64_t adapter_rank_;
  mutable std::mutex adapters_mutex_;
  std::map<std::string, std::shared_ptr<const NamedAdapter>, std::less<>> adapters_;
  ThreadPool pool_;
  Inference inference_;
  EngineSlots slots_;
  std::unique_ptr<Draft> draft_;
  int64_t cache_blocks_;
  int64_t created_;
  std::unique_ptr<EngineWorker> worker_;
};

}  // namespace gpt::serve
