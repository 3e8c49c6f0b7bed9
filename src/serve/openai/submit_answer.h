#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "serve/openai/answer_grammar.h"
#include "serve/openai/answer_sink.h"
#include "serve/openai/endpoints.h"

namespace gpt::serve {

// Returns the part of a plan that chat completions and completions have in common.
AnswerPlan plan_of(const GenerationParams& params, const ModelSet::Found& found,
                   const std::string& id_prefix);

// Submits sequences to the model's engine and sends the response to the client. If the client disconnects,
// the sequences end. A grammar is compiled first, on a separate thread, so that other requests do not wait
// for it. Throws like EngineWorker::submit.
void submit_answer(const Service& service, const std::shared_ptr<Call>& call, const ModelSet::Found& found,
                   AnswerPlan plan, std::vector<Request> requests,
                   const std::optional<AnswerGrammar>& grammar);

// Appends `samples` copies of a request with numbers from 0.
void add_samples(std::vector<Request>& requests, const Request& request, int64_t samples);

// Returns the model that a request names, with its adapter.
ModelSet::Found model_of(const Service& service, Call& call, const Fields& fields);

}  // namespace gpt::serve
