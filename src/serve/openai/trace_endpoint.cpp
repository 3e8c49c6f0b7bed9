#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/ranges.h"
#include "model/model_counts.h"
#include "serve/api_error.h"
#include "serve/openai/chat_prompt.h"
#include "serve/openai/submit_answer.h"
#include "serve/openai/token_ids.h"
#include "serve/pages/pages.h"
#include "trace/page.h"

namespace gpt::serve {
namespace {

// Returns the ids to trace: a conversation, a text or a list of ids.
std::vector<int32_t> traced_ids(const Fields& fields, const ServedModel& model, Call& call) {
  if (fields.find("messages") != nullptr) {
    if (fields.find("prompt") != nullptr)
      fail_field("prompt", "expected either \"messages\" or \"prompt\", found both");
    refuse_parse_special(fields);
    return read_chat_prompt(fields, call.request().body, model).ids;
  }
  const nlohmann::json* prompt = fields.find("prompt");
  if (prompt == nullptr) fail_field("prompt", "expected a string, or \"messages\", found none");
  return std::move(read_inputs(*prompt, "prompt", model, read_text_reading(fields), 1, call).front().ids);
}

// Returns the number of operations of a trace: one forward pass over the tokens, and the output head on the
// residual stream before the first layer and after every layer.
double work_of(const ModelConfig& config, int64_t tokens) {
  const ModelCounts counts(config);
  const double lens = static_cast<double>(config.n_layer + 1) * counts.flop_parts(tokens).head;
  return static_cast<double>(tokens) * (counts.forward_flops(tokens) + lens);
}

// Throws ApiError if the trace would take too long or the page would be too large.
void check_size(const ModelConfig& config, int64_t tokens, const RequestLimits& limits) {
  const auto refuse = [&](const std::string& why) {
    throw ApiError(
        400, fmt::format("{}; shorten the text, or create the page with gpt trace MODEL --html FILE", why),
        "prompt", "context_length_exceeded");
  };
  const int64_t most = std::min(limits.trace_tokens, config.n_ctx);
  if (tokens > most)
    refuse(fmt::format("a trace on this server has at most {} tokens, but the text has {}", most, tokens));
  if (ModelCounts(config).total > limits.trace_parameters)
    throw ApiError(400,
                   fmt::format("the model has more than {} parameters, too many to trace on a server; create "
                               "the page with gpt trace MODEL --html FILE",
                               format_thousands(limits.trace_parameters)),
                   "model");
  if (work_of(config, tokens) > limits.trace_flops)
    refuse(
        fmt::format("a trace of {} tokens with this model exceeds the compute limit of this server", tokens));
  // Queries and keys take most of the page. Each value has two bytes, and base64 adds one third.
  if (tokens * (config.q_dim() + config.kv_dim()) * config.n_layer * 8 / 3 > limits.trace_bytes)
    refuse(fmt::format("a trace of {} tokens with this model would be larger than {} MiB", tokens,
                       limits.trace_bytes >> 20));
}

std::string page_of(const ServedModel& model, const std::string& name, const std::vector<int32_t>& ids) {
  const ThreadPool& shared = *model.options().threads;
  ThreadPool pool(shared, shared.size());
  Capture capture(model.model(), {pool, kernel_table(model.options().isa)}, ids, {});
  TokenNames names;
  if (const Tokenizer* tokenizer = model.tokenizer_if_any())
    names = TokenNames([tokenizer](int32_t id) { return bytes_of(*tokenizer, id); });
  return trace_page(capture, names,
                    {.model = name, .computed = fmt::format("fp32, {}", isa_name(model.options().isa))});
}

}  // namespace

void trace(const Service& service, const std::shared_ptr<Call>& call) {
  const nlohmann::json body = parse_body(call->request().body);
  const Fields fields(body);
  const ModelSet::Found found = model_of(service, *call, fields);
  if (found.adapter >= 0)
    fail_field("model", "a trace cannot include adapters; use {} instead of {}", found.model->name(),
               found.name);
  std::vector<int32_t> ids = traced_ids(fields, *found.model, *call);
  check_size(found.model->config(), std::ssize(ids), service.limits);
  const auto answer = [call, found, ids = std::move(ids), &metrics = service.metrics] {
    call->set_usage({.prompt = std::ssize(ids)});
    metrics.prompt_tokens += std::ssize(ids);
    call->send(made_page(page_of(*found.model, found.name, ids)));
  };
  const bool taken = run_later(service.tracing, call, answer, "prompt");
  if (!taken) throw ApiError(429, "too many pending traces; try again in a moment");
}

}  // namespace gpt::serve
