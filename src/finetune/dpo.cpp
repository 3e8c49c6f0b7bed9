#include "finetune/dpo.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "data/token_hash.h"
#include "distributed/shares.h"
#include "finetune/example_order.h"
#include "finetune/json_lines.h"
#include "finetune/prompts.h"
#include "finetune/shared_examples.h"
#include "finetune/tune_config.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/head_loss.h"
#include "tensor/memory.h"

namespace gpt {

void Preferences::plan(Planner& planner, const ModelConfig& c, std::deque<TensorView>& memory) const {
  HeadLoss::plan(planner, c, memory);
  planner.reserve(memory.emplace_back(), "weights of answers", {planner.rows()}, DType::f32);
  planner.reserve(memory.emplace_back(), "losses that are not shown", {planner.rows()}, DType::f64);
}

double Preferences::weight(const TrainBatch&, int64_t rows) const {
  const int64_t pairs = rows / (2 * n_ctx_);
  return static_cast<double>(pairs);
}

void Preferences::run(const ObjectiveCall& call) const {
  GPT_ASSERT(call.batch.weights != nullptr && call.batch.labels != nullptr);
  HeadLoss::run(call, call.memory[0], call.batch.weights, false);
  auto* losses = call.losses.as<double>();
  auto* weights = call.memory[1].as<float>();
  const int64_t rows = call.hidden.rows();
  call.pass.ctx.kernels.preference(call.pass.ctx, {.losses = losses,
                                                   .reference = call.batch.labels,
                                                   .mask = call.batch.weights,
                                                   .weights = weights,
                                                   .rows = rows,
                                                   .n_ctx = n_ctx_,
                                                   .beta = beta_,
                                                   .smoothing = smoothing_});
  if (call.pass.grads.empty()) return;
  ObjectiveCall gradient = call;
  gradient.losses = call.memory[2];
  HeadLoss::run(gradient, call.memory[0], weights, true);
}

namespace {

using nlohmann::json;

// The tokens of a prompt with one of its answers.
struct Answer {
  std::vector<int32_t> ids;
  int64_t prompt = 0;  // of these
};

struct Pair {
  Answer chosen, rejected;
};

// Turns the columns of a line into tokens.
class PairReader {
 public:
  explicit PairReader(const TaskSources& s)
      : prompts_(s), most_(s.config.n_ctx > 0 ? s.config.n_ctx : s.model.n_ctx) {}

  Pair read(const json& line, const std::string& place) const {
    const Columns columns = columns_of(line, place);
    Pair pair{answer(columns.prompt, columns.chosen, place), answer(columns.prompt, columns.rejected, place)};
    if (pair.chosen.ids == pair.rejected.ids) fail("{}: \"chosen\" and \"rejected\" are the same", place);
    return pair;
  }
  std::string jinja() const { return prompts_.jinja(); }
  std::string note() const { return prompts_.note(); }

 private:
  struct Columns {
    json prompt, chosen, rejected;
  };
  // TRL's columns. Where the answers are whole conversations, the prompt is what comes before their last
  // message.
  static Columns columns_of(const json& line, const std::string& place) {
    Columns c{line.value("prompt", json()), line.value("chosen", json()), line.value("rejected", json())};
    const auto is_long = [](const json& x) { return x.is_array() && x.size() > 1; };
    if (is_long(c.chosen) && is_long(c.rejected) && !c.prompt.is_array()) {
      const json last = take_last(c.chosen), worse = take_last(c.rejected);
      if (c.chosen != c.rejected)
        fail("{}: expected \"chosen\" and \"rejected\" to be the same up to their last messages", place);
      return {c.chosen, json::array({last}), json::array({worse})};
    }
    require_members(line, {"prompt", "chosen", "rejected"}, "dpo", place);
    if (c.prompt.is_string() && (c.chosen.is_array() || c.rejected.is_array()))
      fail("{}: \"prompt\" is a text and an answer is a list of messages: write both as messages", place);
    return c;
  }
  static json take_last(json& list) {
    const json last = list.back();
    list.erase(list.size() - 1);
    return last;
  }

  Answer answer(const json& prompt, const json& value, const std::string& place) const {
    Answer a{prompts_.prompt(prompt, place)};
    a.prompt = std::ssize(a.ids);
    const std::vector<int32_t> said = prompts_.answer(prompt, value, place);
    a.ids.insert(a.ids.end(), said.begin(), said.end());
    if (std::ssize(a.ids) > most_ + 1) {
      fail(
          "{}: prompt and answer have {} tokens, more than the {} of a sample; shorten them, or give "
          "--skip-bad",
          place, a.ids.size(), most_);
    }
    return a;
  }

  PromptEncoder prompts_;
  int64_t most_;
};

struct Pairs {
  std::vector<Pair> pairs;
  std::string note;  // of lines that were passed over
};

Pairs read_pairs(const PairReader& reader, const std::vector<std::string>& files, bool skip_bad) {
  Pairs out;
  out.note = for_each_json_line(files, skip_bad, [&](const json& line, const std::string& place) {
               out.pairs.push_back(reader.read(line, place));
             }).note();
  if (out.pairs.empty()) fail("{}: no example in it", fmt::join(files, ", "));
  return out;
}

class DpoTask : public Task {
 public:
  explicit DpoTask(const TaskSources& s) : tokenizer_(s.tokenizer), config_(s.config), out_(s.out) {
    const TrainConfig& c = s.config.train();
    const PairReader reader(s);
    Pairs all = read_pairs(reader, c.data, s.config.skip_bad);
    notes_ = all.note + reader.note();
    jinja_ = reader.jinja();
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
      fail("{}: expected the log-probabilities of {} answers", path, n);
    reference_.resize(n);
    std::memcpy(reference_.data(), tensor->bytes.data(), tensor->bytes.size());
  }

  void fill(int64_t step, int64_t first, int64_t rows, const TrainStep::Samples& s) const override {
    const ExampleOrder order(std::ssize(train_), static_cast<uint64_t>(config_.train().seed));
    const int64_t begin = step * config_.train().batch_size + first;
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
                     .text = fmt::format("held-out loss {:.4f}, {} of {} pairs in order, margin {:.3f}",
                                         loss / n, static_cast<int64_t>(right), val_.size(), margins / n)};
  }

  void write_files(const std::string& folder, const Model&) const override {
    write_chat_template(folder, jinja_);
  }

  DataIdentity identity() const override {
    const auto hash = [](const std::vector<Pair>& pairs) {
      std::string bytes;
      for (const Pair& pair : pairs) {
        for (const Answer* a : {&pair.chosen, &pair.rejected}) {
          bytes.append(reinterpret_cast<const char*>(&a->prompt), sizeof a->prompt);
          bytes.append(reinterpret_cast<const char*>(a->ids.data()), a->ids.size() * sizeof(int32_t));
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
    return notes_ + note_shared_examples(train_, val_, ids_of) +
           fmt::format("preferences: {} pairs to learn from, {} held out, beta {:g}\n",
                       format_thousands(std::ssize(train_)), format_thousands(std::ssize(val_)),
                       config_.beta);
  }

 private:
  // Of the training pairs, then of those held out; chosen and rejected in turns.
  const Answer& answer(int64_t i) const {
    const auto pair = static_cast<size_t>(i / 2);
    const Pair& p = pair < train_.size() ? train_[pair] : val_[pair - train_.size()];
    return i % 2 == 0 ? p.chosen : p.rejected;
  }

  void write(const Answer& a, int64_t row, const TrainStep::Samples& s) const {
    const int64_t n = std::ssize(a.ids) - 1;
    for (int64_t t = 0; t < n_ctx_; ++t) {
      const int64_t at = row * n_ctx_ + t;
      s.ids[at] = t < n ? a.ids[static_cast<size_t>(t)] : a.ids.back();
      s.targets[at] = t < n ? a.ids[static_cast<size_t>(t + 1)] : -1;
      s.weights[at] = t >= a.prompt - 1 && t < n ? 1.0f : 0.0f;
    }
  }

  void write_reference(const std::string& path) {
    const NamedTensor tensor =
        named_tensor("logprobs", make_view(reference_.data(), DType::f32, {std::ssize(reference_)}));
    write_safetensors(path, {&tensor, 1});
  }

  // Log-probabilities of all answers from the first one on, which the processes share; nothing when
  // interrupted.
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
  std::vector<float> reference_;  // log-probabilities of the answers under the model that was begun with
  int64_t n_ctx_ = 0;
  std::unique_ptr<Preferences> objective_;
  std::string notes_, jinja_;
};

}  // namespace

std::unique_ptr<Task> make_dpo_task(const TaskSources& sources) {
  return std::make_unique<DpoTask>(sources);
}

}  // namespace gpt
