#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "api/objects.h"
#include "base/file.h"
#include "base/ranges.h"
#include "chat/model_text.h"
#include "convert/adapter_files.h"
#include "model/families/family.h"
#include "model/model_source.h"
#include "model/weight_cache.h"
#include "text/tokenizer_trainer.h"

namespace gptcpp {
namespace {

Tokenizer wrap(std::unique_ptr<const gpt::Tokenizer> tokenizer) {
  return Tokenizer(std::make_shared<Tokenizer::Impl>(Tokenizer::Impl{std::move(tokenizer)}));
}

// Returns the size of all tensors in the model files, in bytes.
int64_t file_bytes(const gpt::ModelSource& source) {
  return gpt::sum_of(source.tensors->tensors(),
                     [](const gpt::TensorInfo* t) { return std::ssize(t->bytes); });
}

gpt::ModelSource open(const std::string& path) {
  return guarded_as(gpt::path_exists(path) ? Code::io : Code::not_found, path.c_str(),
                    [&] { return gpt::open_model_source(gpt::resolve_model_path(path), {}); });
}

ModelFacts facts_of(const Model::Impl& model) {
  const gpt::ModelConfig& c = model.config();
  ModelFacts facts{.family = std::string(gpt::export_family(c).name),
                   .parameters = model.loaded.model().table.total(),
                   .vocab_size = c.vocab_size,
                   .n_ctx = c.n_ctx,
                   .n_layer = c.n_layer,
                   .n_head = c.n_head,
                   .n_embd = c.n_embd,
                   .bytes = model.claim.bytes(),
                   .has_tokenizer = model.text != nullptr,
                   .tokenizer_problem = {},
                   .chat_format = {}};
  try {
    const gpt::ChatSource source = model.chat_source();
    facts.chat_format = source.built_in ? source.name : "jinja";
  } catch (const Error& error) {
    if (error.code() != Code::unsupported) throw;  // any other code means that the given name is wrong
  }
  return facts;
}

std::shared_ptr<Context::Impl> not_cancelled(const Context& context) {
  context.impl()->check_cancelled();
  return context.impl();
}

const gpt::TrainPattern& pattern_named(const std::string& name) {
  const auto& all = gpt::train_patterns();
  if (const auto* pattern = gpt::find_by(all, &gpt::TrainPattern::name, name)) return *pattern;
  gpt::fail_parameter("pattern", "expected one of {}, found \"{}\"",
                      fmt::join(gpt::transformed(all, &gpt::TrainPattern::name), ", "), name);
}

}  // namespace

Model::Impl::Impl(std::shared_ptr<Context::Impl> c, const std::string& path, const ModelOptions& o)
    : Impl(std::move(c), open(path), o) {}

Model::Impl::Impl(std::shared_ptr<Context::Impl> c, gpt::ModelSource source, const ModelOptions& o)
    : context(std::move(c)),
      claim(context, file_bytes(source), source.path),
      loaded(std::move(source), std::nullopt, gpt::MatrixOrder::as_stored),
      options(o) {
  if (!o.tokenizer.empty() && o.tokenizer != "byte") require_path(o.tokenizer);
  std::string problem;
  try {
    if (auto tokenizer = gpt::model_tokenizer(loaded, o.tokenizer))
      text = std::make_shared<Tokenizer::Impl>(Tokenizer::Impl{std::move(tokenizer)});
  } catch (const gpt::Error& error) {
    if (!o.tokenizer.empty()) throw;
    problem = error.what();
  }
  facts = facts_of(*this);
  facts.tokenizer_problem = problem;
  const std::string path = loaded.paths().front();
  for (const gpt::LoadedModel::Ignored& ignored : loaded.ignored())
    context->log(LogLevel::info,
                 fmt::format("{}: tensor {} is not loaded: {}", path, ignored.tensor->name, ignored.why));
  load_adapters();
  context->check_cancelled();
}

void Model::Impl::load_adapters() {
  for (const AdapterOptions& o : options.adapters) {
    if (o.name.empty()) gpt::fail_parameter("adapters", "expected a name for {}, found none", o.path);
    if (gpt::find_by(adapters, &NamedAdapter::name, o.name) != nullptr)
      gpt::fail_parameter("adapters", "expected every name once, found {} twice", o.name);
    require_path(o.path);
    const auto adapter = guarded_as(Code::io, o.path.c_str(), [&] {
      auto read = gpt::load_adapter(o.path, loaded.model()).adapter;
      gpt::require_same_tokens(loaded, o.path);
      context->log(LogLevel::warning, gpt::note_other_base(loaded, o.path));
      return read;
    });
    const auto bytes = adapter->table.total() * static_cast<int64_t>(sizeof(float));
    adapters.push_back({o.name, Claim(context, bytes, o.path), {adapter, o.scale}});
  }
}

const gpt::WeightedAdapter& Model::Impl::adapter(const std::string& name) const {
  if (const NamedAdapter* found = gpt::find_by(adapters, &NamedAdapter::name, name)) return found->adapter;
  gpt::fail_parameter("adapters", "expected names of the model's {} adapters, found {}", adapters.size(),
                      name);
}

gpt::grammar::GrammarCache& Model::Impl::grammars() const {
  const gpt::Tokenizer& own = tokenizer();
  const std::lock_guard lock(mutex);
  if (!known_grammars)
    known_grammars =
        std::make_unique<gpt::grammar::GrammarCache>(gpt::grammar::make_vocabulary(own, config().vocab_size));
  return *known_grammars;
}

const gpt::Tokenizer& Model::Impl::tokenizer() const {
  return guarded_as(Code::unsupported, "tokenizer", [&]() -> const gpt::Tokenizer& {
    if (text != nullptr) return *text->tokenizer;
    if (!facts.tokenizer_problem.empty()) gpt::fail("{}", facts.tokenizer_problem);
    gpt::fail("{} has no tokenizer; set `tokenizer`", loaded.paths().front());
  });
}

// Returns the chat format that the options specify. If the options specify no format and the model has no
// chat template, returns the format of an adapter that was fine-tuned for chat.
std::string Model::Impl::chat_format() const {
  if (!options.chat_format.empty() || gpt::has_chat_template(loaded)) return options.chat_format;
  return gpt::chat_template_of(gpt::transformed(options.adapters, [](const auto& o) { return o.path; }));
}

gpt::ChatSource Model::Impl::chat_source() const {
  return guarded_as(Code::unsupported, "chat_format",
                    [&] { return gpt::model_chat_source(loaded, chat_format(), "chat_format"); });
}

gpt::ChatTemplate Model::Impl::chat_template() const {
  const gpt::Tokenizer& words = tokenizer();
  return guarded_as(Code::unsupported, "chat_format",
                    [&] { return gpt::model_chat_template(loaded, words, chat_format(), "chat_format"); });
}

void Model::Impl::claim_packed(gpt::DType dtype, bool in_place) const {
  const std::lock_guard lock(mutex);
  if (packed.contains({dtype, in_place})) return;
  const int64_t bytes = gpt::packed_bytes(loaded.model().table, loaded.model().weights, context->kernels,
                                          {.compute = dtype, .in_place = in_place});
  packed.emplace(std::pair(dtype, in_place), Claim(context, bytes, "packed weights"));
}

namespace {

void log_warnings(const Model::Impl& model, std::string_view words, std::span<const int32_t> ids,
                  bool special) {
  const gpt::Tokenizer* const t = model.text == nullptr ? nullptr : model.text->tokenizer.get();
  for (const std::string& warning : gpt::prompt_warnings(words, ids, t, special, "the option special"))
    model.context->log(LogLevel::warning, warning);
}

}  // namespace

std::vector<int32_t> Model::Impl::later_ids(std::string_view words, bool special) const {
  std::vector<int32_t> ids = special ? tokenizer().encode_special(words) : tokenizer().encode(words);
  if (!special) log_warnings(*this, words, ids, special);
  return ids;
}

std::vector<int32_t> Model::Impl::text_ids(std::string_view words, bool bos, bool special) const {
  const bool needs_tokenizer = !words.empty() || config().bos_token_id < 0;
  if (needs_tokenizer && !facts.tokenizer_problem.empty()) tokenizer();  // throws the problem
  const gpt::Tokenizer* const t = text == nullptr ? nullptr : text->tokenizer.get();
  std::vector<int32_t> ids =
      guarded_as(t == nullptr ? Code::unsupported : Code::invalid_argument, "text",
                 [&] { return gpt::prompt_ids(std::string(words), t, config(), !bos, special); });
  log_warnings(*this, words, ids, special);
  return ids;
}

Model::Model(const Context& context, const std::string& path, const ModelOptions& options)
    : impl_(guarded([&] { return std::make_shared<const Impl>(not_cancelled(context), path, options); })) {}

const ModelFacts& Model::facts() const noexcept {
  return impl_->facts;
}

Tokenizer Model::tokenizer() const {
  impl_->tokenizer();
  return Tokenizer(impl_->text);
}

std::vector<int32_t> Model::prompt_ids(std::string_view text, bool bos, bool special) const {
  return impl_->text_ids(text, bos, special);
}

Tokenizer Tokenizer::bytes() {
  return guarded([] { return wrap(gpt::make_byte_tokenizer()); });
}

Tokenizer Tokenizer::load(const std::string& path) {
  return guarded([&] {
    require_path(path);
    return wrap(gpt::named_tokenizer(path));
  });
}

Tokenizer Tokenizer::train(const Context& context, std::string_view text, const TrainOptions& options) {
  constexpr size_t kPiece = size_t{1} << 20;
  return guarded([&] {
    const Context::Impl& c = *context.impl();
    c.check_cancelled();
    const gpt::TrainPattern& pattern = pattern_named(options.pattern);
    gpt::ThreadPool pool(c.workers(), c.threads);
    gpt::WordCounter counter(pattern.split ? gpt::piece_splitter(*pattern.split) : gpt::gpt1_splitter(),
                             pool);
    for (size_t at = 0; at < text.size(); at += kPiece) {
      counter.add(text.substr(at, kPiece));
      c.check_cancelled();
    }
    counter.end_document();
    counter.finish();
    gpt::TokenizerTrainOptions inner{.vocab_size = options.vocab_size,
                                     .special_tokens = options.special_tokens};
    if (pattern.split) inner.pattern = *pattern.split;
    const auto train = pattern.split ? gpt::train_byte_level_bpe : gpt::train_gpt1_bpe;
    const auto trained = as_argument("special_tokens", [&] {
      return train(counter, inner, [&](int64_t, int64_t) { c.check_cancelled(); });
    });
    return wrap(gpt::parse_tokenizer(trained.json, "the trained tokenizer"));
  });
}

int64_t Tokenizer::vocab_size() const {
  return impl_->tokenizer->vocab_size();
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool special) const {
  return as_argument("text", [&] {
    return special ? impl_->tokenizer->encode_special(text) : impl_->tokenizer->encode(text);
  });
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  return as_argument("ids", [&] { return impl_->tokenizer->decode(ids); });
}

std::string Tokenizer::token_bytes(int32_t id) const {
  return as_argument("id", [&] { return impl_->tokenizer->token_bytes(id); });
}

void Tokenizer::save(const std::string& path) const {
  guarded([&] { gpt::write_file_atomic(path, impl_->tokenizer->to_json()); });
}

}  // namespace gptcpp
