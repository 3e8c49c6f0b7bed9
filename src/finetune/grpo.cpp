#include "finetune/grpo.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/ranges.h"
#include "chat/model_text.h"
#include "data/token_hash.h"
#include "data/unknown_tokens.h"
#include "distributed/shares.h"
#include "finetune/example_order.h"
#include "finetune/json_lines.h"
#include "finetune/prompts.h"
#include "finetune/rewards.h"
#include "finetune/shared_examples.h"
#include "finetune/tune_config.h"
#include "infer/cached_model.h"
#include "infer/generate.h"
#include "model/head_loss.h"

namespace gpt {

void PolicyGradient::plan(Planner& planner, const ModelConfig& c, std::deque<TensorView>& memory) const {
  HeadLoss::plan(planner, c, memory);
}

double PolicyGradient::weight(const TrainBatch& batch, int64_t rows) const {
  return static_cast<double>(
      std::count_if(batch.targets, batch.targets + rows, [](int32_t target) { return target >= 0; }));
}

void PolicyGradient::run(const ObjectiveCall& call) const {
  HeadLoss::run(call, call.memory[0], call.targets.weights, call.backward != nullptr, temperature_);
}

namespace {

using Json = nlohmann::ordered_json;

struct Question {
  std::string prompt, answer;
  std::vector<int32_t> ids;
};

// Suggests settings with which a batch contains complete groups of responses. Suggests the largest `rollouts`
// that divides the batch size, or a larger batch if there is none.
std::string fitting_rollouts(int64_t batch_size, int64_t rollouts) {
  for (int64_t n = std::min(batch_size, rollouts); n > 1; --n) {
    if (batch_size % n == 0) return fmt::format("use, for example, `rollouts` {}", n);
  }
  return fmt::format("use, for example, `batch_size` {}", rollouts);
}

// Stores a response that the model sampled for a question.
struct Rollout {
  std::vector<int32_t> ids;  // token ids of the question, followed by the response
  int64_t prompt = 0;
  double advantage = 0;
};

class GrpoTask : public Task {
 public:
  explicit GrpoTask(const TaskSources& s)
      : tokenizer_(s.tokenizer),
        config_(s.config),
        objective_(config_.temperature),
        reward_(make_reward(config_.reward, config_.reward_command, config_.reward_seconds)) {
    const TrainConfig& c = config_.train();
    train_ = read(s, c.data);
    if (c.val_data.empty()) {
      hold_out(train_, val_, c.val_fraction);
    } else {
      val_ = read(s, c.val_data);
    }
    int64_t longest = 0;
    for (const auto* part : {&train_, &val_}) {
      for (const Question& q : *part)
        longest = std::max(longest, std::ssize(q.ids));
    }
    n_ctx_ = std::min((longest + config_.max_tokens + 7) / 8 * 8, s.model.n_ctx);
    if (longest + config_.max_tokens > s.model.n_ctx) {
      fail(
          "the longest prompt has {} tokens, and with a response of `max_tokens` {} it does not fit into the "
          "model's context of {} tokens; set a lower `max_tokens`, or shorten the prompts",
          longest, config_.max_tokens, s.model.n_ctx);
    }
  }

  const Objective& objective() const override { return objective_; }
  int64_t samples() const override { return std::ssize(train_) * config_.rollouts; }
  int64_t group() const override { return config_.rollouts; }
  void set_batch_size(int64_t samples) override {
    if (samples % config_.rollouts != 0) {
      fail_parameter("batch_size",
                     "expected a multiple of `rollouts` {}, the number of responses per prompt, found {}; {}",
                     config_.rollouts, samples, fitting_rollouts(samples, config_.rollouts));
    }
    prompts_ = samples / config_.rollouts;
  }
  int64_t n_ctx() const override { return n_ctx_; }
  bool takes_adapter() const override { return true; }
  bool evaluates() const override { return !val_.empty(); }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }

  void before_step(int64_t step, const Model& model, const Backend& backend) override {
    const ExampleOrder order(std::ssize(train_), static_cast<uint64_t>(config_.train().seed));
    std::vector<const Question*> questions;
    for (int64_t i = 0; i < prompts_; ++i)
      questions.push_back(&train_[static_cast<size_t>(order(step * prompts_ + i))]);
    rollouts_ = draw(model, backend, questions, {.temperature = config_.temperature, .top_k = config_.top_k},
                     config_.rollouts, static_cast<uint64_t>(step * prompts_ * config_.rollouts),
                     [] { return false; })
                    .value();
    const std::vector<double> rewards = judge(questions, rollouts_, config_.rollouts);
    note_rewards(rewards);
    for (size_t first = 0; first < rollouts_.size(); first += static_cast<size_t>(config_.rollouts)) {
      const auto group = std::span(rewards).subspan(first, static_cast<size_t>(config_.rollouts));
      const double mean = sum_of(group) / static_cast<double>(group.size());
      for (size_t i = 0; i < group.size(); ++i)
        rollouts_[first + i].advantage = group[i] - mean;
    }
  }

  std::vector<std::pair<std::string, double>> step_metrics() const override { return metrics_; }

  void fill(int64_t, int64_t first, int64_t rows, const TrainStep::Samples& s) const override {
    for (int64_t row = 0; row < rows; ++row) {
      const Rollout& rollout = rollouts_[static_cast<size_t>(first + row)];
      const int64_t n = std::ssize(rollout.ids) - 1;
      for (int64_t t = 0; t < n_ctx_; ++t) {
        const int64_t at = row * n_ctx_ + t;
        const bool said = t >= rollout.prompt - 1 && t < n;
        s.ids[at] = t < n ? rollout.ids[static_cast<size_t>(t)] : rollout.ids.back();
        s.targets[at] = said ? rollout.ids[static_cast<size_t>(t + 1)] : -1;
        s.weights[at] = static_cast<float>(rollout.advantage);
      }
    }
  }

  std::optional<TaskScore> evaluate(const Model& model, const Backend& backend,
                                    const std::function<bool()>& interrupted) const override {
    const auto questions = transformed(val_, [](const Question& q) { return &q; });
    const auto answers = draw(model, backend, questions, {.temperature = 0}, 1, 0, interrupted);
    if (!answers) return std::nullopt;
    const double mean = sum_of(judge(questions, *answers, 1)) / static_cast<double>(val_.size());
    const Rollout& first = answers->front();
    const std::string said = text_of(first);
    return TaskScore{.loss = -mean,
                     .criterion = -mean,
                     .criterion_name = "reward",
                     .metrics = {{"reward", mean}},
                     .text = fmt::format("held-out reward {:.4f} over {}; first prompt {} -> {}", mean,
                                         format_amount(std::ssize(val_), "prompt"),
                                         quoted(val_.front().prompt), quoted(said))};
  }

  void write_files(const std::string& folder, const Model&) const override {
    write_chat_templates(folder, templates_);
  }

  DataIdentity identity() const override {
    const auto hash = [](const std::vector<Question>& questions) {
      std::string bytes;
      for (const Question& q : questions) {
        bytes.append(reinterpret_cast<const char*>(q.ids.data()), q.ids.size() * sizeof(int32_t));
        bytes += q.answer + '\0';
      }
      return hex_hash(bytes);
    };
    return {.tokens = samples() * n_ctx_,
            .train = hash(train_),
            .val = hash(val_),
            .tokenizer = hex_hash(tokenizer_->to_json())};
  }

  std::string describe() const override {
    UnknownTokens unknown(*tokenizer_);
    for (const auto* part : {&train_, &val_}) {
      for (const Question& question : *part)
        unknown.add(question.ids);
    }
    return notes_ + unknown.note() +
           note_shared_examples(train_, val_, [](const Question& q) { return q.ids; }) +
           fmt::format(
               "rewards: {} for training, {} held out; {} per prompt, prompts per step {}, reward {}\n",
               format_amount(std::ssize(train_), "prompt"), format_thousands(std::ssize(val_)),
               format_amount(config_.rollouts, "response"), prompts_, config_.reward);
  }

 private:
  // Computes metrics of the rewards. If all responses to a prompt have the same reward, the prompt
  // contributes nothing to the gradient. The metrics include the fraction of such prompts.
  void note_rewards(const std::vector<double>& rewards) {
    const auto n = static_cast<double>(rewards.size());
    double tokens = 0, same = 0;
    for (const Rollout& rollout : rollouts_)
      tokens += static_cast<double>(std::ssize(rollout.ids) - rollout.prompt);
    const auto group = static_cast<size_t>(config_.rollouts);
    for (size_t first = 0; first < rewards.size(); first += group) {
      const auto [low, high] = std::ranges::minmax(std::span(rewards).subspan(first, group));
      same += low == high ? 1 : 0;
    }
    metrics_ = {{"reward", sum_of(rewards) / n},
                {"answer_tokens", tokens / n},
                {"prompts_without_contrast", same * static_cast<double>(group) / n}};
  }

  std::vector<Question> read(const TaskSources& s, const std::vector<std::string>& files) {
    std::vector<Question> out;
    const PromptEncoder prompts(s);
    eos_ = prompts.ends();
    templates_ = prompts.templates();
    const SkippedLines skipped =
        for_each_json_line(files, config_.skip_bad, [&](const Json& line, const std::string& place) {
          const char* asked = line.contains("messages") ? "messages" : "prompt";
          require_members(line, {asked, "answer"}, "grpo", place);
          const Json& prompt = line[asked];
          Question q{PromptEncoder::text(prompt, place), text_member(line, "answer", place),
                     prompts.prompt(prompt, line, place)};
          reward_->check(q.answer, place);
          out.push_back(std::move(q));
        });
    if (out.empty()) fail_without_examples(files, skipped);
    notes_ += skipped.note() + prompts.note();
    return out;
  }

  // Samples n responses to each question. The questions are divided among the ranks.
  std::optional<std::vector<Rollout>> draw(const Model& model, const Backend& backend,
                                           const std::vector<const Question*>& questions,
                                           const SamplingParams& sampling, int64_t n, uint64_t first,
                                           const std::function<bool()>& interrupted) const {
    if (processes->size() == 1) return draw_own(model, backend, questions, sampling, n, first, interrupted);
    // Maximum number of questions per rank between two checks for an interrupt.
    constexpr int64_t kMostAtOnce = 32;
    const int64_t all = std::ssize(questions), share = share_size(*processes, all, kMostAtOnce);
    const auto answers_to = [&](int64_t part) {
      const int64_t begin = part * share;
      const std::vector<const Question*> own(questions.begin() + begin,
                                             questions.begin() + std::min(begin + share, all));
      return numbers_of(
          draw_own(model, backend, own, sampling, n, first + static_cast<uint64_t>(begin * n), [] {
            return false;
          }).value());
    };
    const auto numbers = compute_in_shares(*processes, (all + share - 1) / share, answers_to, interrupted,
                                           "sampling responses");
    if (!numbers) return std::nullopt;
    return rollouts_of(*numbers);
  }

  // Encodes rollouts as numbers, so that ranks can exchange them. A rollout is encoded as the length of the
  // prompt, the number of all ids, and the ids.
  static std::vector<double> numbers_of(const std::vector<Rollout>& rollouts) {
    std::vector<double> numbers;
    for (const Rollout& rollout : rollouts) {
      numbers.push_back(static_cast<double>(rollout.prompt));
      numbers.push_back(static_cast<double>(rollout.ids.size()));
      numbers.insert(numbers.end(), rollout.ids.begin(), rollout.ids.end());
    }
    return numbers;
  }
  static std::vector<Rollout> rollouts_of(const std::vector<double>& numbers) {
    std::vector<Rollout> rollouts;
    for (auto at = numbers.begin(); at != numbers.end();) {
      Rollout rollout;
      rollout.prompt = static_cast<int64_t>(*at++);
      for (auto left = static_cast<int64_t>(*at++); left > 0; --left)
        rollout.ids.push_back(static_cast<int32_t>(*at++));
      rollouts.push_back(std::move(rollout));
    }
    return rollouts;
  }

  std::optional<std::vector<Rollout>> draw_own(const Model& model, const Backend& backend,
                                               const std::vector<const Question*>& questions,
                                               const SamplingParams& sampling, int64_t n, uint64_t first,
                                               const std::function<bool()>& interrupted) const {
    constexpr int64_t kMostSlots = 64;
    const int64_t all = std::ssize(questions) * n;
    Inference inference(model, backend,
                        {.slots = static_cast<int>(std::min(all, kMostSlots)),
                         .capacity = n_ctx_,
                         .weights = tensor_dtype(config_.train().dtype),
                         .adapter_rank = adapter != nullptr ? adapter->rank : 0});
    // The adapter belongs to the run and outlives `inference`.
    const int used = adapter != nullptr ? inference.add_adapter({std::shared_ptr<void>(), adapter}) : -1;
    CachedModel sequences(inference, false, used);
    const auto prompts = transformed(questions, [](const Question* q) { return q->ids; });
    bool stopped = false;
    const std::vector<Completion> completions = generate(sequences, prompts,
                                                         {.max_tokens = config_.max_tokens,
                                                          .sampling = sampling,
                                                          .seed = static_cast<uint64_t>(config_.train().seed),
                                                          .n = n,
                                                          .first_sample = first,
                                                          .eos_ids = eos_},
                                                         [&](const TokenEvent&) {
                                                           stopped = stopped || interrupted();
                                                           return !stopped;
                                                         });
    if (stopped) return std::nullopt;
    return transformed(completions, [&](const Completion& c) {
      Rollout rollout{prompts[static_cast<size_t>(c.prompt)]};
      rollout.prompt = std::ssize(rollout.ids);
      rollout.ids.insert(rollout.ids.end(), c.ids.begin(), c.ids.end());
      return rollout;
    });
  }

  // Returns the text of the response without the token that ended it.
  std::string text_of(const Rollout& rollout) const {
    std::string text;
    for (auto id = rollout.ids.begin() + rollout.prompt; id != rollout.ids.end(); ++id) {
      if (std::ranges::find(eos_, *id) == eos_.end()) text += bytes_of(*tokenizer_, *id);
    }
    return replace_invalid_utf8(text);
  }

  std::vector<double> judge(const std::vector<const Question*>& questions,
                            const std::vector<Rollout>& answers, int64_t n) const {
    std::vector<Judged> judged;
    for (size_t i = 0; i < answers.size(); ++i) {
      const Question& q = *questions[i / static_cast<size_t>(n)];
      judged.push_back({q.prompt, q.answer, text_of(answers[i])});
    }
    // A reward command may return a different result in each call. Therefore, only rank 0 computes the
    // rewards, and all ranks use these rewards.
    return joined(*processes, processes->rank() == 0 ? reward_->rewards(judged) : std::vector<double>(),
                  "computing rewards on rank 0");
  }

  static std::string quoted(const std::string& text) {
    constexpr size_t kMost = 60;
    return Json(text.size() > kMost ? replace_invalid_utf8(text.substr(0, kMost)) + "..." : text).dump();
  }

  std::vector<std::pair<std::string, double>> metrics_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  const TuneConfig config_;
  const PolicyGradient objective_;
  std::vector<int32_t> eos_;  // tokens that end a response
  std::unique_ptr<Reward> reward_;
  std::vector<Question> train_, val_;
  std::vector<Rollout> rollouts_;    // rollouts of the current step
  int64_t n_ctx_ = 0, prompts_ = 0;  // prompts_ is the number of prompts per step
  std::string notes_;
  ChatTemplates templates_;
};

}  // namespace

std::unique_ptr<Task> make_grpo_task(const TaskSources& sources) {
  return std::make_unique<GrpoTask>(sources);
}

}  // namespace gpt
