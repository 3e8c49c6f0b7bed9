#include <algorithm>
#include <mutex>

#include "api/objects.h"
#include "base/file.h"
#include "model/families/family.h"
#include "model/model_source.h"
#include "text/tokenizer_trainer.h"

namespace gptcpp {
namespace {

Tokenizer wrap(std::unique_ptr<const gpt::Tokenizer> tokenizer) {
  return Tokenizer(std::make_shared<Tokenizer::Impl>(Tokenizer::Impl{std::move(tokenizer)}));
}

// Of the tensors as the files have them.
int64_t file_bytes(const std::string& path) {
  require_path(path);
  const gpt::ModelSource source = gpt::open_model_source(gpt::resolve_model_path(path), {});
  int64_t bytes = 0;
  for (const gpt::TensorInfo* tensor : source.tensors->tensors())
    bytes += std::ssize(tensor->bytes);
  return bytes;
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
                   .chat_format = {}};
  try {
    facts.chat_format = gpt::chat_format_name(model.chat_format());
  } catch (const gpt::UsageError&) {  // a wrong name
    throw;
  } catch (const std::exception&) {
  }
  return facts;
}

std::shared_ptr<Context::Impl> not_cancelled(const Context& context) {
  context.impl()->check_cancelled();
  return context.impl();
}

const gpt::TrainPattern& pattern_named(const std::string& name) {
  std::string names;
  for (const gpt::TrainPattern& pattern : gpt::train_patterns()) {
    if (pattern.name == name) return pattern;
    names += (names.empty() ? "" : ", ") + std::string(pattern.name);
  }
  gpt::fail_parameter("pattern", "expected one of {}, found \"{}\"", names, name);
}

}  // namespace

Model::Impl::Impl(const Context& c, const std::string& path, const ModelOptions& o)
    : context(not_cancelled(c)),
      claim(context, file_bytes(path), path),
      loaded(path, std::nullopt, gpt::MatrixOrder::as_stored),
      options(o) {
  if (auto tokenizer = gpt::model_tokenizer(loaded, o.tokenizer))
    text = std::make_shared<Tokenizer::Impl>(Tokenizer::Impl{std::move(tokenizer)});
  facts = facts_of(*this);
  for (const gpt::LoadedModel::Ignored& ignored : loaded.ignored())
    context->log(LogLevel::info,
                 fmt::format("{}: {} is not read: {}", path, ignored.tensor->name, ignored.why));
  context->check_cancelled();
}

const gpt::Tokenizer& Model::Impl::tokenizer() const {
  if (text == nullptr) throw Error(Code::unsupported, "the model has no tokenizer; it takes token ids only");
  return *text->tokenizer;
}

gpt::ChatFormat Model::Impl::chat_format() const {
  try {
    return gpt::model_chat_format(loaded, options.chat_format, "chat_format");
  } catch (const gpt::UsageError&) {
    throw;
  } catch (const gpt::Error& error) {
    throw Error(Code::unsupported, error.what(), "chat_format");
  }
}

void Model::Impl::claim_packed(gpt::DType dtype) const {
  const std::lock_guard lock(mutex);
  if (packed.contains(dtype)) return;
  const gpt::Model& model = loaded.model();
  int64_t bytes = 0;
  for (const gpt::ParamSpec& spec : model.table.specs()) {
    if (spec.shape.size() != 2 || spec.role == gpt::Role::wpe) continue;
    const gpt::DType stored = model.weights[static_cast<size_t>(&spec - model.table.specs().data())].dtype;
    const bool in_place = dtype == gpt::DType::f32 || gpt::is_quantized(stored);
    if (!in_place) bytes += context->kernels.packed_bytes(dtype, spec.shape[0], spec.shape[1], false);
  }
  packed.emplace(dtype, Claim(context, bytes, "packed weights"));
}

std::vector<int32_t> Model::Impl::text_ids(std::string_view words) const {
  if (text != nullptr) return gpt::prompt_ids(std::string(words), *text->tokenizer, config(), false);
  if (words.empty() && config().bos_token_id >= 0) return {static_cast<int32_t>(config().bos_token_id)};
  tokenizer();  // throws
  return {};
}

Model::Model(const Context& context, const std::string& path, const ModelOptions& options)
    : impl_(guarded([&] { return std::make_shared<const Impl>(context, path, options); })) {}

const ModelFacts& Model::facts() const noexcept {
  return impl_->facts;
}

Tokenizer Model::tokenizer() const {
  impl_->tokenizer();
  return Tokenizer(impl_->text);
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
    gpt::ThreadPool pool(c.threads);
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
    const auto trained = train(counter, inner, [&](int64_t, int64_t) { c.check_cancelled(); });
    return wrap(gpt::parse_tokenizer(trained.json, "the trained tokenizer"));
  });
}

int64_t Tokenizer::vocab_size() const {
  return impl_->tokenizer->vocab_size();
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  return as_argument("text", [&] { return impl_->tokenizer->encode(text); });
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
