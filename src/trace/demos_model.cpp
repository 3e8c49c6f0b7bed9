// Demonstrations that run a model.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "model/inference.h"
#include "model/model_counts.h"
#include "model/params.h"
#include "model/presets.h"
#include "report/table.h"
#include "tensor/element.h"
#include "trace/capture.h"
#include "trace/demos.h"
#include "trace/views.h"

namespace gpt::detail {

ModelConfig preset_config(const std::string& name) {
  ModelConfig config;
  read_model_keys(preset(name), config);
  if (config.vocab_size == 0) config.vocab_size = 256;
  complete(config);
  return config;
}

std::string demo_identity(const DemoContext& context) {
  constexpr int64_t kZeroed = 1;
  Model model(preset_config("nanochat-demo"));
  const ParamBuffer weights(model.table, DType::f32, "weights");
  init_params(model.table, weights, 42);
  model.weights.assign(weights.views().begin(), weights.views().end());
  for (int id = 0; id < model.table.count(); ++id) {
    if (model.table[id].layer != kZeroed) continue;
    std::memset(weights[id].data, 0, static_cast<size_t>(weights[id].size()) * sizeof(float));
  }
  const std::vector<int32_t> ids = {42, 100, 256, 89};
  const Capture capture(model, context.backend, ids, {});
  TextTable table{.columns = {"step", "shape", "|x|", "|after - before|"}};
  const std::string shape = fmt::format("[1,{},{}]", ids.size(), model.config.n_embd);
  table.rows.push_back(
      {"embedding and norm", shape, fmt::format("{:.4f}", frobenius(capture.residual(0))), ""});
  for (int64_t layer = 0; layer < capture.n_layer(); ++layer) {
    const Change c = block_change(capture, layer).block;
    table.rows.push_back({fmt::format("block {}{}", layer + 1, layer == kZeroed ? ", all weights 0" : ""),
                          shape, fmt::format("{:.4f}", c.norm), fmt::format("{:.4f}", c.absolute)});
  }
  const TensorView before = capture.residual(kZeroed), after = capture.residual(kZeroed + 1);
  bool equal = true;
  for (int64_t r = 0; r < before.rows(); ++r) {
    for (int64_t c = 0; c < before.cols(); ++c)
      equal = equal && element(before, r, c) == element(after, r, c);
  }
  std::string out = fmt::format(
      "nanochat-demo, untrained (seed 42), ids 42 100 256 89; every weight of block {} is set to 0.\n",
      kZeroed + 1);
  out += format_table(table);
  out += fmt::format(
      "The output of block {} {} its input: with every weight 0 both sub-layers add\n"
      "exactly 0, and what remains is the residual connection. A model of such blocks alone is a\n"
      "placeholder: head(norm(embedding)).\n",
      kZeroed + 1, equal ? "equals, bit for bit," : "DIFFERS from");
  const Prediction last = predictions(capture, 5).back();
  out += "\nThe top 5 next tokens of this untrained model:\n";
  for (size_t i = 0; i < last.top.size(); ++i)
    out += fmt::format("{:>3}. Token {}: {:.2f} %\n", i + 1, last.top[i].id, 100 * last.top[i].probability);
  return out;
}

namespace {

std::string cache_rows(const std::string& name, const ModelConfig& config) {
  const ModelCounts counts(config);
  const int64_t per_token = counts.cache_bytes_per_token(2);
  std::string out =
      fmt::format("{}: 2 x {} blocks x {} heads x {} channels x 2 bytes (bf16) = {} per token\n", name,
                  config.n_layer, config.n_kv_head, config.head_dim, format_bytes(per_token));
  for (int64_t part = 1; part <= 4; ++part) {
    const int64_t tokens = config.n_ctx * part / 4;
    out += fmt::format("{:>9} tokens {:>9}  {}\n", format_thousands(tokens), format_bytes(per_token * tokens),
                       std::string(static_cast<size_t>(10 * part), '='));
  }
  return out;
}

}  // namespace

std::string demo_cache(const DemoContext& context) {
  std::string out =
      context.model != nullptr ? cache_rows("this model", context.model->model.config) + "\n" : "";
  out +=
      cache_rows("gpt2", preset_config("gpt2")) + "\n" + cache_rows("llama3-8b", preset_config("llama3-8b"));
  ModelConfig heads = preset_config("nanochat");
  TextTable table{.columns = {"key/value heads", "per token, bf16", "less than one per query head"}};
  const int64_t all = heads.n_head * heads.head_dim;
  for (const int64_t n : {heads.n_head, heads.n_head / 2, int64_t{1}}) {
    heads.n_kv_head = n;
    const ModelCounts counts(heads);
    table.rows.push_back({fmt::format("{}{}", n,
                                      n == 1              ? " (MQA)"
                                      : n == heads.n_head ? " (MHA)"
                                                          : " (GQA)"),
                          format_bytes(counts.cache_bytes_per_token(2)),
                          fmt::format("{} x", all / (n * heads.head_dim))});
  }
  return out + fmt::format("\nnanochat's {} query heads with fewer key/value heads\n", heads.n_head) +
         format_table(table) +
         "Without a cache every new token would need all earlier ones to be computed again: n^2 work instead "
         "of n.\n";
}

namespace {

// What follows the prompt's first `given` tokens when every prediction is fed back.
std::vector<int32_t> run_free(const DemoContext& context, size_t given) {
  const DemoModel& m = *context.model;
  Inference inference(m.model, context.backend, {.slots = 1, .max_rows = 64});
  const int64_t V = m.model.config.vocab_size;
  Buffer memory(static_cast<size_t>(V) * sizeof(float), "logits");
  const TensorView logits = make_view(memory.data(), DType::f32, {1, V});
  std::vector<int32_t> out, next(m.ids.begin(), m.ids.begin() + static_cast<std::ptrdiff_t>(given));
  while (given + out.size() < m.ids.size()) {
    const Inference::Append part{0, next};
    inference.append({&part, 1}, logits);
    out.push_back(predict(logits, 0, -1, 1).top.front().id);
    next.assign(1, out.back());
  }
  return out;
}

}  // namespace

std::string demo_forcing(const DemoContext& context) {
  const DemoModel& m = *context.model;
  if (m.ids.size() < 2) return "This one needs a prompt of two tokens or more.\n";
  const size_t given = std::max<size_t>(1, m.ids.size() / 2);
  const Capture capture(m.model, context.backend, m.ids, {});
  const std::vector<Prediction> forced = predictions(capture, 1);
  const std::vector<int32_t> free = run_free(context, given);
  TextTable table{.columns = {"pos", "the text", "teacher-forced", "", "free-running", ""}};
  int64_t forced_right = 0, free_right = 0;
  for (size_t t = given; t < m.ids.size(); ++t) {
    const int32_t truth = m.ids[t], taught = forced[t - 1].top.front().id, alone = free[t - given];
    forced_right += taught == truth;
    free_right += alone == truth;
    table.rows.push_back({std::to_string(t), m.names.quoted(truth, 16), m.names.quoted(taught, 16),
                          taught == truth ? "=" : "", m.names.quoted(alone, 16), alone == truth ? "=" : ""});
  }
  const size_t n = m.ids.size() - given;
  return fmt::format(
             "The first {} tokens are given. Teacher-forced, every prediction reads the true text before it, "
             "as in\n"
             "training; free-running, it reads the model's own earlier predictions, as in generation.\n",
             given) +
         format_table(table) +
         fmt::format(
             "{} of {} right with the true text before it, {} of {} left to itself: errors feed on errors\n"
             "(exposure bias).\n",
             forced_right, n, free_right, n);
}

}  // namespace gpt::detail
