#include "trace/steps.h"

#include <algorithm>
#include <cmath>

#include "tensor/element.h"

namespace gpt {
namespace {

const char* about_attention(const std::string& step, const ModelConfig& c) {
  const bool rotated = c.position == Position::rope;
  if (step == "q.projected") return "queries of all heads";
  if (step == "k.projected") return "keys";
  if (step == "q.rotated" || step == "k.rotated") return rotated ? "turned by position" : "";
  if (step == "q" || step == "k")
    return c.qk_norm ? "normed per head" : rotated ? "turned by position" : "as projected";
  if (step == "v") return "values";
  if (step == "attention") return "weights, each row sums to 1";
  if (step == "heads") return "weighted values of all heads";
  return "projected back to the stream's width";
}

const char* about(const std::string& step, const ModelConfig& c) {
  const bool post = c.norm_position == NormPosition::post;
  if (step == "in") return "the stream";
  if (step == "norm1.out") return post ? "norm of the sum" : "norm";
  if (step == "mid") return "stream + attention";
  if (step == "norm2.out") return "norm";
  if (step == "mlp.gate") return "argument of the gate";
  if (step == "mlp.fc") return c.act == Act::swiglu ? "what is gated" : "argument of the activation";
  if (step == "mlp.hidden") return "neurons";
  if (step == "mlp.out") return "projected back";
  if (step == "sum") return "stream + mlp";
  if (step == "out") return post ? "norm of the sum" : "stream + mlp";
  return about_attention(step, c);
}

}  // namespace

std::vector<BlockStep> block_steps(const Capture& capture, int64_t layer) {
  const std::string prefix = "blocks." + std::to_string(layer) + ".";
  std::vector<BlockStep> steps;
  for (const NamedActivation& a : capture.activations()) {
    if (a.name.rfind(prefix, 0) != 0) continue;
    const std::string name = a.name.substr(prefix.size());
    BlockStep step{name, a.view, a.shape, about(name, capture.config()), 0, INFINITY, -INFINITY};
    double squares = 0;
    for (int64_t r = 0; r < a.view.rows(); ++r) {
      for (int64_t c = 0; c < a.view.cols(); ++c) {
        const double x = element(a.view, r, c);
        squares += x * x;
        step.low = std::min(step.low, x);
        step.high = std::max(step.high, x);
      }
    }
    step.rms = std::sqrt(squares / static_cast<double>(a.view.size()));
    steps.push_back(step);
  }
  return steps;
}

}  // namespace gpt
