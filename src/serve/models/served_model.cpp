#include "serve/models/served_model.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/ranges.h"
#include "convert/adapter_files.h"
#include "model/model_source.h"
#include "serve/api_error.h"

namespace gpt::serve {
namespace {

constexpr int64_t kUsualContext = 8192;  // a larger cache is only allocated if requested

ServedModelOptions with_threads(ServedModelOptions options) {
  if (options.threads == nullptr) options.threads = std::make_shared<ThreadPool>(1);
  return options;
}

int64_t largest_rank(const std::vector<WeightedAdapter>& adapters) {
  int64_t rank = 0;
  for (const WeightedAdapter& a : adapters)
    rank = std::max(rank, a.adapter->rank);
  return rank;
}

}  // namespace

ServedModel::ServedModel(const ServedModelOptions& options)
    : options_(with_threads(options)),
      loaded_(open_model_source(resolve_model_path(options.path), {}), std::nullopt, MatrixOrder::as_stored),
      read_adapters_(read_adapters(options.adapters)),
      adapter_rank_(std::max(options.adapter_rank, largest_rank(read_adapters_))),
      pool_(*options_.threads, options_.threads->size()),
      inference_(loaded_.model(), Backend{pool_, kernel_table(options.isa)}, inference_options()),
      slots_(inference_, false),
      cache_blocks_(inference_.available_blocks()),
      created_(std::time(nullptr)) {
  try {
    tokenizer_ = model_tokenizer(loaded_, options.tokenizer);
  } catch (const Error& error) {
    if (!options.tokenizer.empty()) throw;
    tokenizer_problem_ = error.what();
  }
  find_chat_template();
  number_adapters();
  load_draft();
  worker_ = std::make_unique<EngineWorker>(slots_, options_.worker);
}

std::vector<WeightedAdapter> ServedModel::read_adapters(const std::vector<NamedAdapter>& adapters) const {
  return transformed(adapters, [&](const NamedAdapter& a) {
    require_same_tokens(loaded_, a.path);
    note(note_other_base(loaded_, a.path));
    return WeightedAdapter{load_adapter(a.path, loaded_.model()).adapter, a.scale};
  });
}

void ServedModel::note(const std::string& text) const {
  if (!text.empty() && options_.note) options_.note("note: " + text);
}

// The cache can hold a sequence of the spare slot and one sequence of the engine at the same time. Therefore
// neither has to wait for the other.
Inference::Options ServedModel::inference_options() const {
  const ModelConfig& c = config();
  if (options_.n_ctx < 0 || options_.n_ctx > c.n_ctx)
    fail_parameter("n_ctx", "expected 1 to {}, the context length of the model {}, found {}", c.n_ctx, name(),
                   options_.n_ctx);
  const InferenceTypes types = inference_types(options_.dtype);
  Inference::Options o{.slots = options_.sequences + 1,
                       .max_rows = options_.worker.step_rows,
                       .capacity = options_.n_ctx > 0 ? options_.n_ctx : std::min(c.n_ctx, kUsualContext),
                       .dtype = types.activations,
                       .weights = options_.dtype,
                       .in_place = options_.in_place || options_.dtype != DType::bf16,
                       .kv_dtype = options_.kv_dtype.value_or(types.cache),
                       .adapter_rank = adapter_rank_,
                       .repack = options_.repack};
  const int64_t one = KvCache::blocks_of_sequence(o.capacity) * KvCache::kBlock;
  const int64_t wanted = KvCache::tokens_within(
      c, {.slots = o.slots, .capacity = o.capacity, .dtype = *o.kv_dtype, .step = o.max_rows},
      options_.kv_bytes);
  o.cache_tokens = std::clamp(wanted, 2 * one, o.slots * one);
  return o;
}

int64_t ServedModel::repacked_bytes() const {
  const auto of = [](const LoadedModel& loaded) {
    const auto& pages = loaded.model().pages;
    return pages == nullptr ? 0 : pages->moved();
  };
  return of(loaded_) + (draft_ ? of(draft_->loaded) : 0);
}

ServedModel::Draft::Draft(const std::string& path, const Backend& backend, Inference::Options options)
    : loaded(open_model_source(resolve_model_path(path), {}), std::nullopt, MatrixOrder::as_stored),
      inference(loaded.model(), backend,
                [&] {
                  options.capacity = std::min(options.capacity, loaded.model().config.n_ctx);
                  return options;
                }()),
      cached(inference, false) {}

// Loads the draft model with the same dtypes and the same number of cache tokens as the model.
void ServedModel::load_draft() {
  if (options_.draft.empty()) return;
  Inference::Options o = inference_options();
  o.slots = options_.sequences;
  o.adapter_rank = 0;
  draft_ = made_of_draft(options_.draft,
                         [&] { return std::make_unique<Draft>(options_.draft, inference_.backend(), o); });
  const auto tokenizer = model_tokenizer(draft_->loaded, "");
  const gpt::Model& draft = draft_->loaded.model();
  require_same_vocabulary(tokenizer_.get(), config(), options_.draft, tokenizer.get(), draft.config);
  options_.worker.speculation.draft = &draft_->cached;
  options_.worker.speculation.draft_cost =
      static_cast<double>(draft.table.total()) /
      static_cast<double>(std::max<int64_t>(loaded_.model().table.total(), 1));
}

void ServedModel::find_chat_template() {
  try {
    std::string format = options_.chat_format;
    if (format.empty() && !gpt::has_chat_template(loaded_))
      format = chat_template_of(transformed(options_.adapters, &NamedAdapter::path));
    if (tokenizer_ == nullptr) fail("{} has no tokenizer", name());
    chat_ = std::make_unique<ChatTemplate>(model_chat_template(loaded_, *tokenizer_, format, "template"));
    if (chat_->end_id() >= config().vocab_size)
      fail("the tokenizer ends a message with token {}, which is not in the vocabulary of the model",
           chat_->end_id());
  } catch (const Error& error) {
    if (!options_.chat_format.empty()) throw;
    chat_ = nullptr;
    note(fmt::format("{} cannot chat: {}\n", name(), error.what()));
  }
}

void ServedModel::number_adapters() {
  for (size_t i = 0; i < read_adapters_.size(); ++i) {
    auto named = std::make_shared<NamedAdapter>(options_.adapters[i]);
    named->number = inference_.add_adapter(sum_of_adapters(loaded_.model().table, {&read_adapters_[i], 1}));
    if (!adapters_.emplace(named->name, named).second)
      fail_parameter("adapter", "expected distinct names, found {} twice", named->name);
  }
}

const Tokenizer& ServedModel::tokenizer() const {
  if (tokenizer_ != nullptr) return *tokenizer_;
  throw ApiError(
      400, fmt::format("the model {} has no tokenizer, so it only accepts and returns token ids{}{}", name(),
                       tokenizer_problem_.empty() ? "" : ": ", tokenizer_problem_));
}

grammar::GrammarCache& ServedModel::grammars() const {
  const Tokenizer& known = tokenizer();
  std::call_once(grammars_made_,
                 [&] { grammars_.emplace(grammar::make_vocabulary(known, config().vocab_size)); });
  return *grammars_;
}

const ChatTemplate& ServedModel::chat_template() const {
  if (chat_ == nullptr)
    throw ApiError(400,
                   fmt::format("the model {} has no chat template that this server can use; use POST "
                               "/v1/completions to continue a text",
                               name()),
                   "model", "no_chat_template");
  return *chat_;
}

std::shared_ptr<const NamedAdapter> ServedModel::adapter(std::string_view name) const {
  const std::lock_guard lock(adapters_mutex_);
  const auto found = adapters_.find(name);
  return found == adapters_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<const NamedAdapter>> ServedModel::adapters() const {
  const std::lock_guard lock(adapters_mutex_);
  std::vector<std::shared_ptr<const NamedAdapter>> all;
  for (const auto& [name, adapter] : adapters_)
    all.push_back(adapter);
  return all;
}

void ServedModel::add_adapter(const NamedAdapter& adapter) {
  if (this->adapter(adapter.name) != nullptr)
    fail_parameter("lora_name", "the model {} already has an adapter {}", name(), adapter.name);
  const WeightedAdapter read = read_adapters({adapter}).front();
  if (read.adapter->rank > adapter_rank_)
    fail_parameter("lora_path", "expected a rank of at most {} (`max_lora_rank`), found {}", adapter_rank_,
                   read.adapter->rank);
  auto named = std::make_shared<NamedAdapter>(adapter);
  const auto weighted = sum_of_adapters(loaded_.model().table, {&read, 1});
  worker_->call([&] { named->number = inference_.add_adapter(weighted); });
  const std::lock_guard lock(adapters_mutex_);
  adapters_.emplace(adapter.name, std::move(named));
}

std::shared_ptr<const NamedAdapter> ServedModel::take_adapter(std::string_view name) {
  const std::lock_guard lock(adapters_mutex_);
  const auto found = adapters_.find(name);
  if (found == adapters_.end()) return nullptr;
  auto adapter = std::move(found->second);
  adapters_.erase(found);
  return adapter;
}

void ServedModel::free_adapter(int number) {
  worker_->call([&] { inference_.free_adapter(number); });
}

}  // namespace gpt::serve
