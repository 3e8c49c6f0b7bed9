#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "serve/answer_grammar.h"
#include "serve/answer_sink.h"
#include "serve/endpoints.h"

namespace gpt::serve {

// The part of a plan that both kinds of completions have in common.
AnswerPlan plan_of(const GenerationParams& params, const ModelSet::Found& found,
                   const std::string& id_prefix);

// Gives sequences to the model's engine and their answer to the client; a client that goes away ends them.
// With a grammar that happens when it is compiled, on a thread of its own: others do not wait for that.
// Throws as EngineWorker::submit.
void submit_answer(const Service& service, const std::shared_ptr<Call>& call, const ModelSet::Found& found,
                   AnswerPlan plan, std::vector<Request> requests,
                   const std::optional<AnswerGrammar>& grammar);

// The sequences of a prompt: the same request, with numbers from 0 on.
void add_samples(std::vector<Request>& requests, const Request& request, int64_t samples);

// The model that a request names, with its adapter.
ModelSet::Found model_of(const Service& service, Call& call, const Fields& fields);

}  // namespace gpt::serve
