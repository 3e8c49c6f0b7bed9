#include "finetune/chat_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/ranges.h"
#include "chat/chat_rows.h"
#include "chat/model_text.h"
#include "data/byte_stream.h"
#include "data/token_hash.h"
#include "data/unknown_tokens.h"
#include "data/weighted_name.h"
#include "distributed/shares.h"
#include "finetune/extra_tokens.h"
#include "finetune/json_lines.h"
#include "finetune/prompts.h"
#include "finetune/shared_examples.h"
#include "finetune/tune_config.h"
#include "model/model_files.h"
#include "report/progress.h"
#include "train/documents.h"

namespace gpt {
namespace {

TooLong too_long_of(const std::string& name) {
  if (name == "drop") return TooLong::drop;
  if (name == "truncate") return TooLong::truncate;
  if (name == "refuse") return TooLong::error;
  fail_parameter("long_conversations", "expected drop, truncate or refuse, found {}", name.substr(0, 64));
}

// Reads a file and decompresses it.
std::string read_text(const std::string& path) {
  constexpr size_t kMostBytes = size_t{4} << 30, kPart = size_t{1} << 20;
  const std::unique_ptr<ByteStream> stream = open_byte_stream(path);
  std::string text, part(kPart, '\0');
  while (const size_t n = stream->read(part)) {
    text.append(part, 0, n);
    if (text.size() > kMostBytes) fail("{}: expected at most {} bytes of text, found more", path, kMostBytes);
  }
  return text;
}

class ChatTask : public Task {
 public:
  explicit ChatTask(const TaskSources& s)
      : config_(s.config), n_ctx_(s.config.n_ctx > 0 ? s.config.n_ctx : s.model.n_ctx) {
    if (n_ctx_ > s.model.n_ctx) {
      fail_parameter("n_ctx", "expected at most {}, the model's context length, found {}", s.model.n_ctx,
                     n_ctx_);
    }
    const ChatSource source = tuning_chat_source(s);
    tokenizer_ = with_special_tokens(s.tokenizer, source.needed_tokens);
    chat_ = std::make_unique<ChatTemplate>(source, *tokenizer_);
    const TrainConfig& c = config_.train();
    for (const std::string& entry : c.data) {
      const auto& [path, weight] = parse_weighted_name(entry);
      parts_.push_back(make_chat_part(path, weight.value_or(0), read(path),
                                      c.val_data.empty() ? c.val_fraction : 0, seed()));
    }
    for (const std::string& path : c.val_data)
      parts_.push_back({.name = path, .weight = 0, .train = {}, .held_out = read(path)});
    samples_ = std::ssize(rows_of_epoch(0));
  }

  void adapt(ModelConfig& config) const override {
    config.vocab_size = std::max(config.vocab_size, tokenizer_->vocab_size());
    std::erase(config.eos_token_ids, chat_->end_id());
    config.eos_token_ids.insert(config.eos_token_ids.begin(), chat_->end_id());
  }
  bool takes_adapter() const override { return true; }
  int64_t samples() const override { return samples_; }
  void set_batch_size(int64_t samples) override { batch_size_ = samples; }
  int64_t n_ctx() const override { return n_ctx_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  bool evaluates() const override {
    return std::ranges::any_of(parts_, [](const ChatPart& part) { return !part.held_out.empty(); });
  }

  // Prepares the rows of a step. A batch may contain the last rows of one epoch and the first rows of the
  // next epoch.
  void before_step(int64_t step, const Model&, const Backend&) override {
    const int64_t first = step * batch_size_;
    batch_.clear();
    if (first < begin_) {
      rows_.clear();
      begin_ = next_epoch_ = 0;
    }
    for (int64_t row = first; row < first + batch_size_; ++row) {
      while (row >= begin_ + std::ssize(rows_)) {
        begin_ += std::ssize(rows_);
        rows_ = rows_of_epoch(next_epoch_++);
      }
      batch_.push_back(rows_[static_cast<size_t>(row - begin_)]);
    }
  }

  void fill(int64_t, int64_t first, int64_t rows, const TrainStep::Samples& s) const override {
    for (int64_t i = 0; i < rows; ++i) {
      const ChatRow& row = batch_[static_cast<size_t>(first + i)];
      const int64_t at = i * n_ctx_;
      std::ranges::copy(row.ids, s.ids + at);
      std::ranges::copy(row.targets, s.targets + at);
      std::ranges::copy(row.weights, s.weights + at);
      std::ranges::copy(row.starts, s.starts + at);
    }
  }

  std::optional<TaskScore> evaluate(const Model& model, const Backend& backend,
                                    const std::function<bool()>& interrupted) const override {
    TrainingGraph graph(model, 1, n_ctx_,
                        {.gradients = false,
                         .dtype = tensor_dtype(config_.train().dtype),
                         .adapter = adapter,
                         .packs_per_use = adapter != nullptr},
                        backend);
    TaskScore score{.criterion_name = "loss"};
    double sum = 0, weight = 0;
    for (const ChatPart& part : parts_) {
      const std::vector<ChatRow> rows = pack_chat_rows(pointers(part.held_out), n_ctx_);
      const auto losses = compute_in_shares(
          *processes, std::ssize(rows),
          [&](int64_t i) { return loss_and_weight(graph, rows[static_cast<size_t>(i)]); }, interrupted,
          "evaluation");
      if (!losses) return std::nullopt;
      double part_sum = 0, part_weight = 0;
      for (size_t i = 0; i < losses->size(); i += 2) {
        part_sum += (*losses)[i];
        part_weight += (*losses)[i + 1];
      }
      if (part_weight == 0) continue;
      sum += part_sum;
      weight += part_weight;
      score.metrics.emplace_back("loss/" + part.name, part_sum / part_weight);
    }
    score.loss = score.criterion = weight > 0 ? sum / weight : 0;
    score.text = fmt::format("held-out loss {:.4f} per token", score.loss);
    for (const auto& [name, loss] : score.metrics) {
      if (score.metrics.size() > 1) score.text += fmt::format(", {} {:.4f}", name.substr(5), loss);
    }
    if (score.metrics.size() == 1) score.metrics.clear();  // the only part has the same loss as the whole
    return score;
  }

  void write_files(const std::string& folder, const Model&) const override {
    write_chat_templates(folder, chat_->templates());
  }

  DataIdentity identity() const override {
    std::string train, val;
    for (const ChatPart& part : parts_) {
      for (const auto& [examples, bytes] : {std::pair{&part.train, &train}, {&part.held_out, &val}}) {
        for (const ChatExample& e : *examples) {
          bytes->append(reinterpret_cast<const char*>(e.ids.data()), e.ids.size() * sizeof(int32_t));
          bytes->append(reinterpret_cast<const char*>(e.weights.data()), e.weights.size());
        }
      }
    }
    return {.tokens = samples_ * n_ctx_,
            .train = hex_hash(train),
            .val = hex_hash(val),
            .tokenizer = hex_hash(tokenizer_->to_json())};
  }

  std::string describe() const override {
    const auto count = [&](auto member) {
      return sum_of(parts_, [&](const ChatPart& part) { return std::ssize(part.*member); });
    };
    std::string text = notes_ + shared_note() + unknown_note();
    const auto shown = std::ranges::find_if(parts_, [](const ChatPart& part) { return !part.train.empty(); });
    if (shown != parts_.end()) {
      const bool colour = progress_output(2).style.colour;
      text += "the first conversation, " +
              std::string(colour ? "trained tokens in green" : "trained tokens in «»") + ":\n" +
              preview_chat_example(shown->train.front(), *tokenizer_, colour);
    }
    return text + fmt::format("chat: {} for training, {} held out; formatted with {}{}\n",
                              format_amount(count(&ChatPart::train), "conversation"),
                              format_thousands(count(&ChatPart::held_out)),
                              chat_->built_in() ? "the built-in template " : "", chat_->name());
  }

 private:
  std::string unknown_note() const {
    UnknownTokens unknown(*tokenizer_);
    for (const ChatPart& part : parts_) {
      for (const auto* examples : {&part.train, &part.held_out}) {
        for (const ChatExample& example : *examples)
          unknown.add(example.ids);
      }
    }
    return unknown.note();
  }

  std::string shared_note() const {
    std::vector<std::vector<int32_t>> train, held_out;
    for (const ChatPart& part : parts_) {
      std::ranges::transform(part.train, std::back_inserter(train), &ChatExample::ids);
      std::ranges::transform(part.held_out, std::back_inserter(held_out), &ChatExample::ids);
    }
    return note_shared_examples(train, held_out, std::identity());
  }

  std::vector<double> loss_and_weight(TrainingGraph& graph, const ChatRow& row) const {
    TrainBatch batch{.ids = row.ids.data(), .targets = row.targets.data(), .weights = row.weights.data()};
    PackedDocuments documents;
    documents.split(n_ctx_, row.starts, batch);
    return {graph.loss(batch), language_modelling().weight(batch, n_ctx_)};
  }

  uint64_t seed() const { return static_cast<uint64_t>(config_.train().seed); }

  std::vector<ChatExample> read(const std::string& path) {
    ChatExamples found = parse_chat_examples(
        read_text(path), path, *chat_,
        {.n_ctx = n_ctx_, .too_long = too_long_of(config_.long_conversations), .skip_bad = config_.skip_bad});
    const ChatCounts& counts = found.counts;
    if (counts.bad > 0)
      notes_ += fmt::format("{}: skipped {}; first error: {}\n", path,
                            format_amount(counts.bad, "invalid line"), counts.first_bad);
    if (counts.dropped > 0)
      notes_ += fmt::format("{}: skipped {} with more than {} tokens\n", path,
                            format_amount(counts.dropped, "conversation"), n_ctx_);
    if (counts.truncated > 0)
      notes_ += fmt::format("{}: truncated {} with more than {} tokens (removed the oldest turns)\n", path,
                            format_amount(counts.truncated, "conversation"), n_ctx_);
    if (found.examples.empty() && counts.dropped > 0)
      fail(
          "{}: expected at least 1 conversation of at most n_ctx = {} tokens, found {} with more tokens; "
          "set a larger `n_ctx` or `long_conversations` truncate{}",
          path, format_thousands(n_ctx_), format_amount(counts.dropped, "conversation"),
          counts.bad == 0
              ? ""
              : fmt::format("; {} of {} are invalid, first error: {}", format_thousands(counts.bad),
                            format_amount(counts.lines, "line"), counts.first_bad));
    if (found.examples.empty()) fail_without_examples({path}, {counts.bad, counts.first_bad});
    return std::move(found.examples);
  }

  std::vector<ChatRow> rows_of_epoch(int64_t epoch) const {
    return pack_chat_rows(chat_epoch(parts_, seed(), epoch), n_ctx_);
  }
  static std::vector<const ChatExample*> pointers(const std::vector<ChatExample>& examples) {
    return transformed(examples, [](const ChatExample& e) { return &e; });
  }

  const TuneConfig config_;
  int64_t n_ctx_, batch_size_ = 0;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_;
  std::vector<ChatPart> parts_;
  int64_t samples_ = 0;  // rows of the first epoch; other epochs may have one row more or less
  std::string notes_;
  // The rows of the current epoch. begin_ is the index of the first of these rows among all rows of the run.
  std::vector<ChatRow> rows_;
  int64_t begin_ = 0, next_epoch_ = 0;
  std::vector<ChatRow> batch_;
};

}  // namespace

std::unique_ptr<Task> make_chat_task(const TaskSources& sources) {
  return std::make_unique<ChatTask>(sources);
}

}  // namespace gpt
