// A model of placeholders, as the chapter "GPT-2 from scratch" starts it, with the numbers that it prints.

#include <fmt/format.h>

#include <cmath>

#include "base/format.h"
#include "model/params.h"
#include "report/table.h"
#include "trace/demos.h"
#include "trace/torch_random.h"

namespace gpt::detail {
namespace {

constexpr uint32_t kSeed = 100;
constexpr int64_t kBatch = 2, kTokens = 4, kRows = kBatch * kTokens;
// "Every effort moves you" and "Every day holds a" in GPT-2's tokens.
constexpr int32_t kIds[kRows] = {6109, 3626, 6100, 345, 6109, 1110, 6622, 257};
constexpr int32_t kPositions[kRows] = {0, 1, 2, 3, 0, 1, 2, 3};

ModelConfig skeleton_config() {
  ModelConfig config = preset_config("gpt2-scratch");
  config.n_layer = 0;
  config.final_norm = false;
  return config;
}

// Embedding and head of the skeleton with PyTorch's starting values, and what they make of the batch.
class Skeleton {
 public:
  Skeleton(const DemoContext& context)
      : context_(context),
        model_(skeleton_config()),
        weights_(model_.table, DType::f32, "weights"),
        memory_(static_cast<size_t>(kRows * (width() + vocabulary())) * sizeof(float), "logits"),
        stream_(make_view(memory_.data(), DType::f32, {kRows, width()})),
        logits_(make_view(memory_.data() + kRows * width() * static_cast<int64_t>(sizeof(float)), DType::f32,
                          {kRows, vocabulary()})),
        workspace_(context.backend.kernels.linear_scratch(kRows, vocabulary(), width(), DType::f32, false),
                   context.backend.pool.size()),
        random_(kSeed) {
    model_.weights.assign(weights_.views().begin(), weights_.views().end());
    random_.normal(floats(Role::wte));
    random_.normal(floats(Role::wpe));
    const float bound = static_cast<float>(1 / std::sqrt(static_cast<double>(width())));
    random_.uniform(floats(Role::head_weight), -bound, bound);
  }

  int64_t width() const { return model_.config.n_embd; }
  int64_t vocabulary() const { return model_.config.vocab_size; }
  int64_t parameters() const { return model_.table.total(); }

  // Logits [8,V] of the batch; dropout draws on.
  TensorView logits(bool dropout) {
    const ExecContext ctx = context_.backend.context(workspace_.scratch());
    Pass pass{.ctx = ctx, .config = model_.config, .weights = model_.weights};
    pass.batch = {.rows = kRows, .ids = kIds, .positions = kPositions, .seqs = {}};
    pass.packed = model_.packed.get();
    EmbeddingActs acts;
    model_.layers.embedding.forward(pass, acts, stream_);
    if (dropout) drop();
    model_.layers.head.logits(pass, stream_, logits_);
    return logits_;
  }

 private:
  std::span<float> floats(Role role) {
    const TensorView view = weights_[model_.table.find(role)];
    return {view.row<float>(0), static_cast<size_t>(view.size())};
  }

  void drop() {
    const double keep = 1 - model_.config.embd_dropout;
    const std::vector<bool> kept = random_.bernoulli(stream_.size(), keep);
    float* x = stream_.row<float>(0);
    for (size_t i = 0; i < kept.size(); ++i)
      x[i] = kept[i] ? x[i] * static_cast<float>(1 / keep) : 0;
  }

  const DemoContext& context_;
  Model model_;
  ParamBuffer weights_;
  Buffer memory_;
  TensorView stream_, logits_;
  Workspace workspace_;
  TorchRandom random_;
};

// The first and the last three logits of every token.
std::string logit_rows(const TensorView& logits) {
  TextTable table{.columns = {"", "token", "first three", "", "", "last three", "", ""}};
  for (int64_t n = 0; n < kRows; ++n) {
    std::vector<std::string> row = {fmt::format("[{},{}]", n / kTokens, n % kTokens),
                                    std::to_string(kIds[n])};
    for (const int64_t at :
         {int64_t{0}, int64_t{1}, int64_t{2}, logits.cols() - 3, logits.cols() - 2, logits.cols() - 1})
      row.push_back(fmt::format("{:.4f}", logits.row<float>(n)[at]));
    table.rows.push_back(row);
  }
  return format_table(table);
}

}  // namespace

std::string demo_skeleton(const DemoContext& context) {
  Skeleton skeleton(context);
  std::string out = fmt::format(
      "gpt2-scratch with n_layer 0 and final_norm false: embedding, dropout, head; {} parameters.\n"
      "Weights and dropout are those of PyTorch's seed {}. ids [2,4] -> logits [{},{},{}]\n\n",
      format_thousands(skeleton.parameters()), kSeed, kBatch, kTokens, skeleton.vocabulary());
  out +=
      "As it is after it was made, in training mode, dropout 0.1 on:\n" + logit_rows(skeleton.logits(true));
  out += "\nIn evaluation mode, dropout off:\n" + logit_rows(skeleton.logits(false));
  return out +
         "[0,0] and [1,0] are the same token at the same position, and nothing else is looked at: without\n"
         "dropout their logits are the same.\n";
}

}  // namespace gpt::detail
