#include "api/decoder.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/ranges.h"
#include "grammar/grammar_constraint.h"
#include "infer/beam.h"
#include "infer/generate.h"
#include "infer/sampler.h"

namespace gptcpp {
namespace {

// Default maximum context length; a larger KV cache must be requested.
constexpr int64_t kUsualContext = 8192;
constexpr int64_t kUsualCacheBytes = int64_t{1} << 30;  // default maximum size of the KV cache
constexpr int kMaxSlots = 4096;

gpt::DType dtype_named(const char* parameter, const std::string& name,
                       std::initializer_list<gpt::DType> allowed) {
  if (const auto* dtype = gpt::find_by(allowed, gpt::dtype_name, name)) return *dtype;
  gpt::fail_parameter(parameter, "expected one of {}, found \"{}\"",
                      fmt::join(gpt::transformed(allowed, gpt::dtype_name), ", "), name.substr(0, 64));
}

void set_types(gpt::Inference::Options& options, const EngineOptions& o) {
  using enum gpt::DType;
  options.weights = o.dtype.empty() ? f32 : dtype_named("dtype", o.dtype, {f32, bf16, f16, q8_0, q4_0});
  const gpt::InferenceTypes types = gpt::inference_types(*options.weights);
  options.dtype = types.activations;
  options.kv_dtype =
      o.kv_dtype.empty() ? types.cache : dtype_named("kv_dtype", o.kv_dtype, {f32, bf16, f16, i8, q4_0});
  options.in_place = o.in_place || *options.weights != bf16;
  options.repack = gpt::parse_repack(o.repack);
}

// Returns the size in tokens of the KV cache that all slots share.
int64_t cache_tokens(const gpt::ModelConfig& config, const gpt::Inference::Options& options, int64_t wanted) {
  if (wanted < 0) gpt::fail_parameter("cache_tokens", "expected 0 or more, found {}", wanted);
  const int64_t one = gpt::KvCache::blocks_of_sequence(options.capacity) * gpt::KvCache::kBlock;
  const gpt::KvCache::Options cache{.slots = options.slots,
                                    .capacity = options.capacity,
                                    .dtype = *options.kv_dtype,
                                    .step = options.max_rows};
  if (wanted == 0) wanted = gpt::KvCache::tokens_within(config, cache, kUsualCacheBytes);
  return std::clamp(wanted, one, options.slots * one);
}

int chosen_threads(const Context::Impl& context, const EngineOptions& o) {
  if (o.threads < 0 || o.threads > context.threads)
    gpt::fail_parameter("threads", "expected 0 (all threads of the context) to {}, found {}", context.threads,
                        o.threads);
  return o.threads == 0 ? context.threads : o.threads;
}

gpt::Inference::Options inference_options(const gpt::ModelConfig& config, const EngineOptions& o) {
  if (o.n_ctx < 0 || o.n_ctx > config.n_ctx)
    gpt::fail_parameter("n_ctx", "expected 1 to {}, the model's context length, found {}", config.n_ctx,
                        o.n_ctx);
  if (o.slots < 1 || o.slots > kMaxSlots)
    gpt::fail_parameter("slots", "expected 1 to {}, found {}", kMaxSlots, o.slots);
  gpt::Inference::Options options;
  options.slots = o.slots;
  options.capacity = o.n_ctx > 0 ? o.n_ctx : std::min(config.n_ctx, kUsualContext);
  set_types(options, o);
  options.cache_tokens = cache_tokens(config, options, o.cache_tokens);
  options.max_rows = std::min(options.max_rows, std::max<int64_t>(options.capacity, options.slots));
  if (static_cast<uint32_t>(o.policy) > static_cast<uint32_t>(ContextPolicy::slide))
    gpt::fail_parameter("policy", "expected stop, crop or slide, found {}", static_cast<int>(o.policy));
  options.slide = o.policy == ContextPolicy::slide;
  if (options.slide && config.position != gpt::Position::rope)
    throw Error(Code::unsupported,
                "a sliding window requires rotary position embeddings, but this model has learned ones; use "
                "crop or stop",
                "policy");
  return options;
}

// Reserves adapter rank for the sum of all adapters of the model.
gpt::Inference::Options with_adapters(gpt::Inference::Options options, const Model::Impl& model) {
  options.adapter_rank = gpt::sum_of(model.adapters, [](const auto& a) { return a.adapter.adapter->rank; });
  return options;
}

// Returns the maximum number of logits rows in a step.
int64_t most_logits(const EngineOptions& o) {
  const bool speculates = !o.draft.empty() || (!o.speculate.empty() && o.speculate != "off");
  const int64_t of_text = speculates ? 1 + std::clamp<int64_t>(o.draft_tokens, 1, gpt::kMostProposals) : 1;
  return std::max<int64_t>(o.slots, std::min<int64_t>(o.slots * of_text, kStepRows));
}

gpt::Speculation speculation_of(const EngineOptions& o) {
  using Source = gpt::Speculation::Source;
  const bool named = !o.draft.empty();
  const Source source = !o.speculate.empty() ? gpt::parse_speculation(o.speculate)
                        : named              ? Source::draft
                                             : Source::off;
  if (source == Source::draft && !named)
    gpt::fail_parameter("speculate", "'draft' requires a draft model, found none; name one with `draft`");
  if (source != Source::draft && named)
    gpt::fail_parameter("speculate", "expected 'draft' for the draft model {}, found '{}'", o.draft,
                        o.speculate);
  return {.source = source, .max_tokens = o.draft_tokens};
}

// Reserves memory for the KV cache, activations and logits, and for the packed weights of the model if no
// other session has reserved them for this dtype.
Claim claim_of(const Model::Impl& model, const gpt::Inference::Options& options, int threads,
               int64_t logits_rows) {
  model.claim_packed(*options.weights, options.in_place);
  const gpt::ModelConfig& config = model.config();
  const int64_t logits = logits_rows * config.vocab_size * static_cast<int64_t>(sizeof(float));
  return {model.context,
          gpt::Inference::planned_bytes(config, options, model.context->kernels, threads) + logits,
          "KV cache and activations"};
}

Logprobs logprobs_of(const gpt::Logprobs& inner) {
  const auto token = [](const gpt::TokenLogprob& t) { return TokenLogprob{t.id, t.logprob}; };
  return {token(inner.chosen), gpt::transformed(inner.top, token)};
}

Beam beam_of(const gpt::Beam& beam, Answer answer) {
  answer.result.finish = finish_of(beam.finish);
  for (size_t i = 0; i < beam.ids.size(); ++i) {
    gpt::Event event{.id = beam.ids[i]};
    if (i + 1 == beam.ids.size()) event.finish = beam.finish;
    answer.add(event);
  }
  if (answer.stopped()) answer.result.finish = Finish::stop;
  return {std::move(answer.result), beam.score};
}

// Returns true if the biases forbid every id.
bool forbids_all(const std::map<int32_t, double>& bias, int64_t vocab_size) {
  return std::ssize(bias) == vocab_size && std::ranges::all_of(bias, [](const auto& b) {
           return b.second == -std::numeric_limits<double>::infinity();
         });
}

std::vector<gpt::WeightedAdapter> chosen_adapters(const Model::Impl& model,
                                                  const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::ranges::count(names, name) > 1)
      gpt::fail_parameter("adapters", "expected every name once, found {} twice", name);
  }
  return gpt::transformed(names, [&](const std::string& name) { return model.adapter(name); });
}

// Compiles a grammar. Errors in the grammar become errors of its parameter.
std::shared_ptr<gpt::grammar::TokenMasks> masks_of(gpt::grammar::GrammarCache& grammars,
                                                   const char* parameter,
                                                   const gpt::grammar::GrammarSource& source) {
  try {
    return grammars.masks(source);
  } catch (const gpt::Error& error) {
    gpt::fail_parameter(parameter, "{}", error.what());
  }
}

// Returns the constraint of the options, or null if they have none.
std::shared_ptr<const gpt::Constraint> constraint_of(const Model::Impl& model, const GenerateOptions& o) {
  using Kind = gpt::grammar::GrammarSource::Kind;
  std::vector<std::pair<const char*, gpt::grammar::GrammarSource>> given;
  if (!o.grammar.empty()) given.push_back({"grammar", {Kind::gbnf, o.grammar}});
  if (!o.json_schema.empty()) given.push_back({"json_schema", {Kind::json_schema, o.json_schema}});
  if (!o.regex.empty()) given.push_back({"regex", {Kind::regex, o.regex}});
  if (given.empty()) return nullptr;
  if (given.size() > 1)
    gpt::fail_parameter(given[1].first, "expected only one of grammar, json_schema and regex, found {} too",
                        given[0].first);
  gpt::grammar::GrammarCache& grammars = model.grammars();
  const auto masks = masks_of(grammars, given[0].first, given[0].second);
  return gpt::grammar::make_constraint(masks, o.max_tokens);
}

gpt::Request request_of(const Model::Impl& model, const GenerateOptions& o) {
  if (o.max_tokens < 0)
    gpt::fail_parameter("max_tokens", "expected 0 or a positive number, found {}", o.max_tokens);
  if (o.logprobs < -1) gpt::fail_parameter("logprobs", "expected -1 or more, found {}", o.logprobs);
  gpt::Request request{.max_tokens = o.max_tokens,
                       .sampling = o.sampling,
                       .seed = o.seed,
                       .number = o.number,
                       .logprobs = o.logprobs};
  gpt::validate(request.sampling, model.config().vocab_size);
  if (forbids_all(o.sampling.logit_bias, model.config().vocab_size))
    gpt::fail_parameter("logit_bias", "expected at least one token id that is not forbidden, found none");
  if (!o.ignore_eos) request.eos_ids = gpt::eos_ids(model.config());
  if (!o.stops.empty()) model.tokenizer();
  chosen_adapters(model, o.adapters);
  request.constraint = constraint_of(model, o);
  return request;
}

}  // namespace

void check(const Model& model, const GenerateOptions& options) {
  guarded([&] {
    request_of(*model.impl(), options);
    Answer(*model.impl(), options.stops);
  });
}

void check(const Model& model, const EngineOptions& options) {
  guarded([&] {
    inference_options(model.impl()->config(), options);
    chosen_threads(*model.impl()->context, options);
    speculation_of(options);
  });
}

static_assert(static_cast<int>(ContextPolicy::slide) == static_cast<int>(gpt::ContextPolicy::slide));

EngineOptions engine_options(const SessionOptions& o) {
  return {.slots = 1,
          .n_ctx = o.n_ctx,
          .dtype = o.dtype,
          .kv_dtype = o.kv_dtype,
          .in_place = o.in_place,
          .repack = o.repack,
          .policy = o.policy,
          .speculate = o.speculate,
          .draft = o.draft,
          .draft_tokens = o.draft_tokens,
          .threads = o.threads};
}

Decoder::Decoder(std::shared_ptr<const Model::Impl> model, const EngineOptions& options)
    : model_(std::move(model)),
      options_(with_adapters(inference_options(model_->config(), options), *model_)),
      threads_(chosen_threads(*model_->context, options)),
      claim_(claim_of(*model_, options_, threads_, most_logits(options))),
      policy(static_cast<gpt::ContextPolicy>(options.policy)),
      pool(model_->context->workers(), threads_),
      inference(model_->loaded.model(), {pool, model_->context->kernels}, options_),
      cached(inference, options_.slide),
      speculation_(speculation_of(options)) {
  if (speculation_.source == gpt::Speculation::Source::draft) open_draft(options);
}

// Opens the draft model with the same context length and cache size, limited by the draft model's n_ctx.
void Decoder::open_draft(const EngineOptions& options) {
  const auto draft = std::make_shared<const Model::Impl>(model_->context, options.draft, ModelOptions{});
  const auto tokenizer_of = [](const Model::Impl& m) { return m.text ? m.text->tokenizer.get() : nullptr; };
  gpt::require_same_vocabulary(tokenizer_of(*model_), model_->config(), options.draft, tokenizer_of(*draft),
                               draft->config());
  EngineOptions own = options;
  own.draft = own.speculate = {};
  own.n_ctx = std::min(options_.capacity, draft->config().n_ctx);
  own.cache_tokens = options_.cache_tokens;
  const bool slides = options_.slide && draft->config().position == gpt::Position::rope;
  own.policy = slides ? ContextPolicy::slide : ContextPolicy::stop;
  speculation_.draft_cost = static_cast<double>(draft->facts.parameters) /
                            static_cast<double>(std::max<int64_t>(model_->facts.parameters, 1));
  draft_.reset(gpt::made_of_draft(options.draft, [&] { return new Decoder(draft, own); }));
}

gpt::Speculation Decoder::speculation() const {
  gpt::Speculation speculation = speculation_;
  if (draft_) speculation.draft = &draft_->cached;
  return speculation;
}

std::shared_ptr<const int> Decoder::adapter(const std::vector<std::string>& names) {
  if (names.empty()) return std::make_shared<const int>(-1);
  if (const auto known = std::ranges::find(sums_, names, &AdapterSum::names); known != sums_.end()) {
    std::rotate(known, known + 1, sums_.end());
    return sums_.back().number;
  }
  const auto chosen = chosen_adapters(*model_, names);
  while (std::ssize(sums_) >= kMostSums && free_unused_sum()) {
  }
  Claim claim = claim_adapters(chosen);
  sums_.reserve(sums_.size() + 1);
  const int number = inference.add_adapter(gpt::sum_of_adapters(model_->loaded.model().table, chosen));
  sums_.push_back({names, std::move(claim), std::make_shared<const int>(number)});
  return sums_.back().number;
}

// Reserves memory for a sum of adapters, which has its own copies of all their weights. Frees unused sums if
// memory runs out.
Claim Decoder::claim_adapters(const std::vector<gpt::WeightedAdapter>& adapters) {
  const int64_t values = gpt::sum_of(adapters, [](const auto& a) { return a.adapter->table.total(); });
  for (;;) {
    try {
      return {model_->context, values * static_cast<int64_t>(sizeof(float)), "adapters"};
    } catch (const Error&) {
      if (!free_unused_sum()) throw;
    }
  }
}

// Frees the least recently used sum that is not in use. Returns false if all sums are in use.
bool Decoder::free_unused_sum() {
  const auto unused =
      std::ranges::find_if(sums_, [](const AdapterSum& sum) { return sum.number.use_count() == 1; });
  if (unused == sums_.end()) return false;
  inference.free_adapter(*unused->number);
  sums_.erase(unused);
  return true;
}

gpt::Request Decoder::request(std::vector<int32_t> prompt, const GenerateOptions& o) {
  gpt::Request request = request_of(*model_, o);
  const auto number = adapter(o.adapters);
  request.adapter = *number;
  request.owner = number;
  request.prompt = std::move(prompt);
  request.context = policy;
  return request;
}

Answer::Answer(const Model::Impl& model, const std::vector<std::string>& stops, bool drop_blank) {
  if (model.text != nullptr) stream_.emplace(*model.text->tokenizer, stops, drop_blank);
}

std::string Answer::add(const gpt::Event& event) {
  std::string text;
  if (ends_text(event)) {
    result.end_id = event.id;
  } else if (event.id >= 0) {
    result.ids.push_back(event.id);
    if (stream_) text = stream_->push(event.id);
  }
  result.draft_tokens = event.proposed;
  result.accepted_tokens = event.accepted;
  if (event.logprobs != nullptr) result.logprobs.push_back(logprobs_of(*event.logprobs));
  if (event.finish) {
    result.finish = finish_of(*event.finish);
    if (stream_) text += stream_->finish();
  }
  result.text += text;
  return text;
}

bool Answer::take(const gpt::Event& event, const OnPiece& on_piece) {
  if (event.finish == gpt::FinishReason::error) throw gpt::Error(std::string(event.error));
  const bool ends = ends_text(event);
  const std::string text = add(event);
  const bool shown = on_piece && !(ends && text.empty());
  const bool goes_on = !shown || call_back(on_piece, Piece{ends ? -1 : event.id, text});
  if ((goes_on && !stopped()) || ends) return true;
  result.finish = Finish::stop;
  return false;
}

void generate_alone(Decoder& decoder, gpt::Request request, const OnPiece& on_piece, Answer& answer) {
  gpt::Engine engine(decoder.cached, {.step_rows = kStepRows, .speculation = decoder.speculation()});
  const int64_t id = as_argument("prompt", [&] { return engine.submit(std::move(request)); });
  while (!engine.idle()) {
    decoder.model().context->check_cancelled();
    for (const gpt::Event& event : engine.step()) {
      if (!answer.take(event, on_piece)) engine.cancel(id);
    }
  }
  answer.result.computed_tokens = engine.counts().computed;
  answer.result.reused_tokens = engine.counts().reused;
}

bool ends_text(const gpt::Event& event) {
  return event.finish == gpt::FinishReason::eos || event.finish == gpt::FinishReason::stop;
}

Finish finish_of(gpt::FinishReason reason) {
  constexpr Finish kFinishes[] = {Finish::stop,    Finish::eos,   Finish::length,
                                  Finish::context, Finish::error, Finish::stop};
  return kFinishes[static_cast<size_t>(reason)];
}

const char* finish_name(Finish finish) noexcept {
  constexpr const char* kNames[] = {"length", "eos", "stop", "context", "error"};
  const auto at = static_cast<size_t>(finish);
  return at < std::size(kNames) ? kNames[at] : "unknown";
}

std::vector<Result> generate(const Model& model, std::span<const std::vector<int32_t>> prompts,
                             const GenerateOptions& options, int64_t n, const EngineOptions& engine,
                             const OnSamplePiece& on_piece) {
  return guarded([&] {
    Decoder decoder(model.impl(), engine);
    const gpt::Request r = decoder.request({}, options);
    const auto total = prompts.size() * static_cast<size_t>(std::max<int64_t>(n, 0));
    std::vector<Answer> answers;
    const auto make_answers = [&] {
      while (answers.size() < total)
        answers.emplace_back(decoder.model(), options.stops);
    };
    const auto on_token = [&](const gpt::TokenEvent& event) {
      const auto show = [&](const Piece& piece) { return on_piece(event.prompt, event.sample, piece); };
      Answer& answer = answers[static_cast<size_t>(event.prompt * n + event.sample)];
      return answer.take({.id = event.id,
                          .logprobs = event.logprobs,
                          .finish = event.finish,
                          .proposed = event.proposed,
                          .accepted = event.accepted},
                         on_piece ? OnPiece(show) : OnPiece());
    };
    const gpt::GenerateOptions inner{.max_tokens = r.max_tokens,
                                     .sampling = r.sampling,
                                     .seed = r.seed,
                                     .n = n,
                                     .first_sample = r.number,
                                     .eos_ids = r.eos_ids,
                                     .context = r.context,
                                     .logprobs = r.logprobs,
                                     .adapter = r.adapter,
                                     .prefill_chunk = kStepRows,
                                     .constraint = r.constraint,
                                     .speculation = decoder.speculation(),
                                     .before_step = [&] {
                                       decoder.model().context->check_cancelled();
                                       make_answers();
                                     }};
    as_argument("prompts", [&] { gpt::check_prompts(decoder.cached, prompts, r.context); });
    gpt::generate(decoder.cached, prompts, inner, on_token);
    make_answers();
    return gpt::transformed(answers, &Answer::result);
  });
}

std::vector<Beam> beam_search(const Model& model, std::span<const int32_t> prompt, const BeamOptions& options,
                              const SessionOptions& session) {
  return guarded([&] {
    if (options.width < 1 || options.width > kMaxSlots)
      gpt::fail_parameter("width", "expected 1 to {}, found {}", kMaxSlots, options.width);
    if (!options.stops.empty()) model.tokenizer();
    if (speculation_of(engine_options(session)).source != gpt::Speculation::Source::off)
      gpt::fail_parameter("speculate", "expected 'off' for beam search, found '{}'",
                          session.draft.empty() ? session.speculate : "draft");
    EngineOptions engine = engine_options(session);
    engine.slots = static_cast<int>(options.width);
    // The value is clamped to one full context per beam. Beams cannot be evicted from the cache.
    engine.cache_tokens = std::numeric_limits<int64_t>::max();
    Decoder decoder(model.impl(), engine);
    gpt::BeamOptions inner{.width = options.width,
                           .steps = options.max_tokens,
                           .eos_ids = {},
                           .length_penalty = options.length_penalty,
                           .context = static_cast<gpt::ContextPolicy>(session.policy)};
    const auto adapter = decoder.adapter(options.adapters);
    inner.adapter = *adapter;
    if (!options.ignore_eos) inner.eos_ids = gpt::eos_ids(decoder.model().config());
    as_argument("prompt", [&] { gpt::check_prompt(decoder.cached, prompt, inner.context, "prompt"); });
    return gpt::transformed(gpt::beam_search(decoder.cached, prompt, inner), [&](const gpt::Beam& beam) {
      return beam_of(beam, Answer(decoder.model(), options.stops));
    });
  });
}

}  // namespace gptcpp
