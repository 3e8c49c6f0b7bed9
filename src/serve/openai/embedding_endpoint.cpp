#include <nlohmann/json.hpp>

#include "serve/api_error.h"
#include "serve/json_text.h"
#include "serve/models/prompt_task.h"
#include "serve/openai/responses.h"
#include "serve/openai/submit_answer.h"
#include "serve/openai/token_ids.h"

namespace gpt::serve {
namespace {

struct Embeddings {
  std::vector<TextInput> inputs;
  std::vector<std::vector<float>> results;
  bool as_base64 = false;
};

EmbeddingsResponse response_of(const Embeddings& e, const std::string& model, const Usage& usage) {
  EmbeddingsResponse out{.model = model, .usage = {usage.prompt, usage.prompt}};
  for (const std::vector<float>& numbers : e.results) {
    EmbeddingsResponse::Embedding& one = out.data.emplace_back();
    one.index = std::ssize(out.data) - 1;
    one.embedding = numbers;
    if (e.as_base64)
      one.embedding = base64({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)});
  }
  return out;
}

}  // namespace

void embeddings(const Service& service, const std::shared_ptr<Call>& call) {
  const nlohmann::json body = parse_body(call->request().body);
  const Fields fields(body);
  const ModelSet::Found found = model_of(service, *call, fields);
  ServedModel& model = *found.model;
  const nlohmann::json* input = fields.find("input");
  if (input == nullptr) fail_field("input", "expected a string, found none");
  const auto e = std::make_shared<Embeddings>();
  e->as_base64 = fields.choice("encoding_format", {"float", "base64"}) == "base64";
  const int64_t n = model.config().n_embd;
  if (fields.integer("dimensions", 1, INT32_MAX).value_or(n) != n)
    fail_field("dimensions", "expected {} (the embedding size of this model); leave it out", n);
  e->inputs = read_inputs(*input, "input", model, read_text_reading(fields), service.limits.sequences, *call);
  Usage usage;
  for (const TextInput& text : e->inputs) {
    if (std::ssize(text.ids) > model.n_ctx())
      throw ApiError(400,
                     fmt::format("the context of this model is {} tokens, but an input has {}; shorten it",
                                 model.n_ctx(), text.ids.size()),
                     "input", "context_length_exceeded");
    usage.prompt += std::ssize(text.ids);
  }
  const auto make = [found, e](size_t i, std::function<void()> next, PromptTask::OnFail on_fail) {
    return std::make_shared<EmbedTask>(
        found.model->inference(), found.model->spare_slot(),
        PromptTask::Prompt{e->inputs[i].ids, found.adapter, found.salt},
        [e, next = std::move(next)](std::vector<float> result) {
          e->results.push_back(std::move(result));
          next();
        },
        std::move(on_fail));
  };
  const auto finish = [call, e, usage, found, &metrics = service.metrics] {
    call->set_usage(usage);
    metrics.prompt_tokens += usage.prompt;
    call->send({.body = json_of(response_of(*e, found.name, usage))});
  };
  std::make_shared<PromptChain>(model.worker(), call, e->inputs.size(), make, finish)->start();
}

}  // namespace gpt::serve
