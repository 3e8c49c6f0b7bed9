#include "finetune/dpo.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "data/token_hash.h"
#include "data/unknown_tokens.h"
#include "distributed/shares.h"
#include "finetune/example_order.h"
#include "finetune/json_lines.h"
#include "finetune/prompts.h"
#include "finetune/shared_examples.h"
#include "finetune/tune_config.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/head_loss.h"
#include "tensor/device.h"

namespace gpt {

void Preferences::plan(Planner& planner, const ModelConfig& c, std::deque<TensorView>& memory) const {
  HeadLoss::plan(planner, c, memory);
  planner.reserve(memory.emplace_back(), "response weights", {planner.rows()}, DType::f32);
  planner.reserve(memory.emplace_back(), "losses of the gradient pass", {planner.rows()}, DType::f64);
}

double Preferences::weight(const TrainBatch&, int64_t rows) const {
  const int64_t pairs = rows / (2 * n_ctx_);
  return static_cast<double>(pairs);
}

void Preferences::run(const ObjectiveCall& call) const {
  GPT_ASSERT(call.targets.weights && call.targets.labels);
  HeadLoss::run(call, call.memory[0], call.targets.weights, false);
  const DeviceSpan<float> weights = device_span<float>(call.memory[1]);
  call.pass.ctx.kernels.preference(call.pass.ctx, {.losses = device_span<double>(call.losses),
                                                   .reference = call.targets.labels,
                                                   .mask = call.targets.weights,
                                                   .weights = weights,
                                                   .n_ctx = n_ctx_,
                                                   .beta = beta_,
                                                   .smoothing = smoothing_});
  if (call.backward == nullptr) return;
  ObjectiveCall gradient = call;
  gradient.losses = call.memory[2];
  HeadLoss::run(gradient, call.memory[0], weights, true);
}

namespace {

// Metadata key for the checksum of the reference log-probabilities.
constexpr const char* kChecksum = "checksum";

using Json = nlohmann::ordered_json;

// Stores the two responses to a prompt. Each example contains the prompt and the response, and the tokens of
// the response have weight 1.
struct Pair {
  ChatExample chosen, rejected;
};

size_t first_counted(const ChatExample& example) {
  return static_cast<size_t>(std::ranges::find(example.weights, uint8_t{1}) - example.weights.begin());
}

// Makes both responses start at the same token. The tokenizer may merge the end of the prompt with the start
// of one response, so that this response starts one token earlier. The other response is then extended to
// start at the same position, so that both log-probabilities are conditioned on the same prompt.
void start_together(Pair& pair) {
  const size_t begin = std::min(first_counted(pair.chosen), first_counted(pair.rejected));
  if (!std::equal(pair.chosen.ids.begin(), pair.chosen.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                  pair.rejected.ids.begin()))
    return;
  for (ChatExample* example : {&pair.chosen, &pair.rejected})
    std::fill(example->weights.begin() + static_cast<std::ptrdiff_t>(begin),
              example->weights.begin() + static_cast<std::ptrdiff_t>(first_counted(*example)), uint8_t{1});
}

// Encodes the columns of a JSON line as tokens.
class PairReader {
 public:
  explicit PairReader(const TaskSources& s)
      : prompts_(s), most_(s.config.n_ctx > 0 ? s.config.n_ctx : s.model.n_ctx) {}

  Pair read(const Json& line, const std::string& place) const {
    const Columns columns = columns_of(line, place);
    const auto encoded = [&](const Json& response) {
      ChatExample example = prompts_.response(columns.prompt, response, line, place);
      require_fits(example, place);
      return example;
    };
    Pair pair{encoded(columns.chosen), encoded(columns.rejected)};
    if (pair.chosen.ids == pair.rejected.ids) fail("{}: \"chosen\" and \"rejected\" are the same", place);
    start_together(pair);
    return pair;
  }
  ChatTemplates templates() const { return prompts_.templates(); }
  std::string note() const { return prompts_.note(); }

 private:
  struct Columns {
    Json prompt, chosen, rejected;
  };
  // Returns the columns in TRL's format. If both responses are whole conversations, their last messages
  // become the responses, and the messages before them become the prompt.
  static Columns columns_of(const Json& line, const std::string& place) {
    Columns c{line.value("prompt", Json()), line.value("chosen", Json()), line.value("rejected", Json())};
    const auto is_long = [](const Json& x) { return x.is_array() && x.size() > 1; };
    if (is_long(c.chosen) && is_long(c.rejected) && !c.prompt.is_array()) {
      const Json last = take_last(c.chosen), worse = take_last(c.rejected);
      if (c.chosen != c.rejected)
        fail("{}: expected \"chosen\" and \"rejected\" to differ only in their last messages", place);
      return {c.chosen, Json::array({last}), Json::array({worse})};
    }
    require_members(line, {"prompt", "chosen", "rejected"}, "dpo", place);
    if (c.prompt.is_string() && (c.chosen.is_array() || c.rejected.is_array()))
      fail(
          "{}: \"prompt\" is a string, but a response is a list of messages; write both as lists of messages",
          place);
    return c;
  }
  static Json take_last(Json& list) {
    const Json last = list.back();
    list.erase(list.size() - 1);
    return last;
  }

  void require_fits(const ChatExample& example, const std::string& place) const {
    if (std::ssize(example.ids) <= most_ + 1) return;
    fail(
        "{}: prompt and response have {} tokens, more than the {} tokens of a sample; shorten them, or set "
        "`skip_bad`",
        place, example.ids.size(), most_);
  }

  PromptEncoder prompts_;
  int64_t most_;
};

struct Pairs {
  std::vector<Pair> pairs;
  std::string note;  // a line about skipped lines, or ""
};

Pairs read_pairs(const PairReader& reader, const std::vector<std::string>& files, bool skip_bad) {
  Pairs out;
  const SkippedLines skipped = for_each_json_line(
      files, skip_bad,
      [&](const Json& line, const std::string& place) { out.pairs.push_back(reader.read(line, place)); });
  if (out.pairs.empty()) fail_without_examples(files, skipped);
  out.note = skipped.note();
  return out;
}

class DpoTask : public Task {
 public:
  explicit DpoTask(const TaskSources& s) : tokenizer_(s.tokenizer), config_(s.config), out_(s.out) {
    const TrainConfig& c = s.config.train();
    const PairReader reader(s);
    Pairs all = read_pairs(reader, c.data, s.config.skip_bad);
    notes_ = all.note + reader.note();
    templates_ = reader.templates();
    train_ = std::move(all.pairs);
    if (c.val_data.empty()) {
      hold_out(train_, val_, c.val_fraction);
    } else {
      Pairs held = read_pairs(reader, c.val_data, s.config.skip_bad);
      notes_ += held.note;
      val_ = std::move(held.pairs);
    }
    n_ctx_ = 0;
    for (const auto* part : {&train_, &val_}) {
      for (const Pair& pair : *part)
        n_ctx_ = std::max({n_ctx_, std::ssize(pair.chosen.ids) - 1, std::ssize(pair.rejected.ids) - 1});
    }
    n_ctx_ = std::min((n_ctx_ + 7) / 8 * 8, s.model.n_ctx);
    objective_ = std::make_unique<Preferences>(n_ctx_, s.config.beta);
  }

  const Objective& objective() const override { return *objective_; }
  int64_t samples() const override { return 2 * std::ssize(train_); }
  void set_batch_size(int64_t samples) override { batch_size_ = samples; }
  int64_t n_ctx() const override { return n_ctx_; }
  bool takes_adapter() const override { return true; }
  bool evaluates() const override { return !val_.empty(); }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }

  void begin(const Model& model, const Backend& backend, bool resumed) override {
    const std::string path = out_ + "/reference.safetensors";
    if (!resumed) {
      const std::vector<double> all = answer_logprobs(model, backend, [] { return false; }).value();
      reference_.assign(all.begin(), all.end());
      if (processes->rank() == 0) write_reference(path);
      return;
    }
    const SafetensorsFile file(path);
    const TensorInfo* tensor = file.find("logprobs");
    const size_t n = 2 * (train_.size() + val_.size());
    if (tensor == nullptr || tensor->dtype != DType::f32 || tensor->bytes.size() != n * sizeof(float))
      fail("{}: expected the log-probabilities of {} responses", path, n);
    const auto recorded = file.metadata().find(kChecksum);  // files of earlier versions have no checksum
    const std::string_view bytes(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size());
    if (recorded != file.metadata().end() && recorded->second != hex_hash(bytes))
      fail("cannot resume: {} is damaged: its checksum is {}, expected {}; restore the file", path,
           hex_hash(bytes), recorded->second);
    reference_.resize(n);
    std::memcpy(reference_.data(), tensor->bytes.data(), tensor->bytes.size());
  }

  void fill(int64_t step, int64_t first, int64_t rows, const TrainStep::Samples& s) const override {
    const ExampleOrder order(std::ssize(train_), static_cast<uint64_t>(config_.train().seed));
    const int64_t begin = step * batch_size_ + first;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t pair = order((begin + row) / 2), which = (begin + row) % 2;
      write(answer(2 * pair + which), row, s);
      s.labels[row] = reference_[static_cast<size_t>(2 * pair + which)];
    }
  }

  std::optional<TaskScore> evaluate(const Model& model, const Backend& backend,
                                    const std::function<bool()>& interrupted) const override {
    const size_t first = 2 * train_.size();
    const auto now = answer_logprobs(model, backend, interrupted, static_cast<int64_t>(first));
    if (!now) return std::nullopt;
    double loss = 0, right = 0, margins = 0;
    const auto n = static_cast<double>(val_.size());
    for (size_t i = 0; i < val_.size(); ++i) {
      const auto beyond = [&](size_t which) {
        return (*now)[2 * i + which] - double{reference_[first + 2 * i + which]};
      };
      const double margin = config_.beta * (beyond(0) - beyond(1));
      loss += std::max(-margin, 0.0) + std::log1p(std::exp(-std::abs(margin)));
      right += margin > 0;
      margins += margin;
    }
    return TaskScore{.loss = loss / n,
                     .criterion = loss / n,
                     .criterion_name = "loss",
                     .metrics = {{"accuracy", right / n}, {"margin", margins / n}},
                     .text = fmt::format("held-out loss {:.4f}, {} of {} ranked correctly, margin {:.3f}",
                                         loss / n, static_cast<int64_t>(right),
                                         format_amount(std::ssize(val_), "pair"), margins / n)};
  }

  void write_files(const std::string& folder, const Model&) const override {
    write_chat_templates(folder, templates_);
  }

  DataIdentity identity() const override {
    const auto hash = [](const std::vector<Pair>& pairs) {
      std::string bytes;
      for (const Pair& pair : pairs) {
        for (const ChatExample* e : {&pair.chosen, &pair.rejected}) {
          bytes.append(reinterpret_cast<const char*>(e->ids.data()), e->ids.size() * sizeof(int32_t));
          bytes.append(reinterpret_cast<const char*>(e->weights.data()), e->weights.size());
        }
      }
      return hex_hash(bytes);
    };
    return {.tokens = samples() * n_ctx_,
            .train = hash(train_),
            .val = hash(val_),
            .tokenizer = hex_hash(tokenizer_->to_json())};
  }

  std::string describe() const override {
    const auto ids_of = [](const Pair& pair) { return pair.chosen.ids; };
    UnknownTokens unknown(*tokenizer_);
    for (const auto* part : {&train_, &val_}) {
      for (const Pair& pair : *part) {
        unknown.add(pair.chosen.ids);
        unknown.add(pair.rejected.ids);
      }
    }
    return notes_ + unknown.note() + note_shared_examples(train_, val_, ids_of) +
           fmt::format("preferences: {} for training, {} held out, beta {:g}\n",
                       format_amount(std::ssize(train_), "pair"), format_thousands(std::ssize(val_)),
                       config_.beta);
  }

 private:
  // Returns response i. The training pairs come first, followed by the held-out pairs. Each pair has the
  // chosen response at an even index and the rejected response at the next index.
  const ChatExample& answer(int64_t i) const {
    const auto pair = static_cast<size_t>(i / 2);
    const Pair& p = pair < train_.size() ? train_[pair] : val_[pair - train_.size()];
    return i % 2 == 0 ? p.chosen : p.rejected;
  }

  void write(const ChatExample& a, int64_t row, const TrainStep::Samples& s) const {
    const int64_t n = std::ssize(a.ids) - 1;
    for (int64_t t = 0; t < n_ctx_; ++t) {
      const int64_t at = row * n_ctx_ + t;
      s.ids[at] = t < n ? a.ids[static_cast<size_t>(t)] : a.ids.back();
      s.targets[at] = t < n ? a.ids[static_cast<size_t>(t + 1)] : -1;
      s.weights[at] = t < n ? a.weights[static_cast<size_t>(t + 1)] : 0.0f;
    }
  }

  void write_reference(const std::string& path) {
    const NamedTensor tensor =
        named_tensor("logprobs", make_view(reference_.data(), DType::f32, {std::ssize(reference_)}));
    const std::string_view bytes(reinterpret_cast<const char*>(reference_.data()),
                                 reference_.size() * sizeof(float));
    write_safetensors(path, {&tensor, 1}, {{kChecksum, hex_hash(bytes)}});
  }

  // Returns the log-probabilities of all responses, starting with response `first`. The responses are divided
  // among the ranks. Returns nothing if the computation was interrupted.
  std::optional<std::vector<double>> answer_logprobs(const Model& model, const Backend& backend,
                                                     const std::function<bool()>& interrupted,
                                                     int64_t first = 0) const {
    TrainingGraph graph(model, 1, n_ctx_,
                        {.gradients = false,
                         .dtype = tensor_dtype(config_.train().dtype),
                         .adapter = adapter,
                         .packs_per_use = adapter != nullptr},
                        backend);
    std::vector<int32_t> ids(static_cast<size_t>(n_ctx_)), targets(ids.size());
    std::vector<float> weights(ids.size());
    const auto logprob_of = [&](int64_t i) {
      write(answer(first + i), 0, {ids.data(), targets.data(), weights.data(), nullptr, nullptr});
      return std::vector<double>{
          -graph.loss({.ids = ids.data(), .targets = targets.data(), .weights = weights.data()})};
    };
    const auto answers = static_cast<int64_t>(2 * (train_.size() + val_.size()));
    return compute_in_shares(*processes, answers - first, logprob_of, interrupted, "evaluation");
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  const TuneConfig config_;
  std::string out_;
  std::vector<Pair> train_, val_;
  std::vector<float> reference_;  // log-probabilities of the responses under the initial model
  int64_t n_ctx_ = 0, batch_size_ = 0;
  std::unique_ptr<Preferences> objective_;
  std::string notes_;
  ChatTemplates templates_;
};

}  // namespace

std::unique_ptr<Task> make_dpo_task(const TaskSources& sources) {
  return std::make_unique<DpoTask>(sources);
}

}  // namespace gpt
