#pragma once

#include "model/model.h"
#include "run/run_data.h"
#include "run/trainer.h"
#include "text/chat_formats.h"
#include "train/train_step.h"

namespace gpt {

class LoadedModel;

// Where the tokenizer of a run is, if it resumes or starts from a model; "" if the config names it.
std::string tokenizer_folder_of_run(const TrainRequest& request, const LoadedModel* init);

// The chat templates of the model that a run resumes or starts from, which the run's models keep.
ChatTemplates chat_templates_of_run(const TrainRequest& request, const LoadedModel* init);

// The model of a run, without weights: of the request's config, or of the model it starts from with the
// config's dropout; its vocabulary is the tokenizer's unless the config has a larger one. Throws
// invalid_argument where they do not fit together.
Model model_of_run(const TrainRequest& request, const LoadedModel* init, const RunData& data);

void copy_dropout(const ModelConfig& from, ModelConfig& to);

// How the steps of a run are computed. Throws invalid_argument for micro-batches that cut the objective's
// groups.
TrainStep::Options step_options_of_run(const TrainConfig& config, const ParamTable& table, int64_t n_ctx,
                                       const Objective& objective, Communicator& processes);

}  // namespace gpt
