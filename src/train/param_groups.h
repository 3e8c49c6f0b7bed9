#pragma once

#include <vector>

#include "model/model.h"
#include "train/train_config.h"

namespace gpt {

// What an optimizer treats alike: the matrices of the blocks; tables that are looked up; the head, which may
// be such a table too, and what an objective adds; vectors: norms and biases.
enum class ParamGroup : uint8_t { matrix, embedding, head, vector };
ParamGroup param_group(const ParamTable& table, int id);

// Makes the parameters that a config's "freeze" names constants. Throws invalid_argument for a pattern that
// matches no name, and where nothing is left to train. To be called before memory is made for the table's
// gradients.
void freeze_parameters(const TrainConfig& config, ParamTable& table);

// The model of a config, its parameters frozen as that says.
Model model_to_train(const RunConfig& config);

// What a parameter's learning rate is of the step's, by id: its group's rate as a part of "lr", times the
// factors of "lr_scale" that match its name, times that of "layer_decay". Throws invalid_argument for a
// pattern that matches no name.
std::vector<double> lr_scales(const TrainConfig& config, const ParamTable& table);

// Throws invalid_argument naming the key unless the patterns and factors of these keys can be read.
void check_param_groups(const TrainConfig& config);

}  // namespace gpt
