#include "serve/served_model.h"

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

constexpr int64_t kUsualContext = 8192;  // a cache for more is made only where somebody asks

int64_t largest_rank(const std::vector<WeightedAdapter>& adapters) {
  int64_t rank = 0;
  for (const WeightedAdapter& a : adapters)
    rank = std::max(rank, a.adapter->rank);
  return rank;
}

std::vector<WeightedAdapter> read_adapters(const LoadedModel& loaded,
                                           const std::vector<NamedAdapter>& adapters) {
  return transformed(adapters, [&](const NamedAdapter& a) {
    require_same_tokens(loaded, a.path);
    return WeightedAdapter{load_adapter(a.path, loaded.model()).adapter, a.scale};
  });
}

}  // namespace

ServedModel::ServedModel(const ServedModelOptions& options)
    : options_(options),
      loaded_(open_model_source(resolve_model_path(options.path), {}), std::nullopt, MatrixOrder::as_stored),
      read_adapters_(read_adapters(loaded_, options.adapters)),
      pool_(options.threads),
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
  load_adapters();
  worker_ = std::make_unique<EngineWorker>(slots_, options.worker);
}

// The cache has room for a sequence of the spare slot besides one of the engine's, which may thus never wait
// for the other.
Inference::Options ServedModel::inference_options() const {
  const ModelConfig& c = config();
  if (options_.n_ctx < 0 || options_.n_ctx > c.n_ctx)
    fail_parameter("n_ctx", "expected 1 to {}, which is what the model {} has, found {}", c.n_ctx, name(),
                   options_.n_ctx);
  const InferenceTypes types = inference_types(options_.dtype);
  Inference::Options o{.slots = options_.sequences + 1,
                       .max_rows = options_.worker.step_rows,
                       .capacity = options_.n_ctx > 0 ? options_.n_ctx : std::min(c.n_ctx, kUsualContext),
                       .dtype = types.activations,
                       .weights = options_.dtype,
                       .in_place = options_.in_place || options_.dtype != DType::bf16,
                       .kv_dtype = options_.kv_dtype.value_or(types.cache),
                       .adapter_rank = largest_rank(read_adapters_)};
  const int64_t one = KvCache::blocks_of_sequence(o.capacity) * KvCache::kBlock;
  const int64_t block_bytes = std::max<int64_t>(KvCache::bytes(c, KvCache::kBlock, *o.kv_dtype), 1);
  const int64_t wanted = options_.kv_bytes / block_bytes * KvCache::kBlock;
  o.cache_tokens = std::clamp(wanted, 2 * one, o.slots * one);
  return o;
}

void ServedModel::find_chat_template() {
  try {
    std::string format = options_.chat_format;
    if (format.empty() && !gpt::has_chat_template(loaded_))
      format = chat_template_of(transformed(options_.adapters, &NamedAdapter::path));
    if (tokenizer_ == nullptr) fail("{} has no tokenizer", name());
    chat_ = std::make_unique<ChatTemplate>(model_chat_template(loaded_, *tokenizer_, format, "--template"));
    if (chat_->end_id() >= config().vocab_size)
      fail("the tokenizer's end of a message is token {}, which the model does not have", chat_->end_id());
  } catch (const Error& error) {
    if (!options_.chat_format.empty()) throw;
    chat_ = nullptr;
    chat_problem_ = error.what();
  }
}

void ServedModel::load_adapters() {
  for (size_t i = 0; i < read_adapters_.size(); ++i) {
    const std::string& adapter_name = options_.adapters[i].name;
    const int number =
        inference_.add_adapter(sum_of_adapters(loaded_.model().table, {&read_adapters_[i], 1}));
    if (!adapters_.emplace(adapter_name, number).second)
      fail_usage("--adapter: expected every name once, found {} twice", adapter_name);
  }
}

const Tokenizer& ServedModel::tokenizer() const {
  if (tokenizer_ != nullptr) return *tokenizer_;
  throw ApiError(400, fmt::format("the model {} has no tokenizer, so it takes and gives token ids only{}{}",
                                  name(), tokenizer_problem_.empty() ? "" : ": ", tokenizer_problem_));
}

const ChatTemplate& ServedModel::chat_template() const {
  if (chat_ == nullptr)
    throw ApiError(400, fmt::format("the model {} cannot chat: {}", name(), chat_problem_), "model");
  return *chat_;
}

std::optional<int> ServedModel::adapter(std::string_view name) const {
  const auto found = adapters_.find(name);
  return found == adapters_.end() ? std::nullopt : std::optional(found->second);
}

void ModelSet::add(std::unique_ptr<ServedModel> model) {
  const std::lock_guard lock(mutex_);
  for (const auto& other : models_) {
    if (other->name() == model->name())
      fail_usage("two models have the name {}: give one another, NAME=PATH", model->name());
  }
  models_.push_back(std::move(model));
}

void ModelSet::replace(std::unique_ptr<ServedModel> model) {
  const std::lock_guard lock(mutex_);
  for (auto& other : models_) {
    if (other->name() != model->name()) continue;
    replaced_.push_back(std::exchange(other, std::move(model)));
    return;
  }
}

void ModelSet::drop_replaced() {
  std::vector<std::shared_ptr<ServedModel>> unused;  // ends without the lock
  const std::lock_guard lock(mutex_);
  // Nobody can get hold of one that is not among models_, so that a count of 1 stays 1.
  std::erase_if(replaced_, [&](std::shared_ptr<ServedModel>& model) {
    if (model.use_count() > 1) return false;
    unused.push_back(std::move(model));
    return true;
  });
}

std::vector<std::shared_ptr<ServedModel>> ModelSet::all() const {
  const std::lock_guard lock(mutex_);
  return models_;
}

ModelSet::Found ModelSet::find(const std::string& name) const {
  const auto models = all();
  if (models.empty()) throw ApiError(404, "this server has no models", "model", "model_not_found");
  if (name.empty()) return {models.front(), -1, models.front()->name()};
  std::vector<Found> with_adapter;
  for (const auto& model : models) {
    if (model->name() == name) return {model, -1, name};
    const std::string prefix = model->name() + ":";
    const bool named = name.starts_with(prefix);
    const auto adapter = model->adapter(named ? std::string_view(name).substr(prefix.size()) : name);
    if (adapter) with_adapter.push_back({model, *adapter, name});
  }
  if (with_adapter.size() == 1) return with_adapter.front();
  throw ApiError(404,
                 fmt::format("the model \"{}\" does not exist here; GET /v1/models lists those that do",
                             printable_text(name, 64)),
                 "model", "model_not_found");
}

void ModelSet::stop() {
  std::vector<std::shared_ptr<ServedModel>> models = all();
  {
    const std::lock_guard lock(mutex_);
    models.insert(models.end(), replaced_.begin(), replaced_.end());
  }
  for (const auto& model : models)
    model->worker().stop();
}

}  // namespace gpt::serve
