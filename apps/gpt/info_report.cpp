#include "info_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "model/training_memory.h"
#include "report/table.h"
#include "train/schedule.h"

namespace gpt {
namespace {

using nlohmann::json;

std::string share(int64_t part, int64_t whole) {
  return format_percent(static_cast<double>(part) / static_cast<double>(whole));
}

std::string parameters_table(const ModelCounts& m) {
  TextTable table{.columns = {"component", "parameters", "share", "per layer"}};
  for (const ComponentCount& c : m.components) {
    const bool tied = c.component == Component::head && c.total == 0 && m.config.tie_embeddings;
    table.rows.push_back({tied ? c.label + ", tied" : c.label, format_thousands(c.total),
                          share(c.total, m.total), c.per_layer > 0 ? format_thousands(c.per_layer) : ""});
  }
  table.rows.push_back(
      {"all layers", format_thousands(m.layers), share(m.layers, m.total), format_thousands(m.per_layer)});
  table.rows.push_back({"total", format_thousands(m.total), share(m.total, m.total), ""});
  if (m.layers == 0) return format_table(table);
  return format_table(table) +
         fmt::format("rule of thumb for the layers, 12 L C^2: {}, {} of them, {} of the total\n",
                     format_thousands(m.rule_of_thumb), share(m.rule_of_thumb, m.layers),
                     share(m.rule_of_thumb, m.total));
}

std::string flops_table(const ModelCounts& m) {
  const int64_t n_ctx = m.config.n_ctx;
  const FlopCounts parts = m.flop_parts(n_ctx);
  TextTable table{.columns = {"FLOPs per token", "forward", "share", "training"}};
  const auto row = [&](const std::string& label, double flops) {
    table.rows.push_back(
        {label, format_count(flops), format_percent(flops / parts.total()), format_count(3 * flops)});
  };
  row("attention, projections", parts.attention);
  row(fmt::format("attention, {} tokens", format_thousands(m.visible_keys(n_ctx))), parts.scores);
  row("MLP", parts.mlp);
  row("norms", parts.norms);
  row("head", parts.head);
  row("all", parts.total());
  return format_table(table) + fmt::format("decoding: {} for the first token, {} for the last of {}\n",
                                           format_count(m.decode_flops(0)),
                                           format_count(m.decode_flops(n_ctx - 1)), format_thousands(n_ctx));
}

std::string formats_table(const InfoSubject& s) {
  const InfoMemory m(s);
  TextTable table{
      .columns = {
          "inference", "sign/exponent/fraction", "largest", "weights", "KV cache per token",
          fmt::format("KV cache, {} x {} tokens", s.sequences, format_thousands(s.counts.config.n_ctx)), ""}};
  for (const NumberFormat& f : number_formats()) {
    const int64_t token = f.bytes * m.cache_values_per_token;
    table.rows.push_back(
        {std::string(f.name), fmt::format("{}/{}/{}", f.sign, f.exponent, f.mantissa),
         f.largest > 1e6 ? fmt::format("{:.1e}", f.largest) : fmt::format("{:.0f}", f.largest),
         format_bytes(m.weights(f.bytes)), format_bytes(token), format_bytes(token * m.cache_tokens),
         std::string(f.note)});
  }
  return format_table(table);
}

std::string training_table(const InfoSubject& s) {
  const InfoMemory m(s);
  TextTable table{
      .columns = {"training, Adam"},
      .rows = {{"weights"},
               {"gradients"},
               {"fp32 master weights"},
               {"moments"},
               {fmt::format("activations, {} x {}", s.batch, format_thousands(s.counts.config.n_ctx))},
               {"total"},
               {"activations with --recompute"},
               {"total with --recompute"}}};
  for (const TrainingFormat& f : training_formats()) {
    const TrainingState state = training_state(m.parameters, f);
    const int64_t activations = f.activation == 4 ? m.activations_fp32 : m.activations_16;
    const int64_t recomputed = f.activation == 4 ? m.recomputed_fp32 : m.recomputed_16;
    table.columns.emplace_back(f.name);
    const int64_t values[] = {state.weights, state.gradients,
                              state.master,  state.moments,
                              activations,   state.total() + activations,
                              recomputed,    state.total() + recomputed};
    for (size_t i = 0; i < std::size(values); ++i)
      table.rows[i].push_back(format_bytes(values[i]));
  }
  return format_table(table) +
         "autocast: fp32 weights, 16-bit activations (gpt train --dtype bf16); mixed: 16-bit weights and "
         "gradients\n";
}

std::string initial_loss(const ModelConfig& c) {
  const double loss = std::log(static_cast<double>(c.vocab_size));
  return fmt::format("a model that knows nothing has the loss ln {} = {:.4f}\n", c.vocab_size, loss);
}

// Every key with its final value, a line per group.
std::string describe_keys(const ModelConfig& config) {
  const json values = model_keys_json(config);
  std::string text, group;
  for (const KeyInfo& key : config_keys()) {
    if (!values.contains(key.name)) continue;
    if (key.group != group) text += fmt::format("{}{}:", group.empty() ? "" : "\n", key.group);
    group = key.group;
    const json& value = values[key.name];
    text += fmt::format("  {} {}", key.name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text + "\n";
}

}  // namespace

InfoMemory::InfoMemory(const InfoSubject& s)
    : parameters(s.counts.total),
      cache_values_per_token(s.counts.cache_bytes_per_token(1)),
      cache_tokens(s.sequences * s.counts.config.n_ctx) {
  const int64_t n_ctx = s.counts.config.n_ctx;
  activations_fp32 = s.counts.activation_bytes(s.batch, n_ctx, false);
  activations_16 = s.counts.activation_bytes(s.batch, n_ctx, false, DType::bf16);
  recomputed_fp32 = s.counts.activation_bytes(s.batch, n_ctx, true);
  recomputed_16 = s.counts.activation_bytes(s.batch, n_ctx, true, DType::bf16);
}

std::string zero_table(const InfoSubject& s) {
  static constexpr const char* kShared[] = {"nothing", "optimizer", "and gradients", "and weights"};
  const TrainingFormat& mixed = training_formats()[2];
  TextTable table{.columns = {fmt::format("ZeRO on {} devices", s.devices), "shared out", "weights",
                              "gradients", "optimizer", "total, mixed", "total, fp32"}};
  for (int stage = 0; stage < kZeroStages; ++stage) {
    const TrainingState state = training_state(s.counts.total, mixed, stage, s.devices);
    const TrainingState fp32 = training_state(s.counts.total, training_formats()[0], stage, s.devices);
    table.rows.push_back({fmt::format("stage {}", stage), kShared[stage], format_bytes(state.weights),
                          format_bytes(state.gradients), format_bytes(state.master + state.moments),
                          format_bytes(state.total()), format_bytes(fp32.total())});
  }
  return format_table(table) + "per device, without activations; optimizer: master weights and moments\n";
}

std::string describe_subject(const InfoSubject& s) {
  std::string text = s.name + "\n\n" + parameters_table(s.counts) + "\n" + flops_table(s.counts) + "\n" +
                     formats_table(s) + "\n" + training_table(s) + "\n";
  if (s.devices > 1) text += zero_table(s) + "\n";
  return text + initial_loss(s.counts.config) + "\n" + describe_keys(s.counts.config);
}

std::string schedule_table(const TrainConfig& c, const std::vector<int64_t>& steps) {
  constexpr int kWidth = 40;
  TextTable table{.columns = {"step", "learning rate", "of peak", ""}};
  for (const int64_t step : steps.empty() ? schedule_steps(c) : steps) {
    const double rate = learning_rate(c, step);
    table.rows.push_back({format_thousands(step), fmt::format("{:.6f}", rate),
                          format_percent(c.lr > 0 ? rate / c.lr : 0), schedule_bar(c, step, kWidth)});
  }
  return format_table(table) + fmt::format("{}, {} of them warm-up; peak {:g}, at the end {:g}\n",
                                           format_amount(c.steps, "step"), format_thousands(c.warmup), c.lr,
                                           c.min_lr);
}

}  // namespace gpt
