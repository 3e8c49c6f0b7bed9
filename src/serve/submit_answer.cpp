#include "serve/submit_answer.h"

#include <ctime>

namespace gpt::serve {

AnswerPlan plan_of(const GenerationParams& params, const ModelSet::Found& found,
                   const std::string& id_prefix) {
  AnswerPlan plan{.stream = params.stream, .samples = params.n, .choices = params.n};
  plan.choice.stops = params.stops;
  plan.format = {.id = new_id(id_prefix),
                 .model = found.name,
                 .created = std::time(nullptr),
                 .include_usage = params.include_usage};
  return plan;
}

void add_samples(std::vector<Request>& requests, const Request& request, int64_t samples) {
  for (int64_t i = 0; i < samples; ++i) {
    requests.push_back(request);
    requests.back().number = static_cast<uint64_t>(i);
  }
}

ModelSet::Found model_of(const Service& service, const Fields& fields) {
  return service.models.find(fields.text("model").value_or(""));
}

void submit_answer(const Service& service, const std::shared_ptr<Call>& call, const ModelSet::Found& found,
                   AnswerPlan plan, std::vector<Request> requests) {
  const auto done = [&metrics = service.metrics, call](const Usage& usage) {
    call->set_usage(usage);
    metrics.prompt_tokens += usage.prompt;
    metrics.generated_tokens += usage.completion;
    metrics.cached_tokens += usage.cached;
  };
  const Tokenizer* tokenizer = plan.format.tokenizer;
  const auto sink = std::make_shared<AnswerSink>(std::move(plan), tokenizer, call, service.metrics, done);
  if (requests.empty()) return sink->finish_without_tokens();
  EngineWorker& worker = found.model->worker();
  const int64_t job = worker.submit({.client = call->client, .requests = std::move(requests), .sink = sink});
  call->on_closed([model = found.model, job] { model->worker().cancel(job); });
}

}  // namespace gpt::serve
