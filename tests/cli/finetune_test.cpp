// Tests gpt finetune with conversations, preferences and rewards: the resulting models, resuming, and refused
// inputs.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run_gpt.h"
#include "support/compress.h"
#include "support/temp_dir.h"

namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// Trains a small model with its own tokenizer and writes examples of each kind.
class Finetune : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<gpt::test::TempDir>();
    std::ofstream(file("text.txt")) << run_gpt({"data", "tales", "--bytes", "20000", "--seed", "3"}).out;
    GptRun run = run_gpt({"tokenizer", "train", "--data", file("text.txt"), "--vocab-size", "280", "--out",
                          file("tokenizer")});
    ASSERT_EQ(run.status, 0) << run.err;
    run = run_gpt({"train", "--data", file("text.txt"), "--tokenizer", file("tokenizer"), "--n-layer", "1",
                   "--n-head", "2", "--n-embd", "32", "--n-ctx", "64", "--steps", "3", "--threads", "1",
                   "--out", file("base")});
    ASSERT_EQ(run.status, 0) << run.err;
    std::ofstream chat(file("chat.jsonl")), pairs(file("pairs.jsonl")), asked(file("asked.jsonl"));
    for (int i = 0; i < 40; ++i) {
      const std::string name = std::string(1, static_cast<char>('a' + i % 4));
      chat << json{{"messages",
                    {{{"role", "user"}, {"content", "Say " + name}},
                     {{"role", "assistant"}, {"content", name + name}}}}}
                  .dump()
           << "\n";
      pairs << json{{"prompt", name}, {"chosen", "yes " + std::to_string(i)}, {"rejected", "no"}}.dump()
            << "\n";
      asked << json{{"prompt", name}, {"answer", "e"}}.dump() << "\n";
    }
  }
  static void TearDownTestSuite() { dir_.reset(); }
  static std::string file(const std::string& name) { return dir_->file(name); }
  static std::string content(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(file(name), std::ios::binary).rdbuf();
    return text.str();
  }
  static GptRun finetune(const std::string& task, const std::string& data, const std::string& out,
                         const Words& more) {
    Words words = {"finetune", file("base"), "--task",  task,        "--data",
                   file(data), "--out",      file(out), "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_gpt(words);
  }
  // Checks that a run with an interruption has the same result as an uninterrupted run.
  static void expect_resumes(const std::string& task, const std::string& data, const Words& more,
                             const std::string& result) {
    GptRun run = finetune(task, data, task + "-whole", more);
    ASSERT_EQ(run.status, 0) << run.err;
    Words stopped = more;
    stopped.insert(stopped.end(), {"--stop-after", "3"});
    run = finetune(task, data, task + "-parts", stopped);
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(names(run.err, {"gpt finetune --resume --out " + file(task + "-parts")}));
    run = run_gpt({"finetune", "--resume", "--out", file(task + "-parts"), "--threads", "2"});
    ASSERT_EQ(run.status, 0) << run.err;
    const std::string whole = content(task + "-whole/last/" + result);
    EXPECT_FALSE(whole.empty());
    EXPECT_TRUE(whole == content(task + "-parts/last/" + result));
  }
  static std::unique_ptr<gpt::test::TempDir> dir_;
};
std::unique_ptr<gpt::test::TempDir> Finetune::dir_;

TEST_F(Finetune, ChatLearnsWhatTheAssistantSaysAndTalks) {
  const GptRun run = finetune("chat", "chat.jsonl", "talker",
                              {"--template", "chatml", "--lr", "1e-2", "--batch-size", "4", "--steps", "80"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.err, {"step 80"}));
  EXPECT_NE(run.err.find("\u00abaa<|im_end|>\u00bb"), std::string::npos) << "the preview: " << run.err;
  EXPECT_TRUE(names(content("talker/report.html"), {"gpt chat " + file("talker/best")}));
  const GptRun answer =
      run_gpt({"chat", file("talker/best"), "--greedy", "--max-tokens", "10", "--prompt", "Say b"});
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_EQ(answer.out, "bb\n");

  // With its chat template, the model answers every question correctly. Without the template, it treats the
  // question as a text to continue.
  std::ofstream(file("said.jsonl")) << R"({"q": "Say b", "a": "bb"})"
                                       "\n"
                                       R"({"q": "Say d", "a": "dd"})"
                                       "\n";
  std::ofstream(file("said.yaml"))
      << "task: said\ndataset_path: json\ndataset_kwargs: {data_files: {test: "
         "said.jsonl}}\ntest_split: test\noutput_type: generate_until\ndoc_to_text: "
         "q\ndoc_to_target: a\ngeneration_kwargs: {until: [\"\\n\"], max_gen_toks: 10}\n"
         "metric_list: [{metric: exact_match}]\n";
  const auto score = [&](const Words& more) {
    Words words = {"eval", file("talker/best"), "--tasks", file("said.yaml"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const GptRun eval = run_gpt(words);
    EXPECT_EQ(eval.status, 0) << eval.err;
    return json::parse(eval.out)["results"][0]["metrics"][0]["value"].get<double>();
  };
  EXPECT_EQ(score({"--template", "own", "--log-samples", file("said.log")}), 1);
  EXPECT_TRUE(names(content("said.log"), {R"(<|im_start|>user\nSay b<|im_end|>\n<|im_start|>assistant\n)"}));
  EXPECT_LT(score({}), 1);
  const std::string choice = std::string(GPT_SOURCE_DIR) + "/tests/data/tasks/tasks/choice.yaml";
  const std::pair<Words, Facts> cases[] = {
      {{"--few-shot", "1"}, {"said", 1, "--few-shot 0"}},
      {{"--tasks", choice}, {"choice", "generate_until", "multiple_choice", "--template"}}};
  for (const auto& [wrong, facts] : cases) {
    Words words = {"eval", file("talker/best"), "--tasks",        file("said.yaml"), "--template",
                   "own",  "--log-samples",     file("wrong.log")};
    words.insert(words.end(), wrong.begin(), wrong.end());
    const GptRun eval = run_gpt(words);
    EXPECT_EQ(eval.status, 1);
    EXPECT_TRUE(names(eval.err, facts));
    EXPECT_FALSE(std::filesystem::exists(file("wrong.log"))) << "no task has run";
  }
}

// gpt train --init-from keeps the chat template of a model folder or GGUF file.
TEST_F(Finetune, TrainingAChatModelFurtherKeepsItsTemplate) {
  GptRun run = finetune("chat", "chat.jsonl", "polite", {"--template", "chatml", "--steps", "1"});
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string jinja = content("polite/best/chat_template.jinja");
  ASSERT_FALSE(jinja.empty());
  run = run_gpt({"convert", file("polite"), file("polite.gguf")});
  ASSERT_EQ(run.status, 0) << run.err;
  for (const std::string from : {"polite", "polite.gguf"}) {
    const std::string out = from == "polite" ? "of-folder" : "of-gguf";
    run = run_gpt({"train", "--init-from", file(from), "--data", file("text.txt"), "--steps", "2",
                   "--stop-after", "1", "--eval-every", "1", "--threads", "1", "--out", file(out)});
    ASSERT_EQ(run.status, 0) << run.err;
    run = run_gpt({"train", "--resume", "--out", file(out), "--threads", "1"});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(content(out + "/best/chat_template.jinja"), jinja);
    EXPECT_EQ(content(out + "/last/chat_template.jinja"), jinja);
    run = run_gpt({"convert", file(out), file(out + "-hf")});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(content(out + "-hf/chat_template.jinja"), jinja);
  }
}

// Further fine-tuning formats prompts with the same template, and the resulting models keep it.
TEST_F(Finetune, RewardsAndPreferencesKeepTheTemplate) {
  GptRun run = finetune("chat", "chat.jsonl", "speaker",
                        {"--template", "chatml", "--batch-size", "4", "--steps", "4"});
  ASSERT_EQ(run.status, 0) << run.err;
  const json question = {{{"role", "user"}, {"content", "Say b"}}};
  std::ofstream(file("rewards.jsonl")) << json{{"messages", question}, {"answer", "bb"}}.dump() << "\n"
                                       << json{{"messages", question}, {"answer", "cc"}}.dump() << "\n";
  std::ofstream pairs(file("chat_pairs.jsonl"));
  for (const char* chosen : {"bb", "cc"}) {
    const json answer = {{{"role", "assistant"}, {"content", chosen}}},
               worse = {{{"role", "assistant"}, {"content", "no"}}};
    pairs << json{{"prompt", question}, {"chosen", answer}, {"rejected", worse}}.dump() << "\n";
  }
  pairs.close();
  const std::string jinja = content("speaker/last/chat_template.jinja");
  EXPECT_FALSE(jinja.empty());
  for (const auto& [task, data] : {std::pair{"grpo", "rewards.jsonl"}, {"dpo", "chat_pairs.jsonl"}}) {
    const std::string out = std::string("speaker-") + task;
    Words words = {"finetune", file("speaker"), "--task",  task,           "--data", file(data), "--val-data",
                   file(data), "--out",         file(out), "--batch-size", "2",      "--steps",  "1"};
    if (task == std::string("grpo")) words.insert(words.end(), {"--rollouts", "2"});
    run = run_gpt(words);
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(content(out + "/last/chat_template.jinja"), jinja) << task;
    EXPECT_EQ(run_gpt({"chat", file(out), "--max-tokens", "2", "--prompt", "Say b"}).status, 0);
  }
}

TEST_F(Finetune, CompressedConversationsTrainTheSameModel) {
  gpt::test::write_plain_file(file("packed.jsonl.gz"), gpt::test::gzip(content("chat.jsonl")));
  const Words more = {"--template", "chatml", "--steps", "2"};
  for (const auto& [data, out] : {std::pair{"chat.jsonl", "of-plain"}, {"packed.jsonl.gz", "of-packed"}}) {
    const GptRun run = finetune("chat", data, out, more);
    ASSERT_EQ(run.status, 0) << run.err;
  }
  EXPECT_EQ(content("of-packed/last/model.safetensors"), content("of-plain/last/model.safetensors"));
}

// Uses an adapter of one fine-tuned model with a different model.
TEST_F(Finetune, AnAdapterOfAnotherModelIsNoted) {
  const Words chatml = {"--template", "chatml", "--steps", "1"};
  for (const char* out : {"one", "two"})
    ASSERT_EQ(finetune("chat", "chat.jsonl", out, chatml).status, 0);
  const GptRun run = run_gpt({"finetune", file("one"), "--task", "chat", "--data", file("chat.jsonl"),
                              "--lora-rank", "4", "--steps", "1", "--out", file("of-one"), "--threads", "1"});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto chat = [&](const std::string& model) {
    return run_gpt(
        {"chat", file(model), "--adapter", file("of-one"), "--prompt", "Say b", "--max-tokens", "2"});
  };
  const GptRun own = chat("one"), other = chat("two"), base = chat("base");
  EXPECT_EQ(own.status, 0) << own.err;
  EXPECT_FALSE(names(own.err, {"note:"})) << own.err;
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_TRUE(names(other.err, {file("of-one"), file("one"), file("two")}));
  EXPECT_NE(base.status, 0);
  EXPECT_TRUE(names(base.err, {file("of-one"), file("one"), file("base")}));
  const GptRun eval = run_gpt(
      {"eval", file("two"), "--adapter", file("of-one"), "--data", file("text.txt"), "--limit", "100"});
  EXPECT_TRUE(names(eval.err, {file("of-one"), file("one"), file("two")}));
}

TEST_F(Finetune, ChatResumes) {
  expect_resumes("chat", "chat.jsonl", {"--template", "chatml", "--batch-size", "2", "--steps", "7"},
                 "model.safetensors");
}

TEST_F(Finetune, PreferencesComeIntoOrderAndResume) {
  expect_resumes("dpo", "pairs.jsonl", {"--lr", "1e-2", "--batch-size", "8", "--steps", "8"},
                 "model.safetensors");
  const GptRun run =
      finetune("dpo", "pairs.jsonl", "ordered", {"--lr", "1e-2", "--batch-size", "8", "--steps", "12"});
  EXPECT_TRUE(names(run.err, {"loss 0.6931"})) << "of a model beside itself";
  EXPECT_TRUE(names(run.err.substr(run.err.find("step 12,")), {"4 of 4"})) << "of the pairs";
}

// The test reads the configs of the runs, because they contain the values used in training.
TEST_F(Finetune, DropoutIsThatOfTheModelTheFlagOrTheTask) {
  std::filesystem::copy(file("base/last"), file("dropping"), std::filesystem::copy_options::recursive);
  std::filesystem::remove(file("dropping/manifest.json"));
  json config = json::parse(content("dropping/config.json"));
  for (const char* part : {"embd_pdrop", "attn_pdrop", "resid_pdrop"})
    config[part] = 0.125;
  std::ofstream(file("dropping/config.json")) << config.dump();
  std::ofstream(file("dropout.json")) << R"({"dropout": 0.5})";
  const auto dropouts = [](const std::string& task, const std::string& data, const Words& more,
                           const Words& environment = {}) {
    Words words = {"finetune", file("dropping"), "--task", task,    "--data",        file(data),  "--steps",
                   "1",        "--batch-size",   "2",      "--out", file("dropped"), "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    std::filesystem::remove_all(file("dropped"));
    const GptRun run = run_gpt(words, environment);
    EXPECT_EQ(run.status, 0) << run.err;
    const json made = json::parse(content("dropped/config.json"));
    return std::vector<double>{made["embd_dropout"], made["attn_dropout"], made["resid_dropout"]};
  };
  using Numbers = std::vector<double>;
  const Words chatml = {"--template", "chatml"};
  const auto chat = [&](Words more, const Words& environment = {}) {
    more.insert(more.end(), chatml.begin(), chatml.end());
    return dropouts("chat", "chat.jsonl", more, environment);
  };
  EXPECT_EQ(chat({}), (Numbers{0.125, 0.125, 0.125}));
  EXPECT_EQ(chat({"--dropout", "0"}), (Numbers{0, 0, 0}));
  EXPECT_EQ(chat({"--attn-dropout", "0.25", "--dropout", "0"}), (Numbers{0, 0.25, 0}));
  EXPECT_EQ(chat({}, {"GPT_DROPOUT=0.25"}), (Numbers{0.25, 0.25, 0.25}));
  EXPECT_EQ(chat({"--config", file("dropout.json")}), (Numbers{0.5, 0.5, 0.5}));
  EXPECT_EQ(chat({"--config", file("dropout.json"), "--dropout", "0.25"}, {"GPT_DROPOUT=0"}),
            (Numbers{0.25, 0.25, 0.25}));
  // Preference and reward tasks compare two forward passes of a model, so their default is no dropout.
  EXPECT_EQ(dropouts("dpo", "pairs.jsonl", {}), (Numbers{0, 0, 0}));
  EXPECT_EQ(dropouts("dpo", "pairs.jsonl", {"--dropout", "0.25"}), (Numbers{0.25, 0.25, 0.25}));
  EXPECT_EQ(dropouts("grpo", "asked.jsonl", {"--rollouts", "2", "--max-tokens", "2"}), (Numbers{0, 0, 0}));
  const GptRun further = run_gpt({"train", "--init-from", file("dropping"), "--data", file("text.txt"),
                                  "--dropout", "0.25", "--steps", "1", "--warmup", "0", "--eval-every", "0",
                                  "--out", file("dropped-more"), "--threads", "1"});
  EXPECT_EQ(further.status, 0) << further.err;
  const json made = json::parse(content("dropped-more/config.json"));
  EXPECT_EQ((Numbers{made["embd_dropout"], made["attn_dropout"], made["resid_dropout"]}),
            (Numbers{0.25, 0.25, 0.25}));
}

// Returns the first record of a metrics file that has a gradient norm.
json first_metrics(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const json record = json::parse(line);
    if (record.contains("grad_norm")) return record;
  }
  return {};
}

TEST_F(Finetune, APolicyBeginsAsItsReference) {
  std::filesystem::copy(file("base/last"), file("reference"), std::filesystem::copy_options::recursive);
  std::filesystem::remove(file("reference/manifest.json"));
  json config = json::parse(content("reference/config.json"));
  for (const char* part : {"embd_pdrop", "attn_pdrop", "resid_pdrop"})
    config[part] = 0.5;
  std::ofstream(file("reference/config.json")) << config.dump();
  const GptRun run = run_gpt({"finetune", file("reference"), "--task", "dpo", "--data", file("pairs.jsonl"),
                              "--steps", "1", "--out", file("policy"), "--threads", "1"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NEAR(first_metrics(content("policy/metrics.jsonl"))["loss"].get<double>(), std::log(2.0), 1e-6);
}

// A prompt whose responses all have the same reward adds nothing to the gradient. The tokens of such a prompt
// still count in the divisor of the sum. With such a prompt in the batch, the gradient is therefore half as
// large as without it.
TEST_F(Finetune, PromptsWithoutContrastCountInTheGradient) {
  std::ofstream(file("one.jsonl")) << json{{"prompt", "a"}, {"answer", "x"}}.dump() << "\n";
  std::ofstream(file("two.jsonl")) << json{{"prompt", "a"}, {"answer", "x"}}.dump() << "\n"
                                   << json{{"prompt", "b"}, {"answer", "x"}}.dump() << "\n";
  // The reward of a response to prompt a depends on its position in the group. Responses to prompt b have a
  // constant reward.
  const std::string judge = R"(awk '{print /"prompt":"a"/ ? n++ % 4 : 1}')";
  const auto norm = [&](const std::string& data, int batch, int seed) {
    const std::string out = "contrast-" + std::to_string(batch);
    std::filesystem::remove_all(file(out));
    const GptRun run = run_gpt({"finetune",
                                file("base"),
                                "--task",
                                "grpo",
                                "--data",
                                file(data),
                                "--val-fraction",
                                "0",
                                "--reward",
                                "command",
                                "--reward-command",
                                judge,
                                "--rollouts",
                                "4",
                                "--max-tokens",
                                "1",
                                "--steps",
                                "1",
                                "--seed",
                                std::to_string(seed),
                                "--batch-size",
                                std::to_string(batch),
                                "--out",
                                file(out),
                                "--threads",
                                "1"});
    EXPECT_EQ(run.status, 0) << run.err;
    return first_metrics(content(out + "/metrics.jsonl"))["grad_norm"].get<double>();
  };
  // Only some seeds put prompt a first, so that its responses are the same in both runs. Requires one such
  // seed.
  int compared = 0;
  for (int seed = 1; seed <= 6; ++seed) {
    const double alone = norm("one.jsonl", 4, seed), both = norm("two.jsonl", 8, seed);
    compared += std::abs(both / alone - 0.5) < 1e-3 ? 1 : 0;
  }
  EXPECT_GE(compared, 1);
  EXPECT_EQ(json::parse(content("contrast-4/finetune.json"))["top_k"], 0);
}

// Fine-tuning does not support sharded weights (--zero 3), and its help does not mention them.
TEST_F(Finetune, ZeroThreeIsForTrainingAlone) {
  const GptRun run =
      finetune("chat", "chat.jsonl", "divided", {"--template", "chatml", "--steps", "1", "--zero", "3"});
  EXPECT_EQ(run.status, 2);
  EXPECT_TRUE(names(run.err, {"--zero", 1, 2, 3}));
  const std::string help = run_gpt({"finetune", "--help-all"}).out;
  const size_t zero = help.find("--zero");
  ASSERT_NE(zero, std::string::npos);
  EXPECT_FALSE(names(help.substr(zero, help.find("--", zero + 2) - zero), {3}));
}

TEST_F(Finetune, AdaptersAreTrainedAlone) {
  const Words lora = {"--lora-rank", "4", "--lr", "1e-2", "--batch-size", "8", "--steps", "8"};
  Words words = lora;
  GptRun run = finetune("dpo", "pairs.jsonl", "lora", words);
  ASSERT_EQ(run.status, 0) << run.err;
  const json adapter = json::parse(run_gpt({"info", file("lora/best"), "--json"}).out);
  EXPECT_TRUE(names(run.err, {adapter["parameters"].get<int64_t>(), 25824}));
  EXPECT_FALSE(std::filesystem::exists(file("lora/best/model.safetensors")));
  const GptRun base = run_gpt({"generate", file("base"), "--ids", "1,2", "--greedy", "-n", "8", "--json"});
  const GptRun with = run_gpt({"generate", file("base"), "--adapter", file("lora/best"), "--ids", "1,2",
                               "--greedy", "-n", "8", "--json"});
  EXPECT_EQ(with.status, 0) << with.err;
  EXPECT_NE(with.out, base.out);
  words.insert(words.end(), {"--stop-after", "3"});
  run = finetune("dpo", "pairs.jsonl", "lora-parts", words);
  run = run_gpt({"finetune", "--resume", "--out", file("lora-parts")});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(content("lora/last/adapter_model.safetensors") ==
              content("lora-parts/last/adapter_model.safetensors"));
}

// Only the adapter was trained to chat, so the chat template is part of the adapter.
TEST_F(Finetune, AnAdapterChatsBesideItsModel) {
  const GptRun first = finetune("chat", "chat.jsonl", "words", {"--template", "chatml", "--steps", "1"});
  ASSERT_EQ(first.status, 0) << first.err;
  std::filesystem::remove(file("words/last/chat_template.jinja"));
  const GptRun run =
      run_gpt({"finetune", file("words/last"), "--task", "chat", "--data", file("chat.jsonl"), "--template",
               "chatml", "--lora-rank", "4", "--steps", "2", "--out", file("lora-chat"), "--threads", "1"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.err, {"gpt chat " + file("words/last") + " --adapter " + file("lora-chat/best")}));
  const Words talk = {"--prompt", "Say b", "--max-tokens", "2"};
  const auto chat = [&](Words words) {
    words.insert(words.end(), talk.begin(), talk.end());
    return run_gpt(words);
  };
  EXPECT_NE(chat({"chat", file("words/last")}).status, 0);
  const GptRun with = chat({"chat", file("words/last"), "--adapter", file("lora-chat/best")});
  EXPECT_EQ(with.status, 0) << with.err;
  const GptRun merged =
      run_gpt({"convert", file("words/last"), file("merged"), "--adapter", file("lora-chat/best")});
  ASSERT_EQ(merged.status, 0) << merged.err;
  EXPECT_EQ(chat({"chat", file("merged")}).status, 0);
}

// An adapter is only valid with the base weights that it was trained on.
TEST_F(Finetune, ResumingBesideAnotherModelIsRefused) {
  std::filesystem::copy(file("base/last"), file("changing"), std::filesystem::copy_options::recursive);
  const GptRun run = run_gpt({"finetune", file("changing"), "--task", "dpo", "--data", file("pairs.jsonl"),
                              "--lora-rank", "2", "--steps", "4", "--stop-after", "2", "--batch-size", "4",
                              "--out", file("beside"), "--threads", "1"});
  ASSERT_EQ(run.status, 0) << run.err;
  std::string weights = content("changing/model.safetensors");
  weights[weights.size() - 1] ^= 1;
  std::ofstream(file("changing/model.safetensors"), std::ios::binary) << weights;
  std::filesystem::remove(file("changing/manifest.json"));
  const GptRun resumed = run_gpt({"finetune", "--resume", "--out", file("beside")});
  EXPECT_EQ(resumed.status, 1);
  EXPECT_TRUE(names(resumed.err, {"base_hash", "--init-from"}));
}

// The checkpoint does not contain finetune.json and the reference model, but both affect the next steps.
TEST_F(Finetune, ResumingWithChangedFilesIsRefused) {
  const GptRun run = finetune("dpo", "pairs.jsonl", "changed", {"--steps", "4", "--stop-after", "2"});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto resume = [] {
    return run_gpt({"finetune", "--resume", "--out", file("changed"), "--threads", "1"});
  };
  const std::string settings = content("changed/finetune.json");
  for (const char* key : {"beta", "head_dropout", "template"}) {
    nlohmann::json changed = nlohmann::json::parse(settings);
    changed[key] = changed[key].is_string() ? nlohmann::json("chatml") : nlohmann::json(0.7);
    std::ofstream(file("changed/finetune.json")) << changed.dump();
    expect_error(resume(), 1, {file("changed/finetune.json"), key});
  }
  std::ofstream(file("changed/finetune.json")) << settings;
  const std::string reference = content("changed/reference.safetensors");
  std::string damaged = reference;
  damaged[damaged.size() - 2] ^= 0x40;
  std::ofstream(file("changed/reference.safetensors"), std::ios::binary) << damaged;
  expect_error(resume(), 1, {file("changed/reference.safetensors")});
  std::ofstream(file("changed/reference.safetensors"), std::ios::binary) << reference;
  EXPECT_EQ(resume().status, 0);
}

// If the reward command fails, the steps completed before are saved.
TEST_F(Finetune, AFailingRewardLosesNoStep) {
  const std::string count = file("count");
  const GptRun run = finetune(
      "grpo", "asked.jsonl", "failing",
      {"--reward", "command", "--reward-command",
       "echo x >> " + count + "; [ $(wc -l < " + count + ") -lt 4 ] && awk '{print 1}'", "--batch-size", "4",
       "--rollouts", "2", "--max-tokens", "2", "--eval-every", "0", "--steps", "9"});
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(names(run.err, {file("failing/last"), "step 3"}));
  const GptRun slow =
      finetune("grpo", "asked.jsonl", "slow",
               {"--reward", "command", "--reward-command", "awk '{print 1}'; exec 1>&-; sleep 60",
                "--reward-seconds", "1", "--steps", "1", "--batch-size", "4", "--rollouts", "2"});
  EXPECT_EQ(slow.status, 1);
  EXPECT_TRUE(names(slow.err, {"1 s"}));
}

// If the labels are the same, further training of a classifier continues with its existing head.
TEST_F(Finetune, AHeadIsTrainedFurther) {
  std::ofstream data(file("labelled.jsonl")), other(file("other.jsonl"));
  for (int i = 0; i < 40; ++i) {
    const std::string text = i % 2 == 0 ? "the fox ran" : "a cold sea";
    data << json{{"text", text}, {"label", i % 2 == 0 ? "run" : "sea"}}.dump() << "\n";
    other << json{{"text", text}, {"label", i % 2 == 0 ? "a" : "b"}}.dump() << "\n";
  }
  data.close();
  other.close();
  const GptRun run =
      finetune("classify", "labelled.jsonl", "head", {"--lr", "1e-2", "--batch-size", "4", "--steps", "20"});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto further = [&](const std::string& name, const std::string& out) {
    return run_gpt({"finetune", file("head/last"), "--task", "classify", "--data", file(name), "--lr", "1e-9",
                    "--steps", "1", "--out", file(out), "--threads", "1"});
  };
  const auto held_out_loss = [&](const std::string& out) {
    std::istringstream lines(content(out + "/metrics.jsonl"));
    double loss = -1;
    for (std::string line; std::getline(lines, line);) {
      const json record = json::parse(line);
      if (record.contains("val_loss")) loss = record["val_loss"];
    }
    return loss;
  };
  const GptRun same = further("labelled.jsonl", "further"), new_head = further("other.jsonl", "anew");
  const auto notes = [](const std::string& text) {
    size_t n = 0;
    for (size_t at = text.find("note: "); at != std::string::npos; at = text.find("note: ", at + 1))
      ++n;
    return n;
  };
  EXPECT_NEAR(held_out_loss("further"), held_out_loss("head"), 1e-4);
  EXPECT_EQ(notes(new_head.err), notes(same.err) + 1) << "that a new head is made";
  EXPECT_GT(held_out_loss("anew"), held_out_loss("head"));
}

TEST_F(Finetune, RewardsRiseAndResume) {
  expect_resumes("grpo", "asked.jsonl",
                 {"--reward", "regex", "--lr", "1e-2", "--batch-size", "16", "--rollouts", "4",
                  "--max-tokens", "4", "--steps", "6"},
                 "model.safetensors");
  const GptRun run = finetune("grpo", "asked.jsonl", "rewarded",
                              {"--reward", "regex", "--lr", "1e-2", "--batch-size", "32", "--rollouts", "8",
                               "--max-tokens", "6", "--steps", "40"});
  EXPECT_TRUE(names(run.err, {"reward 1.0000", "step 10"}));
  EXPECT_TRUE(names(content("rewarded/metrics.jsonl"), {"\"answer_tokens\""}));
}

TEST_F(Finetune, AnswersMayBeNumbersOrBooleans) {
  std::ofstream(file("numbers.jsonl")) << R"({"prompt": "a", "answer": 3})"
                                          "\n"
                                          R"({"prompt": "b", "answer": true})"
                                          "\n";
  const std::string judge = "tee " + file("judged") + " | sed s/.*/0/";
  const GptRun run =
      finetune("grpo", "numbers.jsonl", "numbers",
               {"--val-data", file("numbers.jsonl"), "--reward", "command", "--reward-command", judge,
                "--rollouts", "2", "--batch-size", "4", "--max-tokens", "2", "--steps", "1"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(content("judged").find(R"("answer":"3")"), std::string::npos);
  EXPECT_NE(content("judged").find(R"("answer":"true")"), std::string::npos);
}

TEST_F(Finetune, SaysWhatIsWrongAndWhere) {
  const auto refused = [](const GptRun& run, int status, const Facts& facts) {
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_TRUE(names(run.err, facts));
  };
  const auto with_line = [](const std::string& name, const std::string& like, const std::string& line) {
    std::ofstream(file(name)) << content(like) << line << "\n";
    return name;
  };
  refused(
      finetune("dpo", with_line("short.jsonl", "pairs.jsonl", R"({"prompt": "a", "chosen": "b"})"), "no", {}),
      1,
      {file("short.jsonl:41"), "--task dpo", R"("prompt", "chosen", "rejected")", R"("prompt", "chosen")"});
  refused(
      finetune("dpo",
               with_line("same.jsonl", "pairs.jsonl", R"({"prompt": "a", "chosen": "b", "rejected": "b"})"),
               "no", {}),
      1, {file("same.jsonl:41"), "\"chosen\"", "\"rejected\""});
  refused(
      finetune(
          "dpo",
          with_line("lists.jsonl", "pairs.jsonl",
                    R"({"prompt": "a", "chosen": [{"role": "assistant", "content": "b"}], "rejected": "c"})"),
          "no", {}),
      1, {file("lists.jsonl:41"), "\"prompt\""});
  refused(finetune("grpo",
                   with_line("said.jsonl", "asked.jsonl",
                             R"({"messages": [{"role": "assistant", "content": "b"}], "answer": "b"})"),
                   "no", {}),
          1, {file("said.jsonl:41"), "assistant"});
  refused(
      finetune("grpo", with_line("list.jsonl", "asked.jsonl", R"({"prompt": "a", "answer": [3]})"), "no", {}),
      1, {file("list.jsonl:41"), "\"answer\"", "array"});
  refused(finetune("grpo", "asked.jsonl", "no", {"--reward", "number"}), 1,
          {file("asked.jsonl:1"), "\"answer\"", "--reward number", "\"e\""});
  std::ofstream(file("alpaca.jsonl")) << R"({"instruction": "a", "input": "", "output": "b"})"
                                         "\n";
  const std::string alpaca = file("alpaca.jsonl:1"), fields = R"("instruction", "input", "output")";
  refused(finetune("dpo", "alpaca.jsonl", "no", {}), 1,
          {alpaca, "--task dpo", R"("prompt", "chosen", "rejected")", fields, "--task chat", "\"messages\""});
  refused(finetune("grpo", "alpaca.jsonl", "no", {}), 1,
          {alpaca, "--task grpo", R"("prompt", "answer")", fields, "--task chat", "\"messages\""});
  refused(finetune("chat", "alpaca.jsonl", "no", {"--template", "chatml"}), 1,
          {alpaca, "\"messages\"", "\"conversations\"", fields});
  std::ofstream(file("talk.jsonl"))
      << R"({"prompt": [{"role": "user", "content": "a"}], "chosen": "b", "rejected": "c"})"
         "\n";
  const std::string place = file("talk.jsonl:1");
  const GptRun talk = finetune("dpo", "talk.jsonl", "no", {});
  refused(talk, 1, {place, file("base/best"), "--template chatml"});
  EXPECT_EQ(talk.err.find(place, talk.err.find(place) + 1), std::string::npos) << talk.err;
  refused(
      finetune("grpo", "asked.jsonl", "no", {"--reward", "exact", "--batch-size", "4", "--rollouts", "16"}),
      2, {"--batch-size", "--rollouts 16", 4, "--rollouts 4"});
  refused(finetune("dpo", "pairs.jsonl", "no", {"--lora-rank", "2", "--lora-targets", "q_proj"}), 2,
          {"--lora-targets", "\"q_proj\"", "all-linear", "attn.c_attn"});
  refused(finetune("grpo", "asked.jsonl", "no", {"--reward", "command", "--reward-command", "echo WORDS"}), 1,
          {"\"WORDS\""});
  refused(
      finetune("chat",
               with_line("role.jsonl", "chat.jsonl", R"({"messages": [{"role": "king", "content": "x"}]})"),
               "no", {"--template", "chatml"}),
      1, {file("role.jsonl:41"), 1, "\"king\""});
  refused(finetune("chat", "chat.jsonl", "no", {}), 1, {file("base/best"), "--template chatml", "llama3"});
  refused(finetune("chat", "chat.jsonl", "no", {"--template", "chatml", "--long-conversations", "banana"}), 2,
          {"--long-conversations", "truncate", "banana"});
  refused(finetune("chat", "chat.jsonl", "no", {"--template", "chatml", "--n-ctx", "8"}), 1,
          {file("chat.jsonl"), 8, 40, "--n-ctx", "--long-conversations"});
  std::ofstream(file("list.jsonl")) << "[\n"
                                    << content("chat.jsonl").substr(0, content("chat.jsonl").find('\n'))
                                    << "\n]\n";
  refused(finetune("chat", "list.jsonl", "no", {"--template", "chatml"}), 1,
          {file("list.jsonl"), "JSON Lines"});
  refused(finetune("dpo", "list.jsonl", "no", {"--skip-bad"}), 1, {file("list.jsonl"), "JSON Lines"});
  refused(finetune("classify", "pairs.jsonl", "no", {"--lora-rank", "4"}), 2,
          {"--lora-rank", "--task classify"});
  refused(finetune("grpo", "asked.jsonl", "no", {"--rollouts", "0"}), 2, {"--rollouts", 2, 4096, 0});
  refused(finetune("dpo", "pairs.jsonl", "no", {"--beta", "nan"}), 2, {"--beta", "nan"});
  refused(finetune("dance", "pairs.jsonl", "no", {}), 2, {"--task", "classify", "grpo", "\"dance\""});
  refused(finetune("dpo", "pairs.jsonl", "no", {"--rslora"}), 2, {"--rslora", "--lora-rank"});
  refused(finetune("dpo", "pairs.jsonl", "no", {"--rollouts", "4"}), 2, {"--rollouts", "--task dpo"});
  refused(finetune("chat", "chat.jsonl", "no", {"--labels", "a", "b"}), 2, {"--labels", "--task chat"});
  refused(finetune("dpo", "pairs.jsonl", "no", {"--lora-rank", "2", "--freeze", "wte.*"}), 2,
          {"--freeze", "--lora-rank"});
  refused(run_gpt({"finetune", "--resume", "--out", file("base")}), 1, {file("base")});
  const GptRun tuned = finetune("dpo", "pairs.jsonl", "tuned", {"--steps", "1"});
  refused(run_gpt({"finetune", "--resume", "--out", file("tuned"), "--beta", "3"}), 2, {"--beta"});
  refused(run_gpt({"finetune", "--resume", "--out", file("tuned"), "--lr", "3"}), 2, {"--lr"});
  refused(run_gpt({"train", "--resume", "--out", file("tuned")}), 1,
          {file("tuned"), "gpt finetune --resume --out " + file("tuned")});
  std::ofstream(file("all_bad.jsonl")) << "{\"a\": 1}\n{\"a\": 2}\n{\"a\": 3}\n";
  for (const Words& task : {Words{"classify"}, {"chat", "--template", "chatml"}, {"dpo"}, {"grpo"}}) {
    Words more(task.begin() + 1, task.end());
    more.emplace_back("--skip-bad");
    refused(finetune(task[0], "all_bad.jsonl", "no", more), 1,
            {file("all_bad.jsonl"), 3, file("all_bad.jsonl:1")});
  }
  const GptRun skipped = finetune("dpo", "short.jsonl", "skipped", {"--skip-bad", "--steps", "1"});
  EXPECT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_TRUE(names(skipped.err, {1, file("short.jsonl:41")}));
}

}  // namespace
