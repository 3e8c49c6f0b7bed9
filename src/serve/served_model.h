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
#include "serve/engine_worker.h"

namespace gpt::serve {

// An adapter of a model, by the name that requests have for it.
struct NamedAdapter {
  std::string name, path;
  double scale = 1;
  int number = -1;  // for Request::adapter
};

struct ServedModelOptions {
  std::string name, path;
  std::string tokenizer = {};    // instead of the model's own
  std::string chat_format = {};  // the same, as model_chat_source takes it
  std::vector<NamedAdapter> adapters = {};
  int64_t adapter_rank = 0;  // there is room for this rank, or the largest of `adapters`
  std::string draft = {};    // the path of a model that proposes tokens, where worker.speculation says so
  int64_t n_ctx = 0;         // tokens of a sequence; 0: the model's, at most 8192
  int sequences = 32;        // that run at once
  int64_t kv_bytes = int64_t{1} << 30;  // of cached keys and values, all sequences together
  DType dtype = DType::f32;             // of products with weights
  std::optional<DType> kv_dtype = {};   // what suits dtype
  bool in_place = false;                // as Inference::Options, like the next
  Repack repack = Repack::automatic;
  std::shared_ptr<const ThreadPool> threads =
      nullptr;  // that models and traces share; null: the caller's own
  Isa isa = best_isa();
  EngineWorker::Options worker = {};
  // Receives lines for the operator: why the model cannot chat, adapters of other models. Any thread.
  std::function<void(const std::string& text)> note = {};
};

// A model with all that answering takes: its tokenizer, its chat template, its adapters, memory for keys and
// values, and an engine with a thread of its own. What it computes for different adapters shares batches.
class ServedModel {
 public:
  // Throws Error where a file is missing or wrong, or does not belong to the model.
  explicit ServedModel(const ServedModelOptions& options);

  const std::string& name() const { return options_.name; }
  const ServedModelOptions& options() const { return options_; }
  const Model& model() const { return loaded_.model(); }
  const ModelConfig& config() const { return model().config; }
  int64_t n_ctx() const { return inference_.capacity(); }
  int64_t created() const { return created_; }  // seconds since 1970, when it was loaded

  const Tokenizer* tokenizer_if_any() const { return tokenizer_.get(); }
  // Throw ApiError (400) where the model has none.
  const Tokenizer& tokenizer() const;
  const ChatTemplate& chat_template() const;
  grammar::GrammarCache& grammars() const;
  bool has_chat_template() const { return chat_ != nullptr; }

  // An adapter; null for an unknown name. Any thread.
  std::shared_ptr<const NamedAdapter> adapter(std::string_view name) const;
  std::vector<std::shared_ptr<const NamedAdapter>> adapters() const;
  // Reads one while others are in use. Throws Error where it does not belong to the model, has a larger rank
  // than there is room for, or a name that is taken.
  void add_adapter(const NamedAdapter& adapter);
  // No request finds it any more; its memory is given back with `free_adapter`, once nobody holds it. Null
  // for an unknown name.
  std::shared_ptr<const NamedAdapter> take_adapter(std::string_view name);
  void free_adapter(int number);

  EngineWorker& worker() { return *worker_; }
  // For side tasks, on the worker's thread: a slot that the engine does not use.
  Inference& inference() { return inference_; }
  int spare_slot() const { return inference_.slots() - 1; }
  int64_t cache_blocks() const { return cache_blocks_; }
  int64_t repacked_bytes() const;  // of weights, those of a draft model too

 private:
  // The engine's share of the slots: all but the last.
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

  // A model that proposes tokens; it runs on the worker's thread, when the model itself does not.
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
  mutable std::optional<grammar::GrammarCache> grammars_;  // made when first asked for
  std::unique_ptr<const ChatTemplate> chat_;
  std::vector<WeightedAdapter> read_adapters_;  // in the order of the options
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
