#pragma once

#include <vector>

#include "model/model.h"
#include "train/train_config.h"

namespace gpt {

// Groups of parameters with the same optimizer settings. matrix: matrices of the layers; embedding: lookup
// tables; head: the output head, also if tied to the embedding, and parameters of an objective; vector: norms
// and biases.
enum class ParamGroup : uint8_t { matrix, embedding, head, vector };
ParamGroup param_group(const ParamTable& table, int id);

// Freezes the parameters that match a config's "freeze". Throws invalid_argument for a pattern that matches
// no name, and if no trainable parameter is left. Call it before allocating gradients for the table.
void freeze_parameters(const TrainConfig& config, ParamTable& table);

// Builds the model of a config and freezes the parameters that its "freeze" names.
Model model_to_train(const RunConfig& config);

// Returns the learning rate factor of each parameter, by id: the learning rate of its group divided by "lr",
// times all factors of "lr_scale" that match its name, times the factor of "layer_decay". Throws
// invalid_argument for a pattern that matches no name.
std::vector<double> lr_scales(const TrainConfig& config, const ParamTable& table);

// Throws invalid_argument naming the key if a pattern or factor of these keys is invalid.
void check_param_groups(const TrainConfig& config);

}  // namespace gpt
