// Demonstrations that run a model.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
#include "trace/torch_random.h"
#include "trace/views.h"

namespace gpt::detail {
namespace {

constexpr uint32_t kSeed = 100;
constexpr int64_t kBatch = 2, kTokens = 4;
// Token ids of "Every effort moves you" and "Every day holds a" in the GPT-2 vocabulary.
constexpr int32_t kIds[kBatch * kTokens] = {6109, 3626, 6100, 345, 6109, 1110, 6622, 257};

ModelConfig skeleton_config() {
  ModelConfig config = complete_preset("gpt2-scratch");
  config.n_layer = 0;
  config.final_norm = false;
  return config;
}

// A model that consists only of embedding and head, with the same initial weights as in PyTorch.
class Skeleton {
 public:
  explicit Skeleton(const DemoContext& context)
      : context_(context),
        model_(skeleton_config()),
        weights_(model_.table, DType::f32, "weights"),
        random_(kSeed) {
    model_.weights.assign(weights_.views().begin(), weights_.views().end());
    random_.normal(floats(weights_[model_.table.find(Role::wte)]));
    random_.normal(floats(weights_[model_.table.find(Role::wpe)]));
    const float bound = static_cast<float>(1 / std::sqrt(static_cast<double>(model_.config.n_embd)));
    random_.uniform(floats(weights_[model_.table.find(Role::head_weight)]), -bound, bound);
  }

  int64_t vocabulary() const { return model_.config.vocab_size; }
  int64_t parameters() const { return model_.table.total(); }

  // Returns a table with the first three and the last three logits of every token. The dropout mask uses the
  // next numbers of the random generator that created the weights.
  std::string logit_rows(bool dropout) {
    TextTable table{.columns = {"", "token", "first three logits", "", "", "last three logits", "", ""}};
    for (int64_t text = 0; text < kBatch; ++text) {
      const auto ids = std::span(kIds).subspan(static_cast<size_t>(text * kTokens), kTokens);
      Capture capture(model_, context_.backend, ids, {});
      if (dropout) {
        drop(capture.residual(0));
        capture.read_out(capture.residual(0), capture.logits());
      }
      for (int64_t t = 0; t < kTokens; ++t) {
        std::vector<std::string> row = {fmt::format("[{},{}]", text, t),
                                        std::to_string(ids[static_cast<size_t>(t)])};
        for (const int64_t at :
             {int64_t{0}, int64_t{1}, int64_t{2}, vocabulary() - 3, vocabulary() - 2, vocabulary() - 1})
          row.push_back(fixed(capture.logits().row<float>(t)[at], 4));
        table.rows.push_back(row);
      }
    }
    return format_table(table);
  }

 private:
  static std::span<float> floats(const TensorView& view) {
    return {view.row<float>(0), static_cast<size_t>(view.size())};
  }

  void drop(const TensorView& stream) {
    const double keep = 1 - model_.config.embd_dropout;
    const std::vector<bool> kept = random_.bernoulli(stream.size(), keep);
    for (size_t i = 0; i < kept.size(); ++i)
      floats(stream)[i] *= kept[i] ? static_cast<float>(1 / keep) : 0;
  }

  const DemoContext& context_;
  Model model_;
  ParamBuffer weights_;
  TorchRandom random_;
};

}  // namespace

ModelConfig complete_preset(const std::string& name) {
  ModelConfig config = preset_config(name);
  if (config.vocab_size == 0) config.vocab_size = 256;
  complete(config);
  return config;
}

std::string demo_identity(const DemoContext& context) {
  constexpr int64_t kZeroed = 1;
  Model model(complete_preset("nanochat-demo"));
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
  table.rows.push_back({"embedding and norm", shape, fixed(frobenius(capture.residual(0)), 4), ""});
  for (int64_t layer = 0; layer < capture.n_layer(); ++layer) {
    const Change c = block_change(capture, layer).block;
    table.rows.push_back({fmt::format("block {}{}", layer + 1, layer == kZeroed ? ", all weights 0" : ""),
                          shape, fixed(c.norm, 4), fixed(c.absolute, 4)});
  }
  const TensorView before = capture.residual(kZeroed), after = capture.residual(kZeroed + 1);
  bool equal = true;
  for (int64_t r = 0; r < before.rows(); ++r) {
    for (int64_t c = 0; c < before.cols(); ++c)
      equal = equal && element(before, r, c) == element(after, r, c);
  }
  std::string out = fmt::format(
      "nanochat-demo, untrained (seed 42), ids 42 100 256 89; all weights of block {} are set to 0.\n",
      kZeroed + 1);
  out += format_table(table);
  out += fmt::format(
      "The output of block {} {} its input: with all weights 0, both sub-layers add\n"
      "exactly 0, and only the residual connection remains. A model that consists of such blocks\n"
      "computes only head(norm(embedding)).\n",
      kZeroed + 1, equal ? "is bit-identical to" : "DIFFERS from");
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
  out += cache_rows("gpt2", complete_preset("gpt2")) + "\n" +
         cache_rows("llama3-8b", complete_preset("llama3-8b"));
  ModelConfig heads = complete_preset("nanochat");
  TextTable table{.columns = {"KV heads", "per token, bf16", "reduction vs. MHA"}};
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
  return out + fmt::format("\nnanochat ({} query heads) with fewer KV heads\n", heads.n_head) +
         format_table(table) +
         "Without a KV cache, each new token recomputes all earlier tokens: n^2 work instead of n.\n";
}

namespace {

// Generates a greedy continuation of the first `given` prompt tokens until it has the length of the prompt.
// Each predicted token is the input of the next step.
std::vector<int32_t> run_free(const DemoContext& context, size_t given) {
  const DemoModel& m = *context.model;
  Inference inference(m.model, context.backend, {.slots = 1, .max_rows = std::ssize(m.ids)});
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
  if (m.ids.size() < 2) return "This demonstration requires a prompt of at least 2 tokens.\n";
  const size_t given = std::max<size_t>(1, m.ids.size() / 2);
  const Capture capture(m.model, context.backend, m.ids, {});
  const std::vector<Prediction> forced = predictions(capture, 1);
  const std::vector<int32_t> free = run_free(context, given);
  TextTable table{.columns = {"pos", "actual token", "teacher-forced", "", "free-running", ""}};
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
             "The first {} tokens are given. Teacher-forced predictions use the actual earlier tokens, as\n"
             "in training. Free-running predictions use the model's own predictions, as in generation.\n",
             given) +
         format_table(table) +
         fmt::format(
             "{} of {} teacher-forced and {} of {} free-running predictions are correct. A wrong\n"
             "free-running prediction causes further errors (exposure bias).\n",
             forced_right, n, free_right, n);
}

std::string demo_skeleton(const DemoContext& context) {
  Skeleton skeleton(context);
  std::string out = fmt::format(
      "gpt2-scratch with n_layer 0 and final_norm false: embedding, dropout, head; {} parameters.\n"
      "Weights and dropout masks are the same as in PyTorch with seed {}. ids [2,4] -> logits [{},{},{}]\n\n",
      format_thousands(skeleton.parameters()), kSeed, kBatch, kTokens, skeleton.vocabulary());
  out += "In training mode, the default after creation, with dropout 0.1:\n" + skeleton.logit_rows(true);
  out += "\nIn evaluation mode, without dropout:\n" + skeleton.logit_rows(false);
  return out +
         "[0,0] and [1,0] are the same token at the same position, and no other token affects them:\n"
         "without dropout, their logits are equal.\n";
}

}  // namespace gpt::detail
