#include <cmath>
#include <nlohmann/json.hpp>

#include "base/ranges.h"
#include "base/utf8.h"
#include "serve/api_error.h"
#include "serve/models/prompt_task.h"
#include "serve/openai/answer_grammar.h"
#include "serve/openai/submit_answer.h"
#include "serve/openai/token_ids.h"
#include "serve/openai/truncation.h"

namespace gpt::serve {
namespace {

constexpr int64_t kUsualTokens = 16;  // default max_tokens of a completion in OpenAI's API

// A validated completion request.
struct Completion {
  ModelSet::Found found;
  GenerationParams params;
  std::vector<TextInput> prompts;
  std::vector<AnswerPiece> echo;
  int64_t samples = 1;
  int64_t logprobs = -1;
  std::optional<AnswerGrammar> grammar = {};
  bool echoes = false, generates = true;
};

void read_counts(const Fields& fields, const RequestLimits& limits, Completion& c) {
  c.samples = fields.integer("best_of", 1, limits.n).value_or(c.params.n);
  if (c.samples < c.params.n)
    fail_field("best_of", "expected at least n ({}), found {}", c.params.n, c.samples);
  if (c.samples > c.params.n && c.params.stream)
    fail_field("best_of", "expected at most n with \"stream\": true");
  if (std::ssize(c.prompts) * c.samples > limits.sequences)
    fail_field("prompt", "expected at most {} sequences (number of prompts times n or best_of), found {}",
               limits.sequences, std::ssize(c.prompts) * c.samples);
}

// Implements "truncation": "auto". Removes the oldest tokens, but not BOS, from prompts that fill the
// context.
void truncate_prompts(Completion& c, const Fields& fields, Call& call) {
  const auto truncation = Truncation::read(fields, c.found.model->n_ctx());
  if (!truncation) return;
  if (c.echoes) fail_field("truncation", "expected \"disabled\" with \"echo\": true");
  int64_t removed = 0;
  for (TextInput& prompt : c.prompts) {
    if (truncation->applies_to(std::ssize(prompt.ids)))
      removed += forget_tokens(prompt.ids, *truncation, c.found.model->config().bos_token_id);
  }
  if (removed > 0) call.add_header("X-Truncated-Tokens", std::to_string(removed));
}

Completion read_completion(const Service& service, Call& call, const Fields& fields) {
  Completion c{.found = model_of(service, call, fields)};
  const ServedModel& model = *c.found.model;
  c.params = parse_generation(fields, model, service.limits);
  fields.refuse({"suffix", "messages", "tools"});
  const nlohmann::json* prompt = fields.find("prompt");
  if (prompt == nullptr) fail_field("prompt", "expected a string, found none");
  c.prompts =
      read_inputs(*prompt, "prompt", model, read_text_reading(fields), service.limits.sequences, call);
  read_counts(fields, service.limits, c);
  c.logprobs = fields.integer("logprobs", 0, service.limits.top_logprobs).value_or(-1);
  c.echoes = fields.boolean("echo").value_or(false);
  // parse_generation has already checked that this is a whole number.
  const auto most = fields.number("max_tokens", 0, INFINITY);
  c.generates = !most || *most > 0;
  if (!c.generates && !c.echoes)
    fail_field("max_tokens", "expected 1 or more without \"echo\": true, found 0");
  c.grammar = read_answer_grammar(fields, call.request().body);
  truncate_prompts(c, fields, call);
  if (!most && fields.find("max_completion_tokens") == nullptr) c.params.request.max_tokens = 0;
  return c;
}

std::vector<Request> requests_of(Completion& c) {
  std::vector<Request> requests;
  const ServedModel& model = *c.found.model;
  for (const TextInput& prompt : c.prompts) {
    Request request = c.params.request;
    request.prompt = prompt.ids;
    request.logprobs = c.logprobs < 0 && c.samples > c.params.n ? 0 : c.logprobs;
    const int64_t room = model.n_ctx() - std::ssize(prompt.ids);
    if (request.max_tokens == 0 && room > 0) request.max_tokens = std::min(kUsualTokens, room);
    if (!c.generates) {
      if (room < 0) fit_context(request, model.n_ctx(), "prompt");
      continue;
    }
    fit_context(request, model.n_ctx(), "prompt");
    add_samples(requests, request, c.samples);
  }
  return requests;
}

// Returns the text of a prompt. A prompt of token ids is decoded.
std::string text_of(const TextInput& prompt, const Tokenizer* tokenizer) {
  std::string text = prompt.text;
  if (!text.empty() || tokenizer == nullptr) return text;
  for (const int32_t id : prompt.ids)
    text += bytes_of(*tokenizer, id);
  return text;
}

// Returns the prompts as the start of their responses. The first token has no log-probability.
std::vector<AnswerPiece> echoes_of(const Completion& c) {
  return transformed(c.prompts, [&](const TextInput& prompt) {
    AnswerPiece piece{.text = replace_invalid_utf8(text_of(prompt, c.found.model->tokenizer_if_any()))};
    if (c.logprobs >= 0)
      piece.tokens.push_back({prompt.ids.front(), {{prompt.ids.front(), std::nan("")}, {}}});
    return piece;
  });
}

// Sets the offsets of the tokens in the text of an echoed prompt. An added BOS token and the leading space
// that SentencePiece adds are not part of the text.
void place_tokens(std::vector<TokenEntry>& tokens, std::string_view text, const ServedModel& model) {
  const Tokenizer* tokenizer = model.tokenizer_if_any();
  if (tokenizer == nullptr) return;
  Utf8Stream characters;
  int64_t count = 0;
  for (size_t i = 0, at = 0; i < tokens.size(); ++i) {
    tokens[i].offset = count + (characters.inside_char() ? 1 : 0);
    const std::string bytes = bytes_of(*tokenizer, tokens[i].id);
    std::string_view own = bytes;
    if (at == 0 && !text.starts_with(own)) {
      const int32_t id = tokens[i].id;
      if (i == 0 && (id == tokenizer->special_ids().bos || id == model.config().bos_token_id)) continue;
      if (own.starts_with(' ') && text.starts_with(own.substr(1))) own.remove_prefix(1);
    }
    own = own.substr(0, text.size() - at);
    at += own.size();
    count += count_chars(characters.push(own));
  }
}

// Checks the number of log-probabilities in the response. Log-probabilities of an echoed prompt count once
// per response.
void check_size(const Completion& c, const std::vector<Request>& requests, const RequestLimits& limits) {
  int64_t tokens = 0;
  if (c.echoes) tokens += c.samples * sum_of(c.prompts, [](const TextInput& p) { return std::ssize(p.ids); });
  if (!c.params.stream) tokens += sum_of(requests, &Request::max_tokens);
  check_logprobs(tokens, c.logprobs, limits);
}

void submit(const Service& service, const std::shared_ptr<Call>& call, Completion& c,
            std::vector<Request> requests) {
  AnswerPlan plan = plan_of(c.params, c.found, "cmpl-");
  plan.samples = c.samples;
  plan.choice.keep_end = true;
  plan.format.chat = false;
  plan.format.logprobs = c.logprobs >= 0;
  plan.format.tokenizer = c.found.model->tokenizer_if_any();
  plan.echo = std::move(c.echo);
  plan.prompt_tokens = transformed(c.prompts, [](const TextInput& p) { return std::ssize(p.ids); });
  submit_answer(service, call, c.found, std::move(plan), std::move(requests), c.grammar);
}

}  // namespace

void completions(const Service& service, const std::shared_ptr<Call>& call) {
  const nlohmann::json body = parse_body(call->request().body);
  const auto c = std::make_shared<Completion>(read_completion(service, *call, Fields(body)));
  ServedModel& model = *c->found.model;
  const auto requests = std::make_shared<std::vector<Request>>(requests_of(*c));
  check_size(*c, *requests, service.limits);
  if (c->echoes) c->echo = echoes_of(*c);
  if (!c->echoes || c->logprobs < 0) return submit(service, call, *c, std::move(*requests));
  const auto make = [&model, c](size_t i, std::function<void()> next, PromptTask::OnFail on_fail) {
    return std::make_shared<ScoreTask>(
        model.inference(), model.spare_slot(),
        PromptTask::Prompt{c->prompts[i].ids, c->found.adapter, c->found.salt}, c->logprobs,
        [c, i, next = std::move(next)](std::vector<Logprobs> scores) {
          for (Logprobs& score : scores)
            c->echo[i].tokens.push_back({score.chosen.id, std::move(score)});
          next();
        },
        std::move(on_fail));
  };
  const auto finish = [&service, call, c, requests] {
    for (size_t i = 0; i < c->prompts.size(); ++i) {
      const std::string text = text_of(c->prompts[i], c->found.model->tokenizer_if_any());
      place_tokens(c->echo[i].tokens, text, *c->found.model);
    }
    submit(service, call, *c, std::move(*requests));
  };
  std::make_shared<PromptChain>(model.worker(), call, c->prompts.size(), make, finish)->start();
}

}  // namespace gpt::serve
