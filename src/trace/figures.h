#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/capture.h"
#include "trace/token_names.h"

namespace gpt {

// Functions that draw parts of a trace as self-contained SVG documents, for texts, slides and lessons. The
// HTML page (page.h) shows the same data interactively.

// A matrix of attention weights or scores to draw as coloured squares. Rows are queries and columns are keys.
struct HeatMap {
  std::string title;
  std::vector<std::vector<double>> values;  // NaN marks a masked entry
  // True: the values are scores, drawn in blue above 0 and in orange below 0. False: the values are weights
  // from 0 to 1.
  bool diverging = false;
};
// Draws heat maps of equal size side by side. Each square shows its value as text.
std::string heat_maps_svg(const std::string& title, const std::vector<HeatMap>& maps);

// Draws the attention weights of every head in every layer as small maps. If `layer` and `head` are >= 0,
// draws only this head, and labels the rows and columns with tokens. A long prompt is cut to the first 32
// tokens in small maps and to the first 40 tokens for a single head.
std::string attention_svg(const Capture& capture, const TokenNames& names, int64_t layer = -1,
                          int64_t head = -1);

// Draws the norm of the residual stream (root mean square over tokens) after the embedding and after each
// sub-layer, and the norm of the change that each sub-layer makes.
std::string residual_svg(const Capture& capture);

// Draws the model and one of its layers according to the config, with the shapes of the intermediate tensors.
std::string architecture_svg(const ModelConfig& config, const std::string& name);

}  // namespace gpt
