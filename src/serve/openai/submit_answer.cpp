#include "serve/openai/submit_answer.h"

#include <ctime>

#include "serve/api_error.h"

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

ModelSet::Found model_of(const Service& service, Call& call, const Fields& fields) {
  ModelSet::Found found = service.models.find(fields.text("model").value_or(""));
  call.set_model(found.name);
  const std::string salt = fields.text("cache_salt").value_or("");
  if (salt.size() > PrefixSalts::kLongest)
    fail_field("cache_salt", "expected at most {} bytes, found {}", PrefixSalts::kLongest, salt.size());
  found.salt = service.salts.of(call.client, salt);
  return found;
}

namespace {

void submit_now(const Service& service, const std::shared_ptr<Call>& call, const ModelSet::Found& found,
                AnswerPlan plan, std::vector<Request> requests) {
  const auto done = [&metrics = service.metrics, call, found](  // `found` keeps the model alive
                        const Usage& usage) {
    call->set_usage(usage);
    metrics.prompt_tokens += usage.prompt;
    metrics.generated_tokens += usage.completion;
    metrics.cached_tokens += usage.cached;
  };
  const Tokenizer* tokenizer = plan.format.tokenizer;
  const auto sink = std::make_shared<AnswerSink>(std::move(plan), tokenizer, call, service.metrics, done);
  if (requests.empty()) return sink->finish_without_tokens();
  for (Request& request : requests) {
    request.adapter = found.adapter;
    request.salt = found.salt;
  }
  EngineWorker& worker = found.model->worker();
  const int64_t job = worker.submit({.client = call->client, .requests = std::move(requests), .sink = sink});
  call->on_closed([model = found.model, job] { model->worker().cancel(job); });
}

}  // namespace

void submit_answer(const Service& service, const std::shared_ptr<Call>& call, const ModelSet::Found& found,
                   AnswerPlan plan, std::vector<Request> requests,
                   const std::optional<AnswerGrammar>& grammar) {
  if (!grammar) return submit_now(service, call, found, std::move(plan), std::move(requests));
  struct Waiting {
    ModelSet::Found found;
    AnswerPlan plan;
    std::vector<Request> requests;
    AnswerGrammar grammar;
  };
  const auto waiting =
      std::make_shared<Waiting>(Waiting{found, std::move(plan), std::move(requests), *grammar});
  const bool taken = run_later(service.compiling, call, [&service, call, waiting] {
    constrain(waiting->requests, waiting->grammar, *waiting->found.model);
    submit_now(service, call, waiting->found, std::move(waiting->plan), std::move(waiting->requests));
  });
  if (!taken) throw ApiError(503, "the server is compiling too many grammars; try again in a moment");
}

}  // namespace gpt::serve
