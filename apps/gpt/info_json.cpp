#include <cmath>
#include <nlohmann/json.hpp>

#include "info_report.h"
#include "model/training_memory.h"
#include "train/schedule.h"

namespace gpt {
namespace {

using nlohmann::json;

json parameters_json(const ModelCounts& m) {
  json parameters = {{"total", m.total}, {"layers", m.layers}, {"rule_of_thumb_12LC2", m.rule_of_thumb}};
  json per_layer = {{"total", m.per_layer}};
  json shares = json::object();
  for (const ComponentCount& c : m.components) {
    parameters[c.key] = c.total;
    shares[c.key] = static_cast<double>(c.total) / static_cast<double>(m.total);
    if (c.component == Component::attention || c.component == Component::mlp ||
        c.component == Component::norm)
      per_layer[c.key] = c.per_layer;
  }
  parameters["per_layer"] = per_layer;
  parameters["shares"] = shares;
  return parameters;
}

json flops_json(const ModelCounts& m) {
  const int64_t n_ctx = m.config.n_ctx;
  const FlopCounts parts = m.flop_parts(n_ctx);
  return {{"n_ctx", n_ctx},
          {"forward", m.forward_flops(n_ctx)},
          {"training", m.training_flops(n_ctx)},
          {"decode_first", m.decode_flops(0)},
          {"decode_last", m.decode_flops(n_ctx - 1)},
          {"parts",
           {{"attention", parts.attention},
            {"scores", parts.scores},
            {"mlp", parts.mlp},
            {"norms", parts.norms},
            {"head", parts.head}}}};
}

json inference_json(const InfoMemory& m, const InfoSubject& s) {
  json weights, token, full;
  for (const NumberFormat& f : number_formats()) {
    const std::string name(f.name);
    weights[name] = m.weights(f.bytes);
    token[name] = f.bytes * m.cache_values_per_token;
    full[name] = f.bytes * m.cache_values_per_token * m.cache_tokens;
  }
  return {{"sequences", s.sequences},
          {"weights", weights},
          {"kv_cache_per_token", token},
          {"kv_cache_full_context", full}};
}

json state_json(const TrainingState& state) {
  return {{"weights", state.weights},
          {"gradients", state.gradients},
          {"master", state.master},
          {"moments", state.moments},
          {"total", state.total()}};
}

// The figures of fp32 stand at the top, those of every format below "formats".
json training_json(const InfoMemory& m, const InfoSubject& s) {
  const TrainingState fp32 = training_state(m.parameters, training_formats()[0]);
  json out = {{"batch_size", s.batch},
              {"weights", fp32.weights},
              {"gradients", fp32.gradients},
              {"moments", fp32.moments},
              {"activations", m.activations_fp32},
              {"activations_recompute", m.recomputed_fp32},
              {"total", fp32.total() + m.activations_fp32},
              {"devices", s.devices},
              {"formats", json::object()}};
  for (const TrainingFormat& f : training_formats()) {
    json format = {{"activations", f.activation == 4 ? m.activations_fp32 : m.activations_16},
                   {"activations_recompute", f.activation == 4 ? m.recomputed_fp32 : m.recomputed_16},
                   {"zero", json::array()}};
    for (int stage = 0; stage < kZeroStages; ++stage)
      format["zero"].push_back(state_json(training_state(m.parameters, f, stage, s.devices)));
    out["formats"][std::string(f.name)] = format;
  }
  return out;
}

json schedule_json(const TrainConfig& c) {
  json rows = json::array();
  for (const int64_t step : schedule_steps(c))
    rows.push_back({{"step", step}, {"lr", learning_rate(c, step)}});
  return {{"steps", c.steps}, {"warmup", c.warmup}, {"lr", c.lr}, {"min_lr", c.min_lr}, {"rows", rows}};
}

}  // namespace

json subject_json(const InfoSubject& s) {
  const InfoMemory m(s);
  return {{"name", s.name},
          {"config", model_keys_json(s.counts.config)},
          {"vocab_size_assumed", s.assumed_vocab},
          {"parameters", parameters_json(s.counts)},
          {"flops_per_token", flops_json(s.counts)},
          {"initial_loss", std::log(static_cast<double>(s.counts.config.vocab_size))},
          {"memory_bytes", {{"inference", inference_json(m, s)}, {"training", training_json(m, s)}}},
          {"schedule", schedule_json(s.train)}};
}

}  // namespace gpt
