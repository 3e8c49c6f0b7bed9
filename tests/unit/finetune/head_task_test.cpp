// Tests task heads end to end: reading files, rows, batches, training, evaluation, saved files and the
// classifier.

#include "finetune/head_task.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "finetune/head_files.h"
#include "support/backend.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/small_models.h"
#include "support/team.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

const TaskTokens kBytes = {256, 257, 258};
using Ids = std::vector<int32_t>;
constexpr int64_t kBatch = 12;  // samples

Example example(std::vector<std::string> texts) {
  return {.texts = std::move(texts), .label = "x", .place = "f:1"};
}

TEST(Transforms, AreThoseOfGpt1) {
  const auto bytes = make_byte_tokenizer();
  const auto rows = [&](TaskKind kind, std::vector<std::string> texts) {
    return encode_example(example(std::move(texts)), kind, *bytes, kBytes, 99).rows;
  };
  using Rows = std::vector<Ids>;
  EXPECT_EQ(task_tokens(*bytes), kBytes);
  EXPECT_EQ(rows(TaskKind::classify, {"ab"}), (Rows{{256, 'a', 'b', 258}}));
  EXPECT_EQ(rows(TaskKind::classify, {""}), (Rows{{256, 258}}));
  EXPECT_EQ(rows(TaskKind::entail, {"", "b"}), (Rows{{256, 257, 'b', 258}}));
  EXPECT_EQ(rows(TaskKind::similar, {"a", "b"}),
            (Rows{{256, 'a', 257, 'b', 258}, {256, 'b', 257, 'a', 258}}));
  EXPECT_EQ(rows(TaskKind::choose, {"a", "b", "c"}),
            (Rows{{256, 'a', 257, 'b', 258}, {256, 'a', 257, 'c', 258}}));
}

TEST(Transforms, TheLongerTextLosesItsEnd) {
  const auto bytes = make_byte_tokenizer();
  const EncodedExample cut = encode_example(example({"abcdef", "uv"}), TaskKind::entail, *bytes, kBytes, 8);
  EXPECT_TRUE(cut.cut);
  EXPECT_EQ(cut.rows[0], (Ids{256, 'a', 'b', 'c', 257, 'u', 'v', 258}));
  EXPECT_FALSE(encode_example(example({"abc", "uv"}), TaskKind::entail, *bytes, kBytes, 8).cut);
}

TEST(Transforms, TokensAreAddedOnce) {
  const std::string json =
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"}})";
  const std::shared_ptr<const Tokenizer> plain = parse_tokenizer(json, "test");
  const TaskTokens tokens = task_tokens(*plain);
  EXPECT_EQ(tokens, (TaskTokens{3, 4, 5}));
  const auto with = tokenizer_with_tokens(plain, tokens);
  EXPECT_EQ(with->vocab_size(), 6);
  EXPECT_EQ(task_tokens(*with), tokens) << "found again by their names";
  EXPECT_EQ(tokenizer_with_tokens(with, tokens), with);
  EXPECT_EQ(parse_tokenizer(with->to_json(), "test")->to_json(), with->to_json());
  EXPECT_EQ(with->encode_special("_start_ab_classify_"), (Ids{3, 2, 5}));
}

ModelConfig small_model() {
  return make_config({"task", "gpt2", R"({"vocab_size": 256, "n_ctx": 24, "dropout": 0.1})"});
}

class HeadTasks : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_.file(name), std::ios::binary) << text;
    return dir_.file(name);
  }
  // Writes 40 texts of each of two letters, with various lengths.
  std::string letters() const {
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      const std::string x(static_cast<size_t>(1 + i % 5), 'x'), y(static_cast<size_t>(1 + i % 4), 'y');
      lines += nlohmann::json{{"text", x}, {"label", "ex"}}.dump() + "\n";
      lines += nlohmann::json{{"text", y}, {"label", "why"}}.dump() + "\n";
    }
    return write("letters.jsonl", lines);
  }
  HeadTask task(const HeadTaskOptions& options, int64_t batch_size = kBatch) const {
    HeadTask made(options, small_model(), make_byte_tokenizer());
    made.set_batch_size(batch_size);
    return made;
  }
  TempDir dir_;
  ThreadPool pool_{1};
  Backend backend_ = test::backend(pool_, best_isa());
};

// A model for a task that is trained for `steps` steps.
struct Trained {
  static ModelConfig adapted(const HeadTask& task) {
    ModelConfig config = small_model();
    task.adapt(config);
    return config;
  }
  Trained(const HeadTask& task, const Backend& backend, int64_t steps)
      : model(adapted(task), task.objective().parameters(adapted(task))),
        weights(model.table, DType::f32, "weights", backend.device.get()) {
    init_params(model.table, weights, 1);
    model.weights.assign(weights.views().begin(), weights.views().end());
    TrainStep step(model, weights, make_adamw(model.table, {}), backend,
                   {.batch_size = kBatch,
                    .micro_batch = kBatch / 2,
                    .n_ctx = task.n_ctx(),
                    .graph = {.objective = &task.objective()},
                    .clip_norm = 1});
    StepInputs start{.seed = 3, .lr = 3e-3};
    for (start.step = 0; start.step < steps; ++start.step) {
      step.compute_gradients(start, [&](int64_t first, int64_t rows, const TrainStep::Samples& s) {
        task.fill(start.step, first, rows, s);
      });
      step.update();
      losses.push_back(step.state().loss);
    }
  }
  Model model;
  ParamBuffer weights;
  std::vector<double> losses;
};

const std::function<bool()> kGoOn = [] { return false; };

TEST_F(HeadTasks, LearnEvaluateAndReadBack) {
  const HeadTask t = task({.data = {letters()}, .val_fraction = 0.2, .seed = 5});
  EXPECT_EQ(t.samples(), 64);
  EXPECT_EQ(t.n_ctx(), 8);
  EXPECT_TRUE(names(t.describe(), {64}));
  const Trained trained(t, backend_, 200);
  EXPECT_EQ(trained.model.config.vocab_size, 259);
  const TaskScore score = t.evaluate(trained.model, backend_, kGoOn).value();
  EXPECT_EQ(score.metrics[0].first, "accuracy");
  EXPECT_EQ(score.metrics[0].second, 1) << score.text;
  EXPECT_EQ(score.criterion, 0);
  EXPECT_LT(score.loss, 0.2);
  EXPECT_LT(trained.losses.back(), trained.losses.front());
  EXPECT_EQ(std::ranges::count(score.predictions, '\n'), 17) << score.predictions;
  EXPECT_TRUE(score.predictions.starts_with("example,label,prediction,p(ex),p(why)\n"));
  t.write_files(dir_.path(), trained.model);
  write_file_atomic(dir_.file("tokenizer.json"), t.tokenizer().to_json());
  const LoadedModel loaded(dir_.path(), DType::f32, MatrixOrder::rows, {}, device());
  const TaskHead head = read_head(loaded);
  EXPECT_EQ(task_json(head.facts), task_json(t.facts()));
  const auto json = nlohmann::json::parse(read_file(dir_.file("config.json")));
  EXPECT_EQ(json["architectures"][0], "GPT2ForSequenceClassification");
  EXPECT_EQ(json["id2label"]["1"], "why");
  EXPECT_EQ(json["pad_token_id"], 256);
  HeadTask further = task({.data = {letters()}, .val_fraction = 0.2, .seed = 5});
  further.go_on_from(head);
  const Trained begun(further, backend_, 0);
  further.begin(begun.model, backend_, false);
  const TensorView first_head = begun.weights[begun.model.table.model_count()];
  EXPECT_TRUE(same_bytes(first_head, trained.weights[trained.model.table.model_count()]));
  // The saved classifier gives the same values as the trained one.
  const auto bytes = make_byte_tokenizer();
  Classifier own(trained.model, backend_, t.facts(), trained.weights[trained.model.table.model_count()]);
  Classifier read(loaded.model(), backend_, head.facts, head.view());
  const EncodedExample x = encode_example(example({"xx"}), TaskKind::classify, *bytes, t.facts().tokens, 8);
  EXPECT_EQ(own.read({&x, 1}), read.read({&x, 1}));
}

TEST_F(HeadTasks, AnExampleIsReadAloneAsAmongOthers) {
  const HeadTask t = task({.data = {letters()}});
  const Trained trained(t, backend_, 1);
  Classifier classifier(trained.model, backend_, t.facts(),
                        trained.weights[trained.model.table.model_count()]);
  const auto bytes = make_byte_tokenizer();
  std::vector<EncodedExample> examples;
  for (int i = 0; i < 70; ++i)
    examples.push_back(encode_example(example({std::string(static_cast<size_t>(i % 22), 'a')}),
                                      TaskKind::classify, *bytes, t.facts().tokens, 24));
  const std::vector<Outputs> all = classifier.read(examples);
  ASSERT_EQ(all.size(), examples.size());
  for (const size_t i : {0u, 13u, 40u, 69u})
    EXPECT_EQ(classifier.read({&examples[i], 1})[0], all[i]) << i;
}

// The ranks share the batches of examples, and the last batch is not full.
TEST_F(HeadTasks, ProcessesShareAnEvaluation) {
  const std::string file = letters();
  const HeadTaskOptions options{.data = {file}, .val_data = {file}};
  const auto score_in = [&](Communicator& processes) {
    HeadTask t = task(options);
    t.processes = &processes;
    ThreadPool pool(1);
    const Backend backend = test::backend(pool, best_isa());
    const Trained trained(t, backend, 3);
    return t.evaluate(trained.model, backend, kGoOn).value();
  };
  const TaskScore alone = score_in(single_process());
  for (const int size : {2, 4}) {
    std::vector<TaskScore> scores(static_cast<size_t>(size));
    Team(size).run([&](Communicator& c) { scores[static_cast<size_t>(c.rank())] = score_in(c); });
    for (const TaskScore& score : scores) {
      EXPECT_EQ(score.loss, alone.loss);
      EXPECT_EQ(score.predictions, alone.predictions);
      EXPECT_EQ(score.text, alone.text);
    }
  }
}

// Every example occurs once per epoch, groups stay together, and any split of a batch gives the same
// examples.
TEST_F(HeadTasks, BatchesAreAFunctionOfTheStep) {
  std::string lines;
  for (int i = 0; i < 10; ++i)
    lines += nlohmann::json{{"context", std::string(1, static_cast<char>('a' + i))},
                            {"choices", {"p", "q", "r"}},
                            {"label", i % 3}}
                 .dump() +
             "\n";
  const std::string file = write("choose.jsonl", lines);
  const HeadTask t = task({.kind = TaskKind::choose, .data = {file}, .val_data = {file}, .seed = 2}, 6);
  EXPECT_EQ(t.objective().group(), 3);
  EXPECT_EQ(t.samples(), 30);
  const auto fill = [&](int64_t step, int64_t first, int64_t rows) {
    std::vector<int32_t> ids(static_cast<size_t>(rows * t.n_ctx())), targets(ids.size());
    std::vector<float> weights(ids.size(), 1), labels(static_cast<size_t>(rows));
    t.fill(step, first, rows, {ids.data(), targets.data(), weights.data(), nullptr, labels.data()});
    return ids;
  };
  std::multiset<int32_t> seen;
  for (int64_t step = 0; step < 5; ++step) {
    const std::vector<int32_t> ids = fill(step, 0, 6), second = fill(step, 3, 3);
    EXPECT_TRUE(std::equal(second.begin(), second.end(), ids.begin() + 3 * t.n_ctx()));
    for (int64_t row = 0; row < 6; ++row) {
      const int32_t* r = ids.data() + row * t.n_ctx();
      EXPECT_EQ(r[3], 'p' + row % 3) << "the choices of an example in their order";
      seen.insert(r[1]);
    }
  }
  for (int32_t c = 'a'; c < 'a' + 10; ++c)
    EXPECT_EQ(seen.count(c), 3u) << static_cast<char>(c);
  const Trained trained(t, backend_, 0);
  EXPECT_EQ(t.evaluate(trained.model, backend_, kGoOn)->metrics[0].first, "accuracy");
  t.write_files(dir_.path(), trained.model);
  const LoadedModel loaded(dir_.path(), DType::f32, MatrixOrder::rows, {}, device());
  EXPECT_EQ(read_head(loaded).facts.choices, 3);
}

TEST_F(HeadTasks, NumbersAreLearned) {
  std::string lines;
  for (int i = 0; i < 12; ++i)
    lines +=
        nlohmann::json{{"text1", std::string(1, i % 2 == 0 ? 'a' : 'b')}, {"text2", "c"}, {"label", i % 2}}
            .dump() +
        "\n";
  const std::string file = write("similar.jsonl", lines);
  const HeadTask t = task({.kind = TaskKind::similar, .data = {file}, .val_data = {file}});
  const Trained trained(t, backend_, 80);
  const TaskScore score = t.evaluate(trained.model, backend_, kGoOn).value();
  EXPECT_EQ(score.metrics[0].first, "pearson");
  EXPECT_GT(score.metrics[0].second, 0.9);
  const HeadTask classes =
      task({.kind = TaskKind::similar, .data = {file}, .val_data = {file}, .labels = {"0", "1"}});
  EXPECT_FALSE(classes.facts().labels.numbers) << "labels that are given are names";
}

TEST_F(HeadTasks, WeightsOfClassesAreThoseOfTheirExamples) {
  const std::string file = letters();
  const HeadTask t =
      task({.data = {file}, .val_data = {file}, .class_weights = {{"why", 3}}, .aux_weight = 0.5});
  std::vector<int32_t> ids(static_cast<size_t>(80 * t.n_ctx())), targets(ids.size());
  std::vector<float> weights(ids.size(), 1), labels(80);
  t.fill(0, 0, 80, {ids.data(), targets.data(), weights.data(), nullptr, labels.data()});
  for (int64_t row = 0; row < 80; ++row) {
    double sum = 0, own = 0;
    for (int64_t n = row * t.n_ctx(); n < (row + 1) * t.n_ctx(); ++n) {
      const auto at = static_cast<size_t>(n);
      if (targets[at] >= 0) sum += double{weights[at]};
      if (ids[at] == t.facts().tokens.extract) own = double{weights[at]};
    }
    EXPECT_EQ(own, labels[static_cast<size_t>(row)] == 1 ? 3 : 1);
    EXPECT_NEAR(sum, 0.5 * own, 1e-6) << "all tokens of a row together";
  }
}

TEST_F(HeadTasks, RefusesWhatCannotBe) {
  const std::string file = letters();
  const auto refuses = [&](const HeadTaskOptions& options, const std::string& parameter,
                           std::initializer_list<Fact> facts) {
    return refused_parameter([&] { task(options); }, parameter, facts);
  };
  EXPECT_TRUE(refuses({.data = {file}, .aux_weight = -1}, "aux_weight", {0, -1}));
  EXPECT_TRUE(refuses({.data = {file}, .head_dropout = 1}, "head_dropout", {0, 1}));
  EXPECT_TRUE(refuses({.data = {file}, .max_length = 25}, "n_ctx", {8, 24, 25}));
  EXPECT_TRUE(refuses({.data = {file}, .labels = {"ex"}}, "labels", {2, "\"ex\""}));
  EXPECT_TRUE(refuses({.data = {file}, .labels = {"ex", "no", "ex"}}, "labels", {"\"ex\""}));
  EXPECT_TRUE(refuses({.data = {file}, .class_weights = {{"wy", 2}}}, "class_weights", {"wy", "why"}));
  for (const double weight : {-1.0, 1e12, 1e308})
    EXPECT_TRUE(refuses({.data = {file}, .class_weights = {{"why", weight}}}, "class_weights", {"why"}))
        << weight;
  EXPECT_TRUE(refused(
      [&] {
        task({.data = {file}, .labels = {"ex", "no"}});
      },
      file + ":2", {"\"why\"", "\"ex\""}));
  const std::string one = write("one.jsonl", "{\"text\": \"a\", \"label\": 1}\n");
  EXPECT_TRUE(names(error_of([&] { task({.data = {one}}); }), {2, 65536, 1}));
  std::string text =
      "{\"text\": \"" + std::string(30, 'a') + "\", \"label\": 1}\n{\"text\": \"b\", \"label\": 2}\n";
  const std::string both = write("long.jsonl", text);
  EXPECT_TRUE(
      refused([&] { task({.data = {both}, .val_data = {both}, .long_examples = LongExamples::refuse}); },
              both + ":1", {24}));
  const HeadTask skipped =
      task({.data = {both}, .val_data = {both}, .skip_bad = true, .long_examples = LongExamples::refuse});
  EXPECT_EQ(skipped.samples(), 1);
  const HeadTask cut = task({.data = {both}, .val_data = {both}});
  EXPECT_EQ(cut.n_ctx(), 24);
  EXPECT_TRUE(names(cut.describe(), {1, 24}));
}

TEST_F(HeadTasks, DamagedFilesOfAHeadAreRefused) {
  const HeadTask t = task({.data = {letters()}});
  const Trained trained(t, backend_, 0);
  t.write_files(dir_.path(), trained.model);
  const auto error = [&](const std::string& text) {
    write_file_atomic(dir_.file("task.json"), text);
    const LoadedModel loaded(dir_.path(), DType::f32, MatrixOrder::rows, {}, device());
    return error_of([&] { read_head(loaded); });
  };
  const std::string good = task_json(t.facts());
  EXPECT_EQ(error(good), "no error");
  const auto with = [&](const char* key, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(good);
    json[key] = value;
    return error(json.dump());
  };
  for (const std::string& message :
       {error("[]"), error("{"), with("task", "sing"), with("labels", {"a"}), with("labels", {"a", "b", "c"}),
        with("max_length", 1000), with("tokens", {{"start", 1}, {"delimiter", 2}, {"extract", 259}}),
        with("numbers", true), with("max_length", "x")}) {
    EXPECT_TRUE(names(message, {"task.json"}));
  }
  std::filesystem::remove(dir_.file("task.json"));
  const LoadedModel loaded(dir_.path(), DType::f32, MatrixOrder::rows, {}, device());
  EXPECT_TRUE(names(error_of([&] { read_head(loaded); }), {dir_.path(), "task.json", "--task"}));
}

}  // namespace
}  // namespace gpt::test
