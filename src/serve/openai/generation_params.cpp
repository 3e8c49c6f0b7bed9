#include "serve/openai/generation_params.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "base/parse.h"
#include "serve/api_error.h"

namespace gpt::serve {
namespace {

using nlohmann::json;

constexpr int64_t kMaxTokens = int64_t{1} << 40;

// Each function reads a field of SamplingParams if the request has it.
void read_field(const Fields& fields, const SamplingField& f, double& value) {
  value = fields.number(f.name, f.request_min, f.request_max).value_or(value);
}

void read_field(const Fields& fields, const SamplingField& f, int64_t& value) {
  value = fields.integer(f.name, static_cast<int64_t>(f.request_min), static_cast<int64_t>(f.request_max))
              .value_or(value);
}

void read_field(const Fields& fields, const SamplingField& f, TopPRule& value) {
  if (const auto name = fields.choice(f.name, gptcpp::kTopPRules)) value = parse_top_p_rule(*name);
}

void read_field(const Fields& fields, const SamplingField& f, std::map<int32_t, double>& values) {
  const json* object = fields.find(f.name);
  if (object == nullptr) return;
  if (!object->is_object()) fields.fail(f.name, "an object of token ids and numbers", *object);
  const Fields inner(*object, std::string(f.name) + ".");
  for (const auto& [key, unused] : object->items()) {
    const auto id = parse_number<int32_t>(key);
    if (!id || *id < 0)
      fail_field(f.name, "expected token ids of at least 0, found \"{}\"", printable_text(key, 32));
    read_field(inner, {.name = key.c_str(), .request_min = f.request_min, .request_max = f.request_max},
               values[*id]);
  }
}

SamplingParams parse_sampling(const Fields& fields, const ServedModel& model) {
  SamplingParams s = SamplingParams::neutral();
  gptcpp::visit_sampling(s,
                         [&](const SamplingField& field, auto& value) { read_field(fields, field, value); });
  if (s.top_p == 0) {  // OpenAI's API treats top_p 0 as greedy
    s.top_p = 1;
    s.temperature = 0;
  }
  s.top_k = std::clamp<int64_t>(s.top_k, 0, model.config().vocab_size);
  validate(s, model.config().vocab_size);
  return s;
}

std::vector<std::string> parse_stops(const Fields& fields, const RequestLimits& limits) {
  const json* stop = fields.find("stop");
  if (stop == nullptr) return {};
  const json list = stop->is_array() ? *stop : json::array({*stop});
  if (std::ssize(list) > limits.stops)
    fail_field("stop", "expected at most {} strings, found {}", limits.stops, list.size());
  std::vector<std::string> stops;
  for (const json& text : list) {
    if (!text.is_string()) fields.fail("stop", "a string or a list of strings", text);
    const auto& s = text.get_ref<const std::string&>();
    if (s.empty() || std::ssize(s) > limits.stop_bytes)
      fail_field("stop", "expected strings of 1 to {} bytes, found one of {}", limits.stop_bytes, s.size());
    stops.push_back(s);
  }
  return stops;
}

uint64_t any_seed() {
  std::random_device device;
  return (uint64_t{device()} << 21) ^ device();  // below 2^53
}

// Rejects fields that would change the response but are not supported.
void refuse_unsupported(const Fields& fields) {
  fields.refuse({"audio", "modalities", "prediction", "functions", "function_call", "web_search_options",
                 "beam_width", "prompt_logprobs", "bad_words", "stop_token_ids", "allowed_token_ids",
                 "truncate_prompt_tokens", "samplers"});
  // Clients also send these fields with a neutral value, which is accepted.
  for (const auto& [name, neutral] : {std::pair{"min_tokens", 0.0},
                                      {"typical_p", 1.0},
                                      {"mirostat", 0.0},
                                      {"length_penalty", 1.0},
                                      {"top_n_sigma", -1.0},
                                      {"dynatemp_range", 0.0},
                                      {"xtc_probability", 0.0},
                                      {"dry_multiplier", 0.0}}) {
    const json* value = fields.find(name);
    if (value != nullptr && *value != neutral) fields.refuse({name});
  }
  for (const char* name : {"include_stop_str_in_output", "return_tokens_as_token_ids", "use_beam_search"}) {
    if (fields.boolean(name).value_or(false)) fields.refuse({name});
  }
  for (const auto& [theirs, ours] : {std::pair{"n_predict", "max_tokens"},
                                     {"repeat_penalty", "repetition_penalty"},
                                     {"n_probs", "logprobs"}}) {
    if (fields.find(theirs) != nullptr) fail_field(theirs, "this server calls it {}", ours);
  }
}

void parse_stream(const Fields& fields, GenerationParams& p) {
  p.stream = fields.boolean("stream").value_or(false);
  const json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!p.stream) fail_field("stream_options", "expected only beside \"stream\": true");
  p.include_usage = Fields(*options, "stream_options.").boolean("include_usage").value_or(false);
}

}  // namespace

GenerationParams parse_generation(const Fields& fields, const ServedModel& model,
                                  const RequestLimits& limits) {
  refuse_unsupported(fields);
  GenerationParams p;
  p.request.sampling = parse_sampling(fields, model);
  p.request.max_tokens = 0;
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    const int64_t lowest = name == std::string_view("max_tokens") ? 0 : 1;
    if (const auto n = fields.integer(name, lowest, kMaxTokens))
      p.request.max_tokens = std::max<int64_t>(*n, 1);
  }
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  p.request.seed = seed && *seed != -1 ? static_cast<uint64_t>(*seed) : any_seed();
  if (!fields.boolean("ignore_eos").value_or(false)) p.request.eos_ids = eos_ids(model.config());
  p.stops = parse_stops(fields, limits);
  if (!p.stops.empty()) model.tokenizer();
  p.n = fields.integer("n", 1, limits.n).value_or(1);
  parse_stream(fields, p);
  fields.text("user");
  return p;
}

void check_logprobs(int64_t tokens, int64_t top, const RequestLimits& limits) {
  if (top < 0 || tokens <= limits.logprobs / (top + 1)) return;
  fail_field("logprobs",
             "expected at most {} of them in an answer, found {} tokens with {} alternatives each; ask for "
             "fewer, or stream",
             limits.logprobs, tokens, top);
}

void fit_context(Request& request, int64_t n_ctx, const char* param) {
  const int64_t prompt = std::ssize(request.prompt);
  if (prompt >= n_ctx)
    throw ApiError(
        400,
        fmt::format("the context of this model is {} tokens, but the prompt has {}; shorten it, or "
                    "have its oldest part left out: \"truncation\": \"auto\"",
                    n_ctx, prompt),
        param, "context_length_exceeded");
  const int64_t room = n_ctx - prompt;
  request.max_tokens = request.max_tokens == 0 ? room : std::min(request.max_tokens, room);
}

}  // namespace gpt::serve
