#include "info_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/format.h"
#include "base/ranges.h"
#include "io/tensor_info.h"
#include "model/model.h"
#include "model/model_counts.h"
#include "report/table.h"
#include "train/schedule.h"

namespace gpt {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FlopCounts, attention, scores, mlp, norms, head)

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
  const int64_t window = m.config.sliding_window;
  row(fmt::format("attention, {} tokens", format_thousands(window > 0 ? std::min(n_ctx, window) : n_ctx)),
      parts.scores);
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
    table.rows.push_back({std::string(f.name), fmt::format("{}/{}/{}", f.sign, f.exponent, f.mantissa),
                          f.largest > 1e6 ? fmt::format("{:.1e}", f.largest) : fixed(f.largest, 0),
                          format_bytes(m.weights(f.bytes)), format_bytes(token),
                          format_bytes(token * m.cache_tokens), std::string(f.note)});
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
  return fmt::format("an untrained model has the loss ln {} = {:.4f}\n", c.vocab_size, loss);
}

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
  return {{"n_ctx", n_ctx},
          {"forward", m.forward_flops(n_ctx)},
          {"training", m.training_flops(n_ctx)},
          {"decode_first", m.decode_flops(0)},
          {"decode_last", m.decode_flops(n_ctx - 1)},
          {"parts", m.flop_parts(n_ctx)}};
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

// The figures of fp32 are at the top level. Those of all formats are below "formats".
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
  const auto rows = transformed(schedule_steps(c), [&](int64_t step) {
    return json{{"step", step}, {"lr", learning_rate(c, step)}};
  });
  return {{"steps", c.steps}, {"warmup", c.warmup}, {"lr", c.lr}, {"min_lr", c.min_lr}, {"rows", rows}};
}

std::string with_share(int64_t part, int64_t whole) {
  return fmt::format("{}  {:>6}", format_thousands(part), share(part, whole));
}

// A row of a comparison: a label, and a function that returns the cell of a model.
using Row = std::pair<std::string, std::function<std::string(const InfoSubject&)>>;

// Returns the keys in which the models differ.
std::vector<Row> differences(const std::vector<InfoSubject>& subjects) {
  std::vector<Row> rows;
  for (const std::string& key : model_key_names()) {
    const auto value = [key](const InfoSubject& s) -> std::string {
      const ModelConfig& c = s.counts.config;
      if (key.starts_with("rope_") && c.position != Position::rope) return "-";
      const json all = model_keys_json(c);
      return all[key].is_string() ? all[key].get<std::string>() : all[key].dump();
    };
    std::set<std::string> values;
    for (const InfoSubject& s : subjects)
      values.insert(value(s));
    values.erase("-");  // a key that does not apply to a model is not a difference
    if (values.size() > 1) rows.emplace_back(key, value);
  }
  return rows;
}

std::vector<Row> figures() {
  return {
      {"total", [](const InfoSubject& s) { return with_share(s.counts.total, s.counts.total); }},
      {"12 L C^2", [](const InfoSubject& s) { return with_share(s.counts.rule_of_thumb, s.counts.total); }},
      {"per layer", [](const InfoSubject& s) { return with_share(s.counts.per_layer, s.counts.total); }},
      {"FLOPs per token, forward",
       [](const InfoSubject& s) { return format_count(s.counts.forward_flops(s.counts.config.n_ctx)); }},
      {"FLOPs per token, training",
       [](const InfoSubject& s) { return format_count(s.counts.training_flops(s.counts.config.n_ctx)); }},
      {"FLOPs of the first decoded token",
       [](const InfoSubject& s) { return format_count(s.counts.decode_flops(0)); }},
      {"loss at the start, ln V",
       [](const InfoSubject& s) {
         return fixed(std::log(static_cast<double>(s.counts.config.vocab_size)), 4);
       }},
      {"weights, bf16", [](const InfoSubject& s) { return format_bytes(2 * s.counts.total); }},
      {"KV cache per token, bf16",
       [](const InfoSubject& s) { return format_bytes(s.counts.cache_bytes_per_token(2)); }},
      {"full KV cache, bf16",
       [](const InfoSubject& s) {
         return format_bytes(s.counts.cache_bytes_per_token(2) * s.sequences * s.counts.config.n_ctx);
       }},
      {"batch", [](const InfoSubject& s) { return format_thousands(s.batch); }},
      {"activations, fp32",
       [](const InfoSubject& s) { return format_bytes(InfoMemory(s).activations_fp32); }},
      {"training, Adam, fp32",
       [](const InfoSubject& s) {
         return format_bytes(training_state(s.counts.total, training_formats()[0]).total() +
                             InfoMemory(s).activations_fp32);
       }},
  };
}

std::string dims(std::initializer_list<int64_t> sizes) {
  return fmt::format("{}", fmt::join(transformed(sizes, format_thousands), " x "));
}

std::string name_of(const ModelConfig& c, const char* key) {
  return model_keys_json(c)[key].get<std::string>();
}

std::string components_text(const ModelConfig& c) {
  const std::string norm = name_of(c, "norm") == "rms" ? "RMS norm" : "layer norm";
  const bool gated = c.is_gated();
  std::string heads = fmt::format("{} of {}", format_amount(c.n_head, "head"), c.head_dim);
  if (c.n_kv_head != c.n_head)
    heads += fmt::format(", {} for keys and values ({})", c.n_kv_head, c.n_kv_head == 1 ? "MQA" : "GQA");
  std::string text = "components\n";
  text += fmt::format("  embedding  {}{}\n", dims({c.vocab_size, c.n_embd}), c.embd_norm ? ", " + norm : "");
  text += fmt::format("  positions  {}\n", c.position == Position::learned
                                               ? "learned, " + dims({c.n_ctx, c.n_embd})
                                               : fmt::format("rotary, theta {:g}", c.rope_theta));
  text += fmt::format("  blocks     {}, {} {} each part\n", c.n_layer, norm,
                      c.norm_position == NormPosition::pre ? "before" : "after");
  text += fmt::format("  attention  {}{}\n", heads, c.qk_norm ? ", norm of queries and keys" : "");
  text +=
      fmt::format("  MLP        {} -> {} -> {}, {}{}\n", format_thousands(c.n_embd), format_thousands(c.d_ff),
                  format_thousands(c.n_embd), name_of(c, "act"), gated ? " (gated)" : "");
  return text + fmt::format("  head       {}, {}{}\n", dims({c.n_embd, c.vocab_size}),
                            c.tie_embeddings ? "the embedding again" : "a separate matrix",
                            c.logit_softcap > 0 ? fmt::format(", soft cap {:g}", c.logit_softcap) : "");
}

std::string flow_text(const ModelConfig& c) {
  const bool pre = c.norm_position == NormPosition::pre;
  return fmt::format(
      "data flow\n  ids [B,T] -> x [B,T,{0}] -> {1} times: {2} -> {3}logits [B,T,{4}]\n", c.n_embd, c.n_layer,
      pre ? "x + attention(norm(x)), x + MLP(norm(x))" : "norm(x + attention(x)), norm(x + MLP(x))",
      c.final_norm ? "norm -> " : "", c.vocab_size);
}

std::string formulas_text(const ModelCounts& m) {
  const ModelConfig& c = m.config;
  const auto count = [&](Component component) {
    for (const ComponentCount& k : m.components) {
      if (k.component == component) return k;
    }
    return ComponentCount{};
  };
  std::string text = "parameters\n";
  const auto line = [&](const char* label, const std::string& formula, int64_t n) {
    if (n > 0) text += fmt::format("  {:<11}{:<34} {:>18}\n", label, formula, format_thousands(n));
  };
  const bool gated = c.is_gated();
  line("embedding", "V C", count(Component::token_embedding).total);
  line("positions", "T C", count(Component::position_embedding).total);
  line("attention", fmt::format("L ((2 H + 2 Hkv) D C{})", c.qkv_bias || c.out_bias ? " + biases" : ""),
       count(Component::attention).total);
  line("MLP", fmt::format("L ({} C F{})", gated ? 3 : 2, c.mlp_bias ? " + biases" : ""),
       count(Component::mlp).total);
  line("norms", "gains and biases", count(Component::norm).total + count(Component::final_norm).total);
  line("head", c.head_bias ? "V C + bias" : "V C", count(Component::head).total);
  line("total", "", m.total);
  line("layers", "about 12 L C^2", m.rule_of_thumb);
  return text;
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

std::string tensor_table(const InfoSubject& s) {
  const Model model(s.counts.config);
  TextTable table{.columns = {"parameter", "shape", "numbers"}};
  for (int id = 0; id < model.table.count(); ++id) {
    const ParamSpec& p = model.table[id];
    int64_t numbers = 1;
    for (const int64_t n : p.shape)
      numbers *= n;
    table.rows.push_back({p.name, shape_string(p.shape), format_thousands(numbers)});
  }
  return format_table(table);
}

// Formats "stored as q8_0 93.1 %, fp32 6.9 %; 23.4 KiB".
std::string stored_line(const InfoSubject& s) {
  if (s.stored.empty()) return "";
  double all = 0;
  for (const auto& [dtype, bytes] : s.stored)
    all += static_cast<double>(bytes);
  const auto types = transformed(s.stored, [&](const auto& type) {
    return fmt::format("{} {}", dtype_name(type.first),
                       format_percent(static_cast<double>(type.second) / all));
  });
  return fmt::format("stored as {}; {}\n", fmt::join(types, ", "), format_bytes(all));
}

json stored_json(const InfoSubject& s) {
  json types = json::object();
  for (const auto& [dtype, bytes] : s.stored)
    types[std::string(dtype_name(dtype))] = bytes;
  return types;
}

std::string describe_subject(const InfoSubject& s) {
  std::string text = s.name + "\n" + stored_line(s) + "\n" + parameters_table(s.counts) + "\n" +
                     flops_table(s.counts) + "\n" + formats_table(s) + "\n" + training_table(s) + "\n";
  if (s.devices > 1) text += zero_table(s) + "\n";
  return text + initial_loss(s.counts.config) + "\n" + describe_keys(model_keys_json(s.counts.config), 0);
}

std::string schedule_table(const TrainConfig& c, const std::vector<int64_t>& steps) {
  constexpr int kWidth = 40;
  TextTable table{.columns = {"step", "learning rate", "of peak", ""}};
  for (const int64_t step : steps.empty() ? schedule_steps(c) : steps) {
    const double rate = learning_rate(c, step);
    table.rows.push_back({format_thousands(step), fixed(rate, 6), format_percent(c.lr > 0 ? rate / c.lr : 0),
                          schedule_bar(c, step, kWidth)});
  }
  return format_table(table) + fmt::format("{}, including {} warm-up; peak {:g}, final {:g}\n",
                                           format_amount(c.steps, "step"), format_thousands(c.warmup), c.lr,
                                           c.min_lr);
}

json subject_json(const InfoSubject& s) {
  const InfoMemory m(s);
  return {{"name", s.name},
          {"config", model_keys_json(s.counts.config)},
          {"vocab_size_assumed", s.assumed_vocab},
          {"parameters", parameters_json(s.counts)},
          {"flops_per_token", flops_json(s.counts)},
          {"initial_loss", std::log(static_cast<double>(s.counts.config.vocab_size))},
          {"memory_bytes", {{"inference", inference_json(m, s)}, {"training", training_json(m, s)}}},
          {"stored_bytes", stored_json(s)},
          {"schedule", schedule_json(s.train)}};
}

std::string compare_subjects(const std::vector<InfoSubject>& subjects) {
  std::vector<Row> rows = differences(subjects);
  for (size_t i = 0; i < subjects.front().counts.components.size(); ++i) {
    rows.emplace_back(subjects.front().counts.components[i].label, [i](const InfoSubject& s) {
      return with_share(s.counts.components[i].total, s.counts.total);
    });
  }
  std::ranges::move(figures(), std::back_inserter(rows));
  TextTable table{.columns = {""}};
  for (const InfoSubject& s : subjects)
    table.columns.push_back(s.name);
  for (const auto& [label, cell] : rows) {
    table.rows.push_back({label});
    for (const InfoSubject& s : subjects)
      table.rows.back().push_back(cell(s));
  }
  return format_table(table);
}

std::string quick_reference(const InfoSubject& s) {
  const ModelCounts& m = s.counts;
  const ModelConfig& c = m.config;
  std::string text = s.name + "\n" + components_text(c) + flow_text(c) + formulas_text(m);
  text += fmt::format("computing\n  per token  {} FLOPs forward, {} training, at {} tokens of context\n",
                      format_count(m.forward_flops(c.n_ctx)), format_count(m.training_flops(c.n_ctx)),
                      format_thousands(c.n_ctx));
  text += fmt::format("memory\n  weights    {} fp32, {} bf16\n  KV cache   {} per token, {} in full, bf16\n",
                      format_bytes(4 * m.total), format_bytes(2 * m.total),
                      format_bytes(m.cache_bytes_per_token(2)),
                      format_bytes(m.cache_bytes_per_token(2) * c.n_ctx));
  text +=
      fmt::format("  training   {} for weights, gradients and moments, fp32\n", format_bytes(16 * m.total));
  return text + fmt::format("loss at the start\n  ln {} = {:.4f}\n", c.vocab_size,
                            std::log(static_cast<double>(c.vocab_size)));
}

}  // namespace gpt
