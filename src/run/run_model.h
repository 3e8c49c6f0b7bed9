#pragma once

#include "model/model.h"
#include "run/run_data.h"
#include "run/trainer.h"
#include "text/chat_formats.h"
#include "train/train_step.h"

namespace gpt {

class LoadedModel;

// Returns the folder of a run's tokenizer if the run resumes or starts from a model; "" if the config names
// the tokenizer.
std::string tokenizer_folder_of_run(const TrainRequest& request, const LoadedModel* init);

// Returns the chat templates of the model that a run resumes or starts from. The run's models keep them.
ChatTemplates chat_templates_of_run(const TrainRequest& request, const LoadedModel* init);

// Builds the model of a run, without weights, from the request's config or from the model that the run starts
// from with the config's dropout. Its vocabulary is that of the tokenizer, unless the config has a larger
// one. Throws invalid_argument if config, model and tokenizer do not match.
Model model_of_run(const TrainRequest& request, const LoadedModel* init, const RunData& data);

void copy_dropout(const ModelConfig& from, ModelConfig& to);

// Returns the options of a run's TrainStep. Throws invalid_argument if micro-batches would split groups of
// the objective.
TrainStep::Options step_options_of_run(const TrainConfig& config, const ParamTable& table, int64_t n_ctx,
                                       const Objective& objective, Communicator& processes);

}  // namespace gpt
