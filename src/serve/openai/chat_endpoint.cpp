#include <cmath>
#include <nlohmann/json.hpp>

#include "serve/api_error.h"
#include "serve/openai/chat_prompt.h"
#include "serve/openai/submit_answer.h"

namespace gpt::serve {
namespace {

// Returns the number of alternatives per token, or -1 if no log-probabilities are requested.
int64_t read_logprobs(const Fields& fields, const RequestLimits& limits) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, limits.top_logprobs);
  if (top && *top > 0 && !wanted) fail_field("top_logprobs", "requires \"logprobs\": true");
  return wanted ? top.value_or(0) : -1;
}

// Returns the grammar of the response: tool calls, or a message in the requested format. If both are
// possible, the grammar accepts either of them. A requested format does not restrict tool calls.
std::optional<AnswerGrammar> answer_grammar(const Fields& fields, std::string_view body,
                                            const ChatPrompt& prompt) {
  auto grammar = read_answer_grammar(fields, body);
  if (prompt.must_call) return prompt.calls;
  if (grammar && prompt.calls) grammar->source.others = {prompt.calls->source};
  return grammar;
}

// Returns the options for finding tool calls in a response with this grammar.
std::optional<ToolCallOptions> tool_options(const ChatPrompt& prompt,
                                            const std::optional<AnswerGrammar>& grammar) {
  std::optional<ToolCallOptions> options = prompt.tools;
  if (!options) return options;
  options->from_start = grammar.has_value();
  if (!grammar) options->names.clear();
  return options;
}

}  // namespace

void chat_completions(const Service& service, const std::shared_ptr<Call>& call) {
  const nlohmann::json body = parse_body(call->request().body);
  const Fields fields(body);
  const ModelSet::Found found = model_of(service, *call, fields);
  const ServedModel& model = *found.model;
  GenerationParams params = parse_generation(fields, model, service.limits);
  fields.refuse({"best_of", "echo", "suffix", "prompt"});
  refuse_parse_special(fields);
  if (fields.number("max_tokens", 0, INFINITY) == 0) fail_field("max_tokens", "expected 1 or more, found 0");
  ChatPrompt prompt = read_chat_prompt(fields, call->request().body, model);
  Request& request = params.request;
  request.prompt = std::move(prompt.ids);
  if (prompt.forgotten > 0) call->add_header("X-Truncated-Messages", std::to_string(prompt.forgotten));
  request.stop_ids = {model.chat_template().end_id()};
  request.logprobs = read_logprobs(fields, service.limits);
  fit_context(request, model.n_ctx(), "messages");
  const auto grammar = answer_grammar(fields, call->request().body, prompt);
  if (!params.stream) check_logprobs(request.max_tokens * params.n, request.logprobs, service.limits);
  AnswerPlan plan = plan_of(params, found, "chatcmpl-");
  plan.format.tokenizer = &model.tokenizer();
  plan.format.logprobs = request.logprobs >= 0;
  plan.choice.drop_blank = !prompt.continues && model.chat_template().blank_before_answers();
  plan.choice.tools = tool_options(prompt, grammar);
  plan.prompt_tokens = {std::ssize(request.prompt)};
  std::vector<Request> requests;
  add_samples(requests, request, params.n);
  submit_answer(service, call, found, std::move(plan), std::move(requests), grammar);
}

}  // namespace gpt::serve
