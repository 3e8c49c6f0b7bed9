// Tests gpt generate, verify and eval with the small golden models.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/safetensors.h"
#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string model(const std::string& family) {
  return std::string(GPT_SOURCE_DIR) + "/tests/golden/data/" + family;
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(std::string(GPT_SOURCE_DIR) + "/tests/golden/data")) {
    if (fs::exists(entry.path() / "golden.safetensors")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<int64_t> golden_ids(const std::string& family, const char* name) {
  const gpt::SafetensorsFile file(model(family) + "/golden.safetensors");
  const gpt::TensorInfo* tensor = file.find(name);
  std::vector<int64_t> ids;
  if (tensor != nullptr) {
    ids.resize(tensor->bytes.size() / sizeof(int64_t));
    std::memcpy(ids.data(), tensor->bytes.data(), tensor->bytes.size());
  }
  return ids;
}

std::string join(const std::vector<int64_t>& ids, size_t count, const char* separator) {
  std::string text;
  for (size_t i = 0; i < count && i < ids.size(); ++i)
    text += (i ? separator : "") + std::to_string(ids[i]);
  return text;
}

json generate_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "generate");
  arguments.push_back("--json");
  const GptRun run = run_gpt(arguments);
  EXPECT_EQ(run.status, 0) << run.err;
  return run.status == 0 ? json::parse(run.out)["completions"] : json::array();
}

// A small text model with a byte tokenizer.
class ByteModel {
 public:
  ByteModel() : folder_(fs::path(testing::TempDir()) / ("bytes" + std::to_string(::getpid()))) {
    const GptRun run = run_gpt(
        {"train",    "--data",       "tales:20000", "--n-layer",    "1",       "--n-head", "2",
         "--n-embd", "16",           "--n-ctx",     "32",           "--steps", "2",        "--warmup",
         "0",        "--eval-every", "0",           "--batch-size", "2",       "--out",    folder_.string()});
    EXPECT_EQ(run.status, 0) << run.err;
  }
  ~ByteModel() { fs::remove_all(folder_); }
  std::string path() const { return folder_.string(); }

 private:
  fs::path folder_;
};

// As in transformers and llama.cpp, the post-processor of the tokenizer determines the first token.
TEST(Generate, TextsBeginWithTheTokenThatTheirTokenizerNames) {
  const gpt::test::TempDir dir;
  const std::string book = dir.file("book.txt"), tok = dir.file("tok"), run = dir.file("run");
  ASSERT_EQ(run_gpt({"data", "tales", "--bytes", "20000", "--out", book}).status, 0);
  ASSERT_EQ(run_gpt({"tokenizer", "train", book, "--vocab-size", "257", "--out", tok}).status, 0);
  json tokenizer = json::parse(std::ifstream(tok + "/tokenizer.json"));
  const json end = {{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}};
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {end, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", json::array()},
      {"special_tokens",
       {{"<|endoftext|>", {{"id", "<|endoftext|>"}, {"ids", {256}}, {"tokens", {"<|endoftext|>"}}}}}}};
  std::ofstream(tok + "/tokenizer.json") << tokenizer;
  ASSERT_EQ(
      run_gpt({"train",   book, "--tokenizer", tok, "--n-layer", "1", "--n-head",     "2", "--n-embd", "16",
               "--n-ctx", "16", "--steps",     "1", "--warmup",  "0", "--eval-every", "0", "--out",    run})
          .status,
      0);
  const json with = generate_json({run, "--prompt", "ab", "--max-tokens", "1"})[0]["prompt_ids"];
  const json without =
      generate_json({run, "--prompt", "ab", "--max-tokens", "1", "--no-bos"})[0]["prompt_ids"];
  EXPECT_EQ(without, (json{64, 65}));
  EXPECT_EQ(with, (json{256, 64, 65}));
  EXPECT_EQ(generate_json({run, "--ids", "64,65", "--max-tokens", "1"})[0]["prompt_ids"], without);
}

// An untrained model produces arbitrary text, so text that matches the grammar shows that the flags work.
TEST(Generate, TextsFitTheirGrammar) {
  const ByteModel bytes;
  const gpt::test::TempDir dir;
  const std::string schema =
      R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"]})";
  std::ofstream(dir.file("schema.json")) << schema;
  std::ofstream(dir.file("rules.gbnf")) << "root ::= \"<\" [a-c]{2,5} \">\"\n";
  const auto texts = [&](const std::string& flag, const std::string& value) {
    const json out =
        generate_json({bytes.path(), "--prompt", "a", "--n", "5", "--max-tokens", "60", flag, value});
    std::vector<std::string> all;
    for (const json& sample : out) {
      EXPECT_EQ(sample["finish_reason"], "stop");
      all.push_back(sample["text"]);
    }
    EXPECT_EQ(all.size(), 5u);
    return all;
  };
  const std::vector<std::string> objects = texts("--json-schema", schema);
  for (const std::string& text : objects) {
    const json value = json::parse(text, nullptr, false);
    ASSERT_TRUE(value.is_object()) << text;
    EXPECT_TRUE(value.size() == 2 && value["name"].is_string() && value["age"].is_number_integer()) << text;
  }
  EXPECT_EQ(texts("--json-schema", dir.file("schema.json")), objects);
  for (const std::string& text : texts("--grammar", dir.file("rules.gbnf")))
    EXPECT_TRUE(text.size() >= 4 && text.front() == '<' &&
                text.find_first_not_of("abc", 1) == text.size() - 1)
        << text;
  for (const std::string& text : texts("--regex", "(yes|no), sir"))
    EXPECT_TRUE(text == "yes, sir" || text == "no, sir") << text;
}

TEST(Generate, RefusesGrammarsByName) {
  const ByteModel bytes;
  const auto refused = [&](std::vector<std::string> flags, const Facts& facts) {
    flags.insert(flags.begin(), {"generate", bytes.path(), "--prompt", "a"});
    const GptRun run = run_gpt(flags);
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_TRUE(names(run.err, facts));
    EXPECT_EQ(run.out, "");
  };
  refused({"--json-schema", R"({"not":{}})"}, {"--json-schema", "#/not"});
  refused({"--grammar", "root ::= root"}, {"--grammar", "'root'"});
  refused({"--regex", "(?=a)"}, {"--regex", "lookaround", 4});
  refused({"--regex", "a{20}", "--max-tokens", "19"}, {"--max-tokens", 20, 19});
  refused({"--regex", "a", "--json-schema", "{}"}, {"--regex", "grammar", "json_schema"});
  refused({"--regex", "a", "--beams", "2"}, {"--regex", "--beams"});
}

TEST(Generate, GreedyIdsOfEveryFamily) {
  ASSERT_FALSE(families().empty());
  for (const std::string& family : families()) {
    const std::vector<int64_t> expected = golden_ids(family, "greedy");
    const GptRun run =
        run_gpt({"generate", model(family), "--ids", join(golden_ids(family, "input_ids"), 4, ","),
                 "--greedy", "--ignore-eos", "--max-tokens", std::to_string(expected.size())});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, join(expected, expected.size(), " ") + "\n") << family;
    EXPECT_EQ(run.err, "");
  }
}

TEST(Generate, StopsAtTheModelsEos) {
  const std::vector<int64_t> greedy = golden_ids("llama", "greedy");
  const auto eos = std::find(greedy.begin(), greedy.end(), 2);
  ASSERT_NE(eos, greedy.end());
  const json out =
      generate_json({model("llama"), "--ids", join(golden_ids("llama", "input_ids"), 4, ","), "--greedy"});
  EXPECT_EQ(out[0]["finish_reason"], "eos");
  EXPECT_EQ(out[0]["ids"].get<std::vector<int64_t>>(), std::vector<int64_t>(greedy.begin(), eos + 1));
}

TEST(Generate, SeveralPromptsAndSamplesEqualSingleOnes) {
  const json all = generate_json({model("gpt2"), "--ids", "1,2,3", "--ids", "9 8", "--n", "2", "--max-tokens",
                                  "6", "--seed", "5", "--logprobs", "2"});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[3]["prompt_index"], 1);
  EXPECT_EQ(all[3]["sample"], 1);
  EXPECT_EQ(all[0]["logprobs"].size(), all[0]["ids"].size());
  EXPECT_EQ(all[0]["logprobs"][0]["top"].size(), 2u);
  const json one = generate_json({model("gpt2"), "--ids", "1,2,3", "--max-tokens", "6", "--seed", "5"});
  EXPECT_EQ(one[0]["ids"], all[0]["ids"]);
  const json threads =
      generate_json({model("gpt2"), "--ids", "1,2,3", "--max-tokens", "6", "--seed", "5", "--threads", "3"});
  EXPECT_EQ(threads, one);
}

TEST(Generate, TypesOfTheCache) {
  const std::vector<std::string> arguments = {model("llama"), "--ids",    "1,2,3",        "--ids",
                                              "1,2,7",        "--greedy", "--max-tokens", "20"};
  const json plain = generate_json(arguments);
  for (const char* dtype : {"fp32", "bf16", "fp16", "int8"}) {
    std::vector<std::string> typed = arguments;
    typed.insert(typed.end(), {"--kv-dtype", dtype});
    const json out = generate_json(typed);
    ASSERT_EQ(out.size(), 2u) << dtype;
    EXPECT_EQ(out[0]["ids"][0], plain[0]["ids"][0]) << dtype;
    EXPECT_TRUE(out == plain || dtype != std::string("fp32"));
  }
  EXPECT_EQ(run_gpt({"generate", model("llama"), "--ids", "1", "--kv-dtype", "int4"}).status, 2);
  const GptRun narrow = run_gpt({"generate", model("llama"), "--ids", "1", "--kv-dtype", "q4_0"});
  EXPECT_EQ(narrow.status, 2);
  EXPECT_TRUE(names(narrow.err, {"q4_0", 32, "head_dim", 14, "int8"}));
}

TEST(Generate, RepackChangesNoToken) {
  const std::vector<std::string> arguments = {model("llama"), "--ids",        "1,2,3",
                                              "--greedy",     "--max-tokens", "30"};
  const json plain = generate_json(arguments);
  for (const char* repack : {"never", "auto", "always"}) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--repack", repack});
    EXPECT_EQ(generate_json(all), plain) << repack;
  }
  const GptRun wrong = run_gpt({"generate", model("llama"), "--ids", "1", "--repack", "allways"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(suggests(wrong.err, "\"allways\"", "always"));
  const GptRun foreign = run_gpt({"generate", model("llama"), "--ids", "1", "--no-mmap"});
  EXPECT_EQ(foreign.status, 2);
  EXPECT_TRUE(names(foreign.err, {"--no-mmap", "--repack always"}));
}

TEST(Generate, BeamsAndContextPolicies) {
  const json beams =
      generate_json({model("nanochat"), "--ids", "3,4", "--beams", "3", "--n", "2", "--max-tokens", "5"});
  ASSERT_EQ(beams.size(), 2u);
  EXPECT_GE(beams[0]["score"].get<double>(), beams[1]["score"].get<double>());
  for (const char* policy : {"crop", "slide"}) {
    const json out = generate_json(
        {model("llama"), "--ids", "3,4", "--max-tokens", "150", "--ignore-eos", "--context", policy});
    EXPECT_EQ(out[0]["ids"].size(), 150u) << policy;
  }
  const json stopped = generate_json(
      {model("llama"), "--ids", "3,4", "--max-tokens", "1000", "--ignore-eos", "--context", "stop"});
  EXPECT_EQ(stopped[0]["finish_reason"], "context");
  EXPECT_EQ(run_gpt({"generate", model("gpt2"), "--ids", "3", "--context", "slide"}).status, 2);
}

TEST(Generate, BadIdsAndMissingTokenizer) {
  const GptRun range = run_gpt({"generate", model("gpt2"), "--ids", "1,99999"});
  EXPECT_EQ(range.status, 1);
  EXPECT_TRUE(names(range.err, {99999, 52, 1}));
  EXPECT_EQ(run_gpt({"generate", model("gpt2"), "--ids", "1,x"}).status, 2);
  EXPECT_EQ(run_gpt({"generate", model("gpt2"), "--ids", "-3"}).status, 2);
  const GptRun text = run_gpt({"generate", model("mini-gpt"), "--prompt", "hello"});
  EXPECT_EQ(text.status, 1);
  EXPECT_TRUE(names(text.err, {"tokenizer.json", "--ids", "--tokenizer"}));
  EXPECT_EQ(run_gpt({"generate", model("gpt2"), "--ids", "1", "--tokenizer", "byte"}).status,
            1);  // the vocabulary has fewer than 256 tokens
  for (const char* bias : {"3", "3=-1e400", "3=1,4=2,3=1"})
    EXPECT_EQ(run_gpt({"generate", model("gpt2"), "--ids", "1", "--logit-bias", bias}).status, 2) << bias;
}

TEST(Generate, TextInAndOut) {
  const ByteModel bytes;
  const GptRun plain = run_gpt({"generate", bytes.path(), "--prompt", "Anna ", "--max-tokens", "30"});
  EXPECT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(plain.out.rfind("Anna ", 0), 0u);
  EXPECT_EQ(plain.out.back(), '\n');
  const json out = generate_json({bytes.path(), "--prompt", "Anna ", "--max-tokens", "30"});
  EXPECT_EQ("Anna " + out[0]["text"].get<std::string>() + "\n", plain.out);
  // The bias forces a letter, and the stop string consists of that letter. Neither the stop string nor the
  // text after it is printed.
  const GptRun stop = run_gpt({"generate", bytes.path(), "--prompt", "a", "--logit-bias", "98=1000", "--stop",
                               "bb", "--max-tokens", "9"});
  EXPECT_EQ(stop.out, "a\n") << stop.err;
  const GptRun empty =
      run_gpt({"generate", bytes.path(), "--prompt", "", "--max-tokens", "3", "--logit-bias", "98=inf"});
  EXPECT_EQ(empty.out, "bbb\n") << empty.err;
  const GptRun several = run_gpt({"generate", bytes.path(), "--prompt", "a", "--prompt", "c", "--max-tokens",
                                  "2", "--logit-bias", "98=inf"});
  EXPECT_EQ(several.out, "abb\n---------------\ncbb\n") << several.err;
}

TEST(Eval, PrintsTheSameForAnyThreads) {
  const ByteModel bytes;
  const GptRun one = run_gpt({"eval", bytes.path(), "--data", "tales:3000", "--json", "--threads", "1"});
  EXPECT_EQ(one.status, 0) << one.err;
  const json result = json::parse(one.out);
  EXPECT_EQ(result["tokens"], 2999);
  EXPECT_NEAR(result["perplexity"].get<double>(), std::exp(result["loss"].get<double>()), 1e-9);
  EXPECT_NEAR(result["bits_per_byte"].get<double>(), result["loss"].get<double>() / std::log(2.0), 1e-9);
  EXPECT_GT(result["bits_per_byte"].get<double>(), result["floor_bits_per_byte"].get<double>());
  EXPECT_EQ(run_gpt({"eval", bytes.path(), "--data", "tales:3000", "--json", "--threads", "3"}).out, one.out);
  const GptRun val = run_gpt({"eval", bytes.path(), "--data", "tales:3000", "--split", "val", "--json"});
  EXPECT_EQ(json::parse(val.out)["tokens"], 299);
}

TEST(Eval, ComparesTwoTypes) {
  const ByteModel bytes;
  const std::vector<std::string> call = {"eval", bytes.path(), "--data", "tales:3000", "--dtype", "q8_0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), call.begin(), call.end());
    return run_gpt(more);
  };
  const json alone = json::parse(with({"--json"}).out);
  EXPECT_EQ(alone["dtype"], "q8_0");
  const GptRun run = with({"--against", "fp32", "--json"});
  EXPECT_EQ(run.status, 0) << run.err;
  const json both = json::parse(run.out);
  EXPECT_NEAR(both["loss"].get<double>(), alone["loss"].get<double>(), 1e-4);
  EXPECT_EQ(both["against"]["dtype"], "fp32");
  EXPECT_NEAR(both["against"]["loss"].get<double>(), both["loss"].get<double>(), 0.05);
  EXPECT_GE(both["kl_divergence"]["p99"], both["kl_divergence"]["mean"]);
  EXPECT_GE(both["kl_divergence"]["max"], both["kl_divergence"]["p99"]);
  EXPECT_GT(both["same_top"].get<double>(), 0.9);
  EXPECT_TRUE(names(with({"--against", "fp32"}).out, {"KL", "q8_0", "fp32"}));
  EXPECT_EQ(with({"--against", "q9"}).status, 2);
  EXPECT_EQ(with({"--against", "q8_0"}).status, 2);
}

TEST(Eval, ComparesAQuantizedFileWithItsOriginal) {
  const gpt::test::TempDir dir;
  const ByteModel bytes;
  const std::string quantized = dir.file("q8.gguf"), copy = dir.file("copy.gguf");
  ASSERT_EQ(run_gpt({"convert", bytes.path(), "--out", quantized, "--quant", "q8_0"}).status, 0);
  fs::copy(quantized, copy);
  const auto with = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", name, "--data", "tales:3000", "--json", "--against"});
    return run_gpt(more);
  };
  const GptRun run = with(quantized, {bytes.path()});
  ASSERT_EQ(run.status, 0) << run.err;
  const json both = json::parse(run.out);
  EXPECT_EQ(both["against"]["model"], bytes.path());
  EXPECT_GT(both["kl_divergence"]["mean"].get<double>(), 0);
  EXPECT_LT(both["kl_divergence"]["mean"].get<double>(), 0.1);
  EXPECT_GT(both["same_top"].get<double>(), 0.9);
  const json original = json::parse(run_gpt({"eval", bytes.path(), "--data", "tales:3000", "--json"}).out);
  EXPECT_NEAR(both["against"]["loss"].get<double>(), original["loss"].get<double>(), 1e-4);
  EXPECT_NE(both["loss"], both["against"]["loss"]);
  // Refuses a comparison in which both sides have the same weights: other dtypes (quantized weights ignore
  // --dtype), the file itself, and a copy. gpt eval --against also refuses a model with a different
  // vocabulary.
  for (const std::string& other :
       {std::string("fp32"), std::string("bf16"), quantized, copy, model("llama")}) {
    const GptRun refused = with(quantized, {other});
    EXPECT_EQ(refused.status, 1) << other;
    EXPECT_TRUE(names(refused.err, {other, quantized}));
  }
}

TEST(Verify, PassesAndNamesWhatFails) {
  const GptRun good = run_gpt({"verify", model("llama")});
  EXPECT_EQ(good.status, 0) << good.out;
  EXPECT_TRUE(names(good.out, {"PASS"}));
  EXPECT_TRUE(names(run_gpt({"verify", model("llama"), "--all"}).out, {"attention.0"}));
  // Changes the last value of the golden file.
  const fs::path copy = fs::path(testing::TempDir()) / ("golden" + std::to_string(::getpid()));
  fs::copy_file(model("llama") + "/golden.safetensors", copy, fs::copy_options::overwrite_existing);
  std::string name;
  {
    const gpt::SafetensorsFile file(copy.string());
    const std::byte* end = nullptr;
    for (const gpt::TensorInfo& tensor : file.tensors()) {
      const std::byte* after = tensor.bytes.data() + tensor.bytes.size();
      if (tensor.dtype != gpt::DType::f32 || (end != nullptr && after < end)) continue;
      end = after;
      name = tensor.name;
    }
  }
  std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x41');  // the exponent of a float: about 10 instead of less than 1
  file.close();
  const GptRun bad = run_gpt({"verify", model("llama"), "--golden", copy.string()});
  fs::remove(copy);
  EXPECT_EQ(bad.status, 1);
  EXPECT_TRUE(names(bad.out, {name, "FAIL"}));
}

}  // namespace
