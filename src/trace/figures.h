#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/capture.h"
#include "trace/token_names.h"

namespace gpt {

// Single pictures of a pass, as SVG documents that need nothing else: for texts, slides and lessons. The page
// (page.h) shows the same with more to look into.

// A matrix of attention weights or of scores as coloured squares: a row per query, a column per key.
struct HeatMap {
  std::string title;
  std::vector<std::vector<double>> values;  // NaN: masked
  bool diverging = false;                   // scores: blue above 0, orange below; else weights 0...1
};
// Maps beside each other, all of one size, with their numbers written into the squares.
std::string heat_maps_svg(const std::string& title, const std::vector<HeatMap>& maps);

// Attention of every head of every block as small maps, or, with layer and head >= 0, of one head with the
// tokens at its sides. The first tokens of a long prompt.
std::string attention_svg(const Capture& capture, const TokenNames& names, int64_t layer = -1,
                          int64_t head = -1);

// The residual stream from the embedding to the last block: its length per token, and how far every
// sub-layer moves it.
std::string residual_svg(const Capture& capture);

// The model and one of its blocks as the config builds them, with the shapes of what flows there.
std::string architecture_svg(const ModelConfig& config, const std::string& name);

}  // namespace gpt
