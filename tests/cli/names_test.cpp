// Tests flag names of other programs, short flags, positional texts, and short and long help.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

using nlohmann::json;

const std::string kModel = GPT_SOURCE_DIR "/tests/golden/data/gpt2";

// Returns a path in a temporary folder of this process, because tests run concurrently.
std::string own_path(const std::string& name) {
  static const gpt::test::TempDir folder;
  return folder.file(name);
}

// Trains a byte-level model for one step and returns its folder.
const std::string& byte_model() {
  static const std::string folder = [] {
    std::string path = own_path("model");
    const GptRun run = run_gpt({"train", "tales:20000", "--n-layer", "1", "--n-embd", "16", "--n-head", "2",
                                "--n-ctx", "16", "--steps", "1", "--eval-every", "0", "-o", path});
    EXPECT_EQ(run.status, 0) << run.err;
    return path;
  }();
  return folder;
}

// Returns the config that results from a command line of gpt train.
json config_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"train", "--print-config"});
  const GptRun run = run_gpt(arguments);
  EXPECT_EQ(run.status, 0) << run.err;
  return json::parse(run.out, nullptr, false);
}

void expect_usage(const std::vector<std::string>& arguments, const Facts& facts) {
  const GptRun run = run_gpt(arguments);
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_TRUE(names(run.err, facts));
}

// Checks that a flag of another program gets specific advice, instead of an unknown-flag error that refers to
// --help.
void expect_answer(const std::vector<std::string>& arguments, const Facts& facts) {
  expect_usage(arguments, facts);
  EXPECT_FALSE(names(run_gpt(arguments).err, {"--help"}));
}

TEST(Names, OfOtherProgramsAreUnderstoodInTraining) {
  const json c = config_of({"--learning-rate",
                            "0.5",
                            "--max_iters=7",
                            "--block_size",
                            "32",
                            "--num-layers",
                            "2",
                            "--hidden-size=48",
                            "--num-heads",
                            "3",
                            "--batch_size",
                            "4",
                            "--grad_clip",
                            "0.5",
                            "--weight_decay=0.25",
                            "--eval_interval",
                            "11",
                            "--log-interval",
                            "13",
                            "--device-batch-size",
                            "2",
                            "--dtype",
                            "bfloat16",
                            "--dataset",
                            "tales"});
  EXPECT_EQ(c["lr"], 0.5);
  EXPECT_EQ(c["steps"], 7);
  EXPECT_EQ(c["n_ctx"], 32);
  EXPECT_EQ(c["n_layer"], 2);
  EXPECT_EQ(c["n_embd"], 48);
  EXPECT_EQ(c["n_head"], 3);
  EXPECT_EQ(c["batch_size"], 4);
  EXPECT_EQ(c["micro_batch"], 2);
  EXPECT_EQ(c["clip_norm"], 0.5);
  EXPECT_EQ(c["weight_decay"], 0.25);
  EXPECT_EQ(c["eval_every"], 11);
  EXPECT_EQ(c["log_every"], 13);
  EXPECT_EQ(c["dtype"], "bf16");
  EXPECT_EQ(c["data"], json::array({"tales"}));
  for (const char* steps : {"--max-steps", "--num-iterations", "--max_iters", "--iters"})
    EXPECT_EQ(config_of({steps, "9"})["steps"], 9) << steps;
  for (const char* width : {"--d-model", "--n_embed", "--emb-dim", "--hidden_size"})
    EXPECT_EQ(config_of({width, "24"})["n_embd"], 24) << width;
  for (const char* context : {"--n_ctx", "--ctx-size", "--block-size", "--sequence-len", "-c"})
    EXPECT_EQ(config_of({context, "24"})["n_ctx"], 24) << context;
  EXPECT_EQ(config_of({"--tie-word-embeddings", "False"})["tie_embeddings"], false);
}

TEST(Names, NearOnesAreAnsweredWithWhatToDo) {
  for (const std::string flag : {"--epochs", "--num_train_epochs"})
    expect_answer({"train", flag + "=3"}, {flag, "--steps", "batch_size x n_ctx", "gpt plan"});
  expect_answer({"train", "--depth", "12"}, {"--depth", "--preset nanochat-dN", "--n-layer"});
  expect_answer({"train", "--model", "gpt2"}, {"--model", "--preset NAME", "gpt info", "--init-from MODEL"});
  expect_answer({"train", "--gradient_accumulation_steps", "8"},
                {"--gradient_accumulation_steps", "--batch-size", "--micro-batch"});
  expect_answer({"generate", "x", "-ngl", "99"}, {"-ngl", "CPU"});
  expect_answer({"generate", "x", "--n-ctx", "99"}, {"--n-ctx"});
  expect_answer({"serve", "x", "--api-key", "99"}, {"--api-key", "--api-key-file FILE"});
  expect_answer({"serve", "x", "--served-model-name", "y"}, {"--served-model-name", "gpt serve NAME=PATH"});
  expect_usage({"sample"}, {"\"sample\"", "gpt generate"});
  expect_usage({"quantize", "x"}, {"\"quantize\"", "gpt convert MODEL OUT.gguf --quant q8_0"});
  EXPECT_TRUE(suggests(run_gpt({"train", "--max-iter", "3"}).err, "--max-iter;", "--max-iters"));
  EXPECT_TRUE(suggests(run_gpt({"trian", "--help"}).err, "\"trian\"", "train"));
}

TEST(Names, FlagsWithoutEffectAreNotes) {
  const std::vector<std::string> own = {"generate", kModel, "--ids", "1,2", "-n", "4", "--greedy"};
  const GptRun expected = run_gpt(own);
  ASSERT_EQ(expected.status, 0) << expected.err;
  const std::vector<std::vector<std::string>> flags = {
      {"--stream"},           {"--mmap"},          {"--flash-attn"},
      {"-fa", "on"},          {"--compile=False"}, {"--verbose"},
      {"--num-workers", "4"}, {"--num_workers=4"}, {"--trust-remote-code"},
      {"--no-cnv"},           {"-no-cnv"}};
  for (const std::vector<std::string>& more : flags) {
    std::vector<std::string> words = own;
    words.insert(words.end(), more.begin(), more.end());
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, expected.out) << more.front();
    EXPECT_TRUE(names(run.err, {more.front().substr(0, more.front().find('='))}));
  }
  for (const char* flag : {"--metrics", "--cont-batching", "-cb", "--jinja"}) {
    const GptRun run = run_gpt({"serve", "/nonexistent/model", flag});
    EXPECT_EQ(run.status, 1) << run.err;
    EXPECT_TRUE(names(run.err, {flag, "/nonexistent/model"}));
  }
}

TEST(Names, OfGenerationAreUnderstood) {
  const GptRun ours = run_gpt({"generate", kModel, "--ids", "1,2", "--max-tokens", "4", "--temperature",
                               "0.5", "--repetition-penalty", "1.2", "--top-k", "5", "--threads", "1"});
  ASSERT_EQ(ours.status, 0) << ours.err;
  const GptRun theirs = run_gpt({"generate", "-m", kModel, "--ids", "1,2", "-n", "4", "--temp", "0.5",
                                 "--repeat-penalty", "1.2", "--top_k", "5", "-t", "1"});
  EXPECT_EQ(theirs.out, ours.out) << theirs.err;
  for (const char* flag : {"--max_new_tokens", "--n-predict", "--predict"}) {
    const GptRun other = run_gpt({"generate", kModel, "--ids", "1,2", flag, "4", "--temp=0.5",
                                  "--repeat-penalty", "1.2", "--top_k", "5"});
    EXPECT_EQ(other.out, ours.out) << flag << other.err;
  }
}

TEST(Names, ValuesThatLookLikeFlagsStayAsTheyAre) {
  const GptRun run = run_gpt({"tokenizer", "encode", "byte", "--text", "--learning_rate"});
  const GptRun equal = run_gpt({"tokenizer", "encode", "--tokenizer", "byte", "--text=--learning_rate"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, equal.out);
  EXPECT_TRUE(names(run.out, {95}));  // the underscore
}

TEST(Names, TextsAndDataMayBeArguments) {
  EXPECT_EQ(run_gpt({"tokenizer", "encode", "byte", "ab"}).out, "97 98\n");
  EXPECT_EQ(run_gpt({"tokenizer", "decode", "byte", "97,98"}).out, "ab");
  const GptRun flag = run_gpt({"generate", byte_model(), "--prompt", "ab", "-n", "4"});
  const GptRun word = run_gpt({"generate", byte_model(), "ab", "-n", "4"});
  const GptRun shorts = run_gpt({"generate", "-m", byte_model(), "-p", "ab", "-n", "4"});
  EXPECT_EQ(flag.status, 0) << flag.err;
  EXPECT_EQ(flag.out, word.out) << word.err;
  EXPECT_EQ(flag.out, shorts.out) << shorts.err;
  expect_usage({"generate", kModel, "once", "upon", "a", "time"}, {"\"upon\""});
  EXPECT_EQ(config_of({"book.txt"})["data"], json::array({"book.txt"}));
  const std::string file = own_path("tales.txt");
  const GptRun made = run_gpt({"data", "tales", "--bytes", "100", "-o", file});
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(std::filesystem::file_size(file), 100u);
}

// ------------------------------------------------------------------------------------------------ help

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

// Returns the completions that `gpt completion words` offers after these words.
std::vector<std::string> offered(std::vector<std::string> typed) {
  typed.insert(typed.begin(), {"completion", "words"});
  typed.emplace_back();
  const GptRun run = run_gpt(typed);
  EXPECT_EQ(run.status, 0) << run.err;
  return lines_of(run.out);
}

// Returns all commands and subcommands of the program.
const std::vector<std::vector<std::string>>& all_commands() {
  static const std::vector<std::vector<std::string>> list = [] {
    std::vector<std::vector<std::string>> commands;
    for (const std::string& name : offered({})) {
      commands.push_back({name});
      const std::string help = run_gpt({name, "--help"}).out;
      if (help.find(" COMMAND [options]\n") == std::string::npos) continue;
      for (const std::string& part : offered({name}))
        commands.push_back({name, part});
    }
    EXPECT_GT(commands.size(), 25u);
    return commands;
  }();
  return list;
}

TEST(Help, FitsEightyColumns) {
  std::vector<std::vector<std::string>> calls = {{"--help"}, {"--help-all"}};
  for (const std::vector<std::string>& command : all_commands()) {
    for (const char* flag : {"--help", "--help-all"}) {
      calls.push_back(command);
      calls.back().emplace_back(flag);
    }
  }
  for (const std::vector<std::string>& call : calls) {
    const GptRun run = run_gpt(call);
    EXPECT_EQ(run.status, 0) << run.err;
    for (const std::string& line : lines_of(run.out))
      EXPECT_LE(line.size(), 80u) << call[0] << ": " << line;
  }
}

TEST(Help, OverviewIsShort) {
  const GptRun run = run_gpt({"--help"});
  EXPECT_LE(lines_of(run.out).size(), 41u) << run.out;
  for (const std::vector<std::string>& command : all_commands())
    EXPECT_NE(run.out.find("\n  " + command.front() + " "), std::string::npos) << command.front();
}

TEST(Help, HasTwoLengthsAndShowsDefaults) {
  const GptRun brief = run_gpt({"train", "-h"}), all = run_gpt({"help", "train", "--all"});
  EXPECT_EQ(brief.out, run_gpt({"help", "train"}).out);
  EXPECT_EQ(all.out, run_gpt({"train", "--help-all"}).out);
  EXPECT_LE(lines_of(brief.out).size(), 54u) << brief.out;
  EXPECT_FALSE(names(brief.out, {"--beta2"}));
  EXPECT_TRUE(names(brief.out, {"--steps", "(default 1000)"}));
  EXPECT_TRUE(names(all.out, {"--beta2", "n_embd / n_head"}));
  EXPECT_TRUE(names(run_gpt({"help", "generate"}).out, {"--temperature", "(default 0.8)"}));
  EXPECT_EQ(run_gpt({"help", "data", "pack"}).out, run_gpt({"data", "pack", "--help"}).out);
  EXPECT_EQ(run_gpt({"help"}).out, run_gpt({"--help"}).out);
  EXPECT_TRUE(suggests(run_gpt({"help", "trian"}).err, "\"trian\"", "train"));
}

TEST(Help, PresetsHaveAPurpose) {
  const GptRun run = run_gpt({"info"});
  EXPECT_EQ(run.status, 0) << run.err;
  for (const std::string& line : lines_of(run.out))
    EXPECT_LE(line.size(), 80u) << line;
  for (const std::string& line : lines_of(run.out)) {
    if (line.starts_with("tiny ") || line.starts_with("gpt2 ")) {
      EXPECT_GT(line.size(), 40u) << line;
    }
  }
  EXPECT_LT(run.out.find("\ntiny"), run.out.find("\ngpt2 ")) << run.out;
  EXPECT_LT(run.out.find("\ngpt2 "), run.out.find("\ngpt3-175b")) << run.out;
  EXPECT_TRUE(names(run.err, {"gpt info tiny"}));
}

// --------------------------------------------------------------------------- suggested next command

bool says_next(const GptRun& run) {
  const size_t at = run.err.rfind("next: gpt ");
  return at != std::string::npos && run.err.find('\n', at) == run.err.size() - 1;
}

TEST(Next, CommandsEndWithWhatOneDoesNext) {
  const std::string folder = own_path("with a blank");
  std::filesystem::create_directories(folder);
  const std::string text = folder + "/tales.txt", tok = folder + "/tok", shards = folder + "/shards";
  const std::vector<std::vector<std::string>> calls = {
      {"data", "tales", "--bytes", "20000", "-o", text},
      {"data", "preview", text},
      {"tokenizer", "train", text, "--vocab-size", "300", "-o", tok},
      {"tokenizer", "info", tok},
      {"data", "pack", text, "--tokenizer", tok, "-o", shards},
      {"data", "info", shards},
      {"info"},
      {"info", "gpt2"},
      {"verify", kModel, "--threads", "1"},
      {"eval", byte_model(), text, "--threads", "1"},
      {"trace", byte_model(), "ab"},
      {"report", byte_model()},
      {"convert", byte_model(), folder + "/hf"},
      {"plan", text, "--preset", "tiny", "--measure", "0"}};
  for (const std::vector<std::string>& call : calls) {
    const GptRun run = run_gpt(call);
    EXPECT_EQ(run.status, 0) << call[0] << ": " << run.err;
    EXPECT_TRUE(says_next(run)) << call[0] << ": " << run.err;
    const std::string next = run.err.substr(std::min(run.err.rfind("next: "), run.err.size()));
    EXPECT_EQ(next.find(" " + folder), std::string::npos) << next;  // paths with spaces must be quoted
    EXPECT_EQ(run.out.find("next: "), std::string::npos) << call[0];
  }
  EXPECT_FALSE(says_next(run_gpt({"info", "gpt2", "--json"})));
  EXPECT_FALSE(says_next(run_gpt({"tokenizer", "info", tok, "--json"})));
}

// --------------------------------------------------------------------------- completion and man pages

TEST(Completion, KnowsCommandsFlagsAndValues) {
  const auto words = [](std::vector<std::string> typed) {
    typed.insert(typed.begin(), {"completion", "words"});
    const GptRun run = run_gpt(typed);
    EXPECT_EQ(run.status, 0) << run.err;
    return run.out;
  };
  EXPECT_EQ(words({"gen"}), "generate\n");
  EXPECT_EQ(words({"data", "pr"}), "preview\n");
  EXPECT_EQ(words({"generate", "run", "--temp"}), "--temperature\n");
  EXPECT_EQ(words({"train", "--preset", "gpt3"}), "gpt3-175b\n");
  EXPECT_EQ(words({"generate", "--dtype", "q"}), "q8_0\nq4_0\n");
  EXPECT_EQ(words({"train", "--optimizer", "mu"}), "muon\nmuon-nanochat\n");
  EXPECT_EQ(words({"train", "--optimizer=ad"}), "--optimizer=adamw\n");
  EXPECT_EQ(words({"train", "--optimizer", "=", "ad"}), "adamw\n") << "as bash takes it apart";
  EXPECT_EQ(words({"train", "--act", "="}), "gelu_tanh\ngelu\nrelu\nrelu2\nswiglu\n");
  EXPECT_EQ(words({"train", "--dtype", ""}), "fp32\nbf16\nfp16\n");
  EXPECT_EQ(words({"train", "--qk-norm", ""}), "true\nfalse\n");
  EXPECT_EQ(words({"finetune", "--task", "c"}), "classify\nchoose\nchat\n");
  EXPECT_EQ(words({"finetune", "run", "--reward", "re"}), "regex\n");
  EXPECT_EQ(words({"convert", "--quant", "q8"}), "q8_0\n");
  EXPECT_EQ(words({"convert", "--to", "ll"}), "llmc\nllama2c\n");
  EXPECT_EQ(words({"info", "gpt3"}), "gpt3-175b\n");
  EXPECT_EQ(words({"info", "--compare", "gpt3"}), "gpt3-175b\n");
  EXPECT_EQ(words({"completion", "z"}), "zsh\n");
  EXPECT_EQ(words({"help", "gen"}), "generate\n");
  const gpt::test::TempDir dir;
  gpt::test::write_plain_file(dir.file("book.txt"), "");
  std::filesystem::create_directories(dir.file("books"));
  for (const std::vector<std::string>& before : {std::vector<std::string>{"train", "--data"},
                                                 {"train"},
                                                 {"eval"},
                                                 {"generate", "--prompt-file"},
                                                 {"train", "--tokenizer"}}) {
    std::vector<std::string> typed = before;
    typed.push_back(dir.file("bo"));
    const std::string found = words(typed);
    EXPECT_NE(found.find(dir.file("book.txt") + "\n"), std::string::npos) << found;
    EXPECT_NE(found.find(dir.file("books") + "\n"), std::string::npos) << found;
  }
  EXPECT_EQ(words({"train", "--schedule", "w"}), "wsd\n");
  EXPECT_EQ(words({"serve", "--repack", "a"}), "auto\nalways\n");
  for (const char* shell : {"bash", "zsh", "fish"})
    EXPECT_TRUE(names(run_gpt({"completion", shell}).out, {"gptcpp"})) << shell;
  EXPECT_EQ(run_gpt({"completion", "zsh"}).out.rfind("#compdef gpt gptcpp\n", 0), 0u);
  expect_usage({"completion", "tcsh"}, {"completion", "bash", "zsh", "fish", "\"tcsh\""});
}

TEST(Completion, ManPagesHaveEveryFlag) {
  const GptRun page = run_gpt({"completion", "man", "data", "pack"});
  EXPECT_EQ(page.out.rfind(".TH gpt-data-pack 1 ", 0), 0u) << page.out;
  EXPECT_TRUE(names(page.out, {"\\-\\-shard\\-tokens"}));
  for (const char* section :
       {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "EXAMPLES", "SEE ALSO"})
    EXPECT_NE(page.out.find(std::string("\n.SH ") + section + "\n"), std::string::npos) << section;
  EXPECT_NE(page.out.find("\n.SS Machine\n"), std::string::npos);
  expect_usage({"completion", "man", "packk"}, {"completion", "\"packk\"", "gpt --help"});
}

// Every option of --help-all is in docs/cli.md, and every config key in docs/config.md.
TEST(Completion, ReferencePagesHaveEveryOption) {
  const std::string cli = run_gpt({"completion", "markdown", "cli"}).out;
  for (const std::vector<std::string>& command : all_commands()) {
    const std::string name =
        "\n## gpt " + command.front() + (command.size() > 1 ? " " + command[1] : "") + "\n";
    const size_t begin = cli.find(name);
    ASSERT_NE(begin, std::string::npos) << name;
    const std::string section = cli.substr(begin, cli.find("\n## ", begin + 1) - begin);
    std::vector<std::string> typed = command;
    typed.insert(typed.begin(), {"completion", "words"});
    typed.emplace_back("--");
    for (const std::string& flag : lines_of(run_gpt(typed).out)) {
      if (flag == "--help" || flag == "--help-all") continue;
      EXPECT_NE(section.find(flag), std::string::npos) << name << flag;
    }
  }
  const std::string config = run_gpt({"completion", "markdown", "config"}).out;
  const nlohmann::json keys = config_of({"tales"});
  for (const auto& [key, value] : keys.items())
    EXPECT_NE(config.find("\n| `" + key + "` |"), std::string::npos) << key;
  EXPECT_NE(config.find("\n| `lora_rank` |"), std::string::npos);
  expect_usage({"completion", "markdown", "clii"}, {"\"clii\"", "cli"});
}

}  // namespace
