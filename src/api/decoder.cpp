#include <algorithm>

#include "api/objects.h"
#include "infer/sampler.h"

namespace gptcpp {
namespace {

constexpr int64_t kUsualContext = 8192;  // a cache for more is made only where somebody asks for it
constexpr int kMaxSlots = 4096;

gpt::DType dtype_named(const char* parameter, const std::string& name,
                       std::initializer_list<gpt::DType> allowed) {
  std::string names;
  for (const gpt::DType dtype : allowed) {
    if (name == gpt::dtype_name(dtype)) return dtype;
    names += (names.empty() ? "" : ", ") + std::string(gpt::dtype_name(dtype));
  }
  gpt::fail_parameter(parameter, "expected one of {}, found \"{}\"", names, name.substr(0, 64));
}

gpt::Inference::Options inference_options(const gpt::ModelConfig& config, const DecoderOptions& o) {
  using enum gpt::DType;
  if (o.n_ctx < 0 || o.n_ctx > config.n_ctx)
    gpt::fail_parameter("n_ctx", "expected 1 to {}, which is what the model has, found {}", config.n_ctx,
                        o.n_ctx);
  if (o.slots < 1 || o.slots > kMaxSlots)
    gpt::fail_parameter("slots", "expected 1 to {}, found {}", kMaxSlots, o.slots);
  gpt::Inference::Options options;
  options.slots = o.slots;
  options.capacity = o.n_ctx > 0 ? o.n_ctx : std::min(config.n_ctx, kUsualContext);
  const int64_t one = gpt::KvCache::blocks_of_sequence(options.capacity) * gpt::KvCache::kBlock;
  if (o.cache_tokens < 0) gpt::fail_parameter("cache_tokens", "expected 0 or more, found {}", o.cache_tokens);
  if (o.cache_tokens > 0) options.cache_tokens = std::clamp(o.cache_tokens, one, o.slots * one);
  options.weights = o.dtype.empty() ? f32 : dtype_named("dtype", o.dtype, {f32, bf16, f16, q8_0, q4_0});
  const gpt::InferenceTypes types = gpt::inference_types(*options.weights);
  options.dtype = types.activations;
  options.kv_dtype =
      o.kv_dtype.empty() ? types.cache : dtype_named("kv_dtype", o.kv_dtype, {f32, bf16, f16, i8});
  options.in_place = *options.weights != bf16;
  options.max_rows = std::min(options.max_rows, std::max<int64_t>(options.capacity, options.slots));
  options.slide = o.slide;
  if (o.slide && config.position != gpt::Position::rope)
    throw Error(Code::unsupported,
                "policy: a sliding context needs rotary positions, this model has learned ones", "policy");
  return options;
}

// Caches, activations and logits, and the model's share if this is the first that needs its weights in a
// type.
Claim claim_of(const Model::Impl& model, const gpt::Inference::Options& options) {
  model.claim_packed(*options.weights);
  const gpt::ModelConfig& config = model.config();
  const int64_t logits = options.slots * config.vocab_size * static_cast<int64_t>(sizeof(float));
  return {
      model.context,
      gpt::Inference::planned_bytes(config, options, model.context->kernels, model.context->threads) + logits,
      "key/value cache and activations"};
}

gpt::SamplingParams sampling_of(const GenerateOptions& o) {
  return {.temperature = o.temperature,
          .top_k = o.top_k,
          .top_p = o.top_p,
          .min_p = o.min_p,
          .repetition_penalty = o.repetition_penalty,
          .presence_penalty = o.presence_penalty,
          .frequency_penalty = o.frequency_penalty,
          .logit_bias = o.logit_bias};
}

}  // namespace

Decoder::Decoder(std::shared_ptr<const Model::Impl> model, const DecoderOptions& options)
    : model_(std::move(model)),
      options_(inference_options(model_->config(), options)),
      claim_(claim_of(*model_, options_)),
      pool(model_->context->threads),
      inference(model_->loaded.model(), {pool, model_->context->kernels}, options_),
      cached(inference, options.slide) {}

gpt::Request Decoder::request(std::vector<int32_t> prompt, const GenerateOptions& o) const {
  if (o.max_tokens < 1) gpt::fail_parameter("max_tokens", "expected 1 or more, found {}", o.max_tokens);
  gpt::Request request{.prompt = std::move(prompt),
                       .max_tokens = o.max_tokens,
                       .sampling = sampling_of(o),
                       .seed = o.seed,
                       .number = o.number};
  if (!o.ignore_eos) request.eos_ids = gpt::eos_ids(model_->config());
  if (!o.stops.empty()) model_->tokenizer();
  return request;
}

PieceStream::PieceStream(const Model::Impl& model, const std::vector<std::string>& stops, bool drop_blank) {
  if (model.text != nullptr) stream_.emplace(*model.text->tokenizer, stops, drop_blank);
}

std::string PieceStream::push(const gpt::Event& event) {
  if (!stream_) return "";
  std::string text;
  if (event.id >= 0 && !ends_text(event)) text = stream_->push(event.id);
  if (event.finish) text += stream_->finish();
  return text;
}

bool ends_text(const gpt::Event& event) {
  return event.finish == gpt::FinishReason::eos || event.finish == gpt::FinishReason::stop;
}

Finish finish_of(gpt::FinishReason reason) {
  switch (reason) {
    case gpt::FinishReason::stop:
      return Finish::stop;
    case gpt::FinishReason::eos:
      return Finish::eos;
    case gpt::FinishReason::context:
      return Finish::context;
    case gpt::FinishReason::error:
      return Finish::error;
    case gpt::FinishReason::length:
      break;
  }
  return Finish::length;
}

}  // namespace gptcpp
