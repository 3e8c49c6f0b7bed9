#pragma once

#include <span>
#include <string>

#include "kernels/backend.h"
#include "model/model.h"
#include "report/svg.h"
#include "trace/token_names.h"

namespace gpt {

// A model and a prompt for demonstrations with `needs_model`.
struct DemoModel {
  const Model& model;
  std::span<const int32_t> ids;
  const TokenNames& names;
};

struct DemoContext {
  Backend backend;  // host backend for model forward passes; single ops run as the fp64 reference
  const DemoModel* model = nullptr;
  bool unicode = false;
};

// A demonstration: a small experiment. It runs the same ops as models, and computes all of its numbers when
// it runs.
struct Demo {
  const char* name;
  const char* title;
  bool needs_model;
  std::string (*run)(const DemoContext& context);
  std::string (*picture)(const DemoContext& context) =
      nullptr;  // returns an SVG document; null if there is no picture
};
std::span<const Demo> demos();

// The functions of all demonstrations, grouped by source file.
namespace detail {
std::string demo_skeleton(const DemoContext& context);
std::string demo_identity(const DemoContext& context);
std::string demo_mask(const DemoContext& context);
std::string demo_attention(const DemoContext& context);
std::string demo_scale(const DemoContext& context);
std::string demo_activations(const DemoContext& context);
std::string demo_rope(const DemoContext& context);
std::string demo_norms(const DemoContext& context);
std::string demo_loss(const DemoContext& context);
std::string demo_cache(const DemoContext& context);
std::string demo_forcing(const DemoContext& context);

std::string picture_attention(const DemoContext& context);
std::string picture_scale(const DemoContext& context);
std::string picture_activations(const DemoContext& context);
std::string picture_rope(const DemoContext& context);

inline constexpr ChartSize kDemoChart = {.width = 640, .height = 360};

// Returns the completed model config of a preset. Training keys of the preset are ignored.
ModelConfig complete_preset(const std::string& name);

// Formats values as a row of numbers, each `width` characters wide, such as "0.3607  -0.2859".
std::string number_row(std::span<const double> values, int width, int digits);

double dot(std::span<const double> a, std::span<const double> b);
}  // namespace detail

}  // namespace gpt
