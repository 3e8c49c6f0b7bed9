#include <algorithm>
#include <map>

#include "api/objects.h"
#include "chat/conversation.h"
#include "infer/sampler.h"

namespace gptcpp {
namespace {

constexpr int64_t kStepRows = 512;  // ids that go through the model between two looks at `cancelled`

// A session is an engine of one text.
EngineOptions engine_options(const SessionOptions& o) {
  return {.slots = 1, .n_ctx = o.n_ctx, .dtype = o.dtype, .kv_dtype = o.kv_dtype};
}

template <class F>
struct AtExit {
  ~AtExit() { f(); }
  F f;
};
template <class F>
AtExit(F) -> AtExit<F>;

// Takes an event into the result and shows it; whether the text goes on.
bool take_event(const gpt::Event& event, PieceStream& stream, const OnPiece& on_piece, Result& result) {
  if (event.finish == gpt::FinishReason::error) throw gpt::Error(std::string(event.error));
  const bool ends = ends_text(event);
  const std::string text = stream.push(event);
  if (!ends) result.ids.push_back(event.id);
  if (event.finish) result.finish = finish_of(*event.finish);
  result.text += text;
  const bool shown = on_piece && !(ends && text.empty());
  const bool goes_on = !shown || call_back(on_piece, Piece{ends ? -1 : event.id, text});
  if ((goes_on && !stream.stopped()) || ends) return true;
  result.finish = Finish::stop;
  return false;
}

// Goes on with a request alone. What a call that throws had drawn is in `result`.
void generate(Decoder& decoder, gpt::Request request, PieceStream& stream, const OnPiece& on_piece,
              Result& result) {
  gpt::Engine engine(decoder.cached, {.step_rows = kStepRows});
  const int64_t id = as_argument("prompt", [&] { return engine.submit(std::move(request)); });
  while (!engine.idle()) {
    decoder.model().context->check_cancelled();
    for (const gpt::Event& event : engine.step()) {
      if (!take_event(event, stream, on_piece, result)) engine.cancel(id);
    }
  }
}

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

gpt::Inference::Options inference_options(const gpt::ModelConfig& config, const EngineOptions& o,
                                          bool slide) {
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
  options.slide = slide;
  if (slide && config.position != gpt::Position::rope)
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

static_assert(static_cast<int>(ContextPolicy::slide) == static_cast<int>(gpt::ContextPolicy::slide));

struct Session::Impl {
  Impl(const Model& model, const SessionOptions& options)
      : decoder(model.impl(), engine_options(options), options.policy == ContextPolicy::slide),
        policy(static_cast<gpt::ContextPolicy>(options.policy)) {}

  std::vector<int32_t> opening(std::string_view text) const {
    if (ids.empty()) return decoder.model().text_ids(text);
    return decoder.model().tokenizer().encode(text);
  }

  Decoder decoder;
  gpt::ContextPolicy policy;
  std::vector<int32_t> ids;
  std::vector<float> logits;
};

Session::Session(const Model& model, const SessionOptions& options)
    : impl_(guarded([&] { return std::make_shared<Impl>(model, options); })) {}

void Session::feed(std::string_view text) {
  if (text.empty()) return;
  const auto ids = as_argument("text", [&] { return impl_->opening(text); });
  impl_->ids.insert(impl_->ids.end(), ids.begin(), ids.end());
}

void Session::feed(std::span<const int32_t> ids) {
  const int64_t vocab_size = impl_->decoder.model().config().vocab_size;
  guarded([&] {
    for (const int32_t id : ids) {
      if (id < 0 || id >= vocab_size)
        gpt::fail_parameter("ids", "expected token ids from 0 to {}, found {}", vocab_size - 1, id);
    }
    impl_->ids.insert(impl_->ids.end(), ids.begin(), ids.end());
  });
}

Result Session::generate(const GenerateOptions& options, const OnPiece& on_piece) {
  return guarded([&] {
    std::vector<int32_t>& ids = impl_->ids;
    const Decoder& decoder = impl_->decoder;
    PieceStream stream(decoder.model(), options.stops);
    gpt::Request request = decoder.request(ids.empty() ? impl_->opening("") : ids, options);
    request.context = impl_->policy;
    ids = request.prompt;
    Result result;
    const AtExit append{[&] { ids.insert(ids.end(), result.ids.begin(), result.ids.end()); }};
    gptcpp::generate(impl_->decoder, std::move(request), stream, on_piece, result);
    return Result(result);  // a copy: `append` reads it
  });
}

std::span<const float> Session::logits() {
  return guarded([&] {
    Impl& s = *impl_;
    gpt::CachedModel& cached = s.decoder.cached;
    as_argument("ids", [&] { gpt::check_prompt(cached, s.ids, s.policy, "the text"); });
    const std::span<const int32_t> ids = gpt::opening_ids(cached, s.ids, s.policy);
    s.logits.resize(static_cast<size_t>(cached.vocab_size()));
    cached.reset(0);
    for (auto at = static_cast<size_t>(cached.reuse(0, ids)); at < ids.size();) {
      s.decoder.model().context->check_cancelled();
      const auto n =
          std::min({ids.size() - at, static_cast<size_t>(kStepRows), static_cast<size_t>(cached.room(0))});
      const gpt::SequenceModel::Append append{0, ids.subspan(at, n), at + n == ids.size()};
      cached.forward({&append, 1}, gpt::make_view(s.logits.data(), {1, cached.vocab_size()}));
      at += n;
    }
    return std::span<const float>(s.logits);
  });
}

const std::vector<int32_t>& Session::ids() const noexcept {
  return impl_->ids;
}

void Session::truncate(size_t size) {
  guarded([&] {
    if (size > impl_->ids.size())
      gpt::fail_parameter("size", "expected 0 to {}, the ids there are, found {}", impl_->ids.size(), size);
    impl_->ids.resize(size);
  });
}

std::vector<int32_t> chat_prompt(const Model& model, std::span<const Message> messages) {
  return as_argument("messages", [&] {
    std::vector<gpt::ChatMessage> inner_messages;
    for (const Message& message : messages)
      inner_messages.push_back({message.role, message.content});
    return gpt::ChatTemplate(model.impl()->chat_format(), model.impl()->tokenizer())
        .encode(inner_messages, true);
  });
}

struct Chat::Impl {
  Impl(const Model& model, const std::string& system, const SessionOptions& options)
      : format(model.impl()->chat_format()),
        chat_template(format, model.impl()->tokenizer()),
        decoder(model.impl(), engine_options(options), options.policy == ContextPolicy::slide),
        conversation(chat_template, system, decoder.inference.capacity()) {
    if (chat_template.end_id() >= decoder.model().config().vocab_size)
      gpt::fail("the tokenizer's end of a message is token {}, which the model does not have",
                chat_template.end_id());
  }

  gpt::ChatFormat format;
  gpt::ChatTemplate chat_template;
  Decoder decoder;
  gpt::Conversation conversation;
};

Chat::Chat(const Model& model, const std::string& system, const SessionOptions& options)
    : impl_(guarded([&] { return std::make_shared<Impl>(model, system, options); })) {}

Result Chat::say(const std::string& message, const GenerateOptions& options, const OnPiece& on_piece) {
  return guarded([&] {
    Impl& c = *impl_;
    PieceStream stream(c.decoder.model(), options.stops, gpt::blank_before_answers(c.format));
    gpt::Request request = c.decoder.request({}, options);
    request.prompt = as_argument("message", [&] { return c.conversation.ask(message, options.max_tokens); });
    request.eos_ids.push_back(c.chat_template.end_id());
    Result result;
    const AtExit answer{[&] { c.conversation.answer(result.ids); }};
    generate(c.decoder, std::move(request), stream, on_piece, result);
    return Result(result);  // a copy: `answer` reads it
  });
}

void Chat::reset() {
  impl_->conversation.reset();
}

Decoder::Decoder(std::shared_ptr<const Model::Impl> model, const EngineOptions& options, bool slide)
    : model_(std::move(model)),
      options_(inference_options(model_->config(), options, slide)),
      claim_(claim_of(*model_, options_)),
      pool(model_->context->threads),
      inference(model_->loaded.model(), {pool, model_->context->kernels}, options_),
      cached(inference, slide) {}

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
  constexpr Finish kFinishes[] = {Finish::stop, Finish::eos, Finish::length, Finish::context, Finish::error};
  return kFinishes[static_cast<size_t>(reason)];
}

struct Engine::Impl {
  Impl(const Model& model, const EngineOptions& options)
      : decoder(model.impl(), options), engine(decoder.cached, {}) {}
  int64_t submit(std::vector<int32_t> prompt, const GenerateOptions& options);
  void take(const gpt::Event& event, std::string& text);

  Decoder decoder;
  gpt::Engine engine;
  std::map<int64_t, PieceStream> streams;  // of the requests that have not ended
  std::vector<std::string> texts;          // of `events`
  std::vector<Event> events;
};

int64_t Engine::Impl::submit(std::vector<int32_t> prompt, const GenerateOptions& options) {
  PieceStream stream(decoder.model(), options.stops);
  gpt::Request request = decoder.request(std::move(prompt), options);
  const int64_t id = as_argument("prompt", [&] { return engine.submit(std::move(request)); });
  streams.emplace(id, std::move(stream));
  return id;
}

void Engine::Impl::take(const gpt::Event& inner, std::string& text) {
  const auto stream = streams.find(inner.request);
  text = stream->second.push(inner);
  Event event{.request = inner.request,
              .piece = {ends_text(inner) ? -1 : inner.id, text},
              .finish = {},
              .error = inner.error};
  if (inner.finish) event.finish = finish_of(*inner.finish);
  if (stream->second.stopped()) {
    event.finish = Finish::stop;
    engine.cancel(inner.request);
  }
  if (event.finish) streams.erase(stream);
  events.push_back(event);
}

Engine::Engine(const Model& model, const EngineOptions& options)
    : impl_(guarded([&] { return std::make_shared<Impl>(model, options); })) {}

int64_t Engine::submit(std::string_view prompt, const GenerateOptions& options) {
  return guarded([&] {
    auto ids = as_argument("prompt", [&] { return impl_->decoder.model().text_ids(prompt); });
    return impl_->submit(std::move(ids), options);
  });
}

int64_t Engine::submit(std::span<const int32_t> prompt, const GenerateOptions& options) {
  return guarded([&] { return impl_->submit({prompt.begin(), prompt.end()}, options); });
}

bool Engine::cancel(int64_t request) {
  return guarded([&] {
    impl_->streams.erase(request);
    return impl_->engine.cancel(request);
  });
}

std::span<const Event> Engine::step() {
  return guarded([&] {
    impl_->events.clear();
    impl_->decoder.model().context->check_cancelled();
    if (idle()) return std::span<const Event>();
    const std::span<const gpt::Event> events = impl_->engine.step();
    impl_->texts.resize(events.size());
    for (size_t i = 0; i < events.size(); ++i)
      impl_->take(events[i], impl_->texts[i]);
    return std::span<const Event>(impl_->events);
  });
}

bool Engine::idle() const noexcept {
  return impl_->engine.idle();
}

}  // namespace gptcpp
