#pragma once

#include <span>
#include <string>

#include "kernels/backend.h"
#include "model/model.h"
#include "report/svg.h"
#include "trace/token_names.h"

namespace gpt {

// A model and a prompt, for the demonstrations that need one.
struct DemoModel {
  const Model& model;
  std::span<const int32_t> ids;
  const TokenNames& names;
};

struct DemoContext {
  Backend backend;  // of host memory, for passes through models; single ops run as the fp64 reference
  const DemoModel* model = nullptr;
  bool unicode = false;
};

// The demonstrations: small experiments whose every number is computed here, by the ops that models run on.
struct Demo {
  const char* name;
  const char* title;
  bool needs_model;
  std::string (*run)(const DemoContext& context);
  std::string (*picture)(const DemoContext& context) = nullptr;  // an SVG document, where there is one
};
std::span<const Demo> demos();

// Parts of the list, by file.
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

// The completed config of a preset; keys of training are left alone.
ModelConfig complete_preset(const std::string& name);

// "0.3607  -0.2859", each `width` wide.
std::string number_row(std::span<const double> values, int width, int digits);

double dot(std::span<const double> a, std::span<const double> b);
}  // namespace detail

}  // namespace gpt
