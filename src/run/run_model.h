#pragma once

#include "model/model.h"
#include "run/run_data.h"
#include "run/trainer.h"
#include "text/chat_formats.h"
#include "train/train_step.h"

namespace gpt {

class LoadedModel;

// Returns the folder that contains the tokenizer of a run that resumes or starts from a model. Returns "" if
// the config names the tokenizer.
std::string tokenizer_folder_of_run(const TrainRequest& request, const LoadedModel* init);

// Returns the chat templates of the model that a run resumes or starts from. All models that the run saves
// keep these templates.
ChatTemplates chat_templates_of_run(const TrainRequest& request, const LoadedModel* init);

// Builds the model of a run without weights. If the run starts from a model, the new model has the config of
// that model, but the dropout rates of the request. Otherwise, it has the config of the request. The
// vocabulary has the size of the tokenizer, unless the config has a larger vocabulary. Throws
// invalid_argument if config, model and tokenizer do not match.
Model model_of_run(const TrainRequest& request, const LoadedModel* init, const RunData& data);

void copy_dropout(const ModelConfig& from, ModelConfig& to);

// Returns the TrainStep options of a run. Throws invalid_argument if a micro-batch would split a group of
// samples. Some objectives need all samples of a group together.
TrainStep::Options step_options_of_run(const TrainConfig& config, const ParamTable& table, int64_t n_ctx,
                                       const Objective& objective, Communicator& processes);

}  // namespace gpt
