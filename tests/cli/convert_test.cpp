// Tests the command line of gpt convert.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "io/safetensors.h"
#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using gpt::read_file;
using gpt::test::TempDir;

const std::string kModels = GPT_SOURCE_DIR "/tests/golden/data/";
const std::string kTorch = GPT_SOURCE_DIR "/tests/data/torch/";

TEST(Convert, ADryRunShowsEveryTensorAndWritesNothing) {
  const TempDir dir;
  const GptRun run = run_gpt({"convert", kModels + "gpt2", dir.file("out"), "--to", "hf", "--dry-run"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.out, {"transformer.h.0.attn.c_attn.weight", "blocks.1.attn.k.weight"}));
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(Convert, WritesWithItsTokenizerAndNeverOverModels) {
  const TempDir dir;
  fs::copy(kModels + "llama", dir.file("in"));
  gpt::test::write_plain_file(dir.file("in/tokenizer_config.json"), "{}");
  const std::string out = dir.file("out");
  const GptRun run = run_gpt({"convert", dir.file("in"), out, "--max-shard-size", "5KB"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(fs::exists(out + "/model.safetensors.index.json"));
  EXPECT_TRUE(fs::exists(out + "/tokenizer_config.json"));
  EXPECT_EQ(run_gpt({"verify", out, "--golden", kModels + "llama/golden.safetensors"}).status, 0);

  expect_error(run_gpt({"convert", dir.file("in"), out}), 1, {out, "--force"});
  EXPECT_EQ(run_gpt({"convert", dir.file("in"), out, "--force", "--dtype", "bf16"}).status, 0);
  EXPECT_TRUE(fs::exists(out + "/model.safetensors"));
  EXPECT_FALSE(fs::exists(out + "/model.safetensors.index.json")) << "the old folder is gone as a whole";
  // The first output is the input itself, the second is a folder that gpt convert did not write.
  for (const std::string& onto : {out, dir.file("in")})
    expect_error(run_gpt({"convert", out, onto, "--force"}), 1, {onto});
}

// Returns the elements of each tensor in model.safetensors, which must be fp32.
std::map<std::string, std::vector<float>> numbers_of(const std::string& folder) {
  const std::string file = read_file(folder + "/model.safetensors", 1 << 24);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  const nlohmann::json header = nlohmann::json::parse(file.substr(8, length));
  std::map<std::string, std::vector<float>> all;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    EXPECT_EQ(tensor["dtype"], "F32");
    const size_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    all[name].resize((end - begin) / sizeof(float));
    std::memcpy(all[name].data(), file.data() + 8 + length + begin, end - begin);
  }
  return all;
}

TEST(Convert, WritesTheMeanOfCheckpoints) {
  const TempDir dir;
  const std::vector<std::string> names = {"1", "2", "3"};
  for (const std::string& seed : names) {
    const GptRun run = run_gpt({"train", "--data",   "tales:5000",  "--n-layer",    "1",  "--n-head",
                                "1",     "--n-embd", "8",           "--n-ctx",      "16", "--batch-size",
                                "2",     "--steps",  "2",           "--eval-every", "0",  "--seed",
                                seed,    "--out",    dir.file(seed)});
    ASSERT_EQ(run.status, 0) << run.err;
  }
  const GptRun run =
      run_gpt({"convert", dir.file("1"), dir.file("mean"), "--average", dir.file("2"), dir.file("3")});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto mean = numbers_of(dir.file("mean"));
  std::vector<std::map<std::string, std::vector<float>>> all;
  for (const std::string& seed : names)
    all.push_back(numbers_of(dir.file(seed + "/last")));
  ASSERT_EQ(mean.size(), all[0].size());
  for (const auto& [name, values] : mean) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double sum = double{all[0][name][i]} + double{all[1][name][i]} + double{all[2][name][i]};
      EXPECT_EQ(values[i], static_cast<float>(sum / 3)) << name;
    }
  }
  EXPECT_NE(all[0], all[1]);
  EXPECT_TRUE(fs::exists(dir.file("mean/tokenizer.json")));

  const GptRun mixed = run_gpt({"convert", dir.file("1"), dir.file("no"), "--average", kModels + "gpt2"});
  expect_error(mixed, 1, {kModels + "gpt2", dir.file("1/last")});
  const GptRun itself =
      run_gpt({"convert", dir.file("1"), dir.file("mean"), "--average", dir.file("mean"), "--force"});
  expect_error(itself, 1, {dir.file("mean")});
}

// Writes the tokenizer file that llama2.c and llm.c require next to a model, and reads it again.
TEST(Convert, WritesTheTokenizersOfCPrograms) {
  const TempDir dir;
  const GptRun learned =
      run_gpt({"tokenizer", "train", "--data", std::string(GPT_SOURCE_DIR) + "/README.md", "--vocab-size",
               "300", "--special-tokens", "gpt2", "--out", dir.file("tok")});
  ASSERT_EQ(learned.status, 0) << learned.err;
  fs::copy(std::string(GPT_SOURCE_DIR) + "/fuzz/corpus/c_vocab/llama2c", dir.file("small.bin"));
  const struct {
    const char *preset, *format, *file;
    std::string tokenizer;
  } cases[] = {{"llama-small", "llama2c", "tokenizer.bin", dir.file("small.bin")},
               {"gpt2", "llmc", "gpt2_tokenizer.bin", dir.file("tok")}};
  for (const auto& c : cases) {
    const std::string in = dir.file(std::string("in-") + c.format), out = dir.file(c.format),
                      alone = out + "-alone";
    const GptRun trained = run_gpt(
        {"train",     "--preset", c.preset,       "--data",     "tales:20000",  "--tokenizer", c.tokenizer,
         "--n-layer", "1",        "--n-head",     "2",          "--n-embd",     "16",          "--d-ff",
         "64",        "--n-ctx",  "32",           "--norm-eps", "1e-5",         "--steps",     "2",
         "--warmup",  "0",        "--eval-every", "0",          "--batch-size", "2",           "--out",
         in});
    ASSERT_EQ(trained.status, 0) << trained.err;
    const GptRun run = run_gpt({"convert", in, out + "/model.bin", "--to", c.format, "--json"});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(names(run.out, {c.file}));
    fs::create_directory(alone);
    for (const char* name : {"model.bin", c.file})
      fs::copy(out + "/" + name, alone + "/" + name);
    const auto generate = [](const std::string& model) {
      return run_gpt(
          {"generate", model, "--prompt", "The king", "--greedy", "--max-tokens", "9", "--ignore-eos"});
    };
    const GptRun expected = generate(in), found = generate(alone + "/model.bin");
    EXPECT_EQ(found.status, 0) << found.err;
    EXPECT_EQ(found.out, expected.out);
    // An existing tokenizer file with different content blocks the conversion.
    const auto again = [&] {
      return run_gpt({"convert", in, out + "/model.bin", "--to", c.format, "--force"});
    };
    EXPECT_EQ(again().status, 0);
    gpt::test::write_plain_file(out + "/merges.txt", "of another model");
    expect_error(again(), 1, {out + "/merges.txt", out + "/model/model.bin"});
    fs::remove(out + "/merges.txt");
    gpt::test::write_plain_file(out + "/" + c.file, "mine");
    expect_error(again(), 1, {out + "/" + c.file, out + "/model/model.bin"});
    EXPECT_EQ(read_file(out + "/" + c.file), "mine");
    expect_error(run_gpt({"convert", in, out + "/b.bin", "--to", c.format, "--dtype", "fp16"}), 2,
                 {"--dtype", "fp32", "fp16"});
    // The file can also be converted to the layout of transformers.
    EXPECT_EQ(run_gpt({"convert", alone + "/model.bin", out + "-hf"}).status, 0);
    EXPECT_EQ(generate(out + "-hf").out, expected.out);
  }
}

TEST(Convert, TellsAsJson) {
  const TempDir dir;
  const GptRun run = run_gpt({"convert", kTorch + "nanogpt.pt", dir.file("hf"), "--json"});
  EXPECT_EQ(run.status, 0) << run.err;
  const nlohmann::json result = nlohmann::json::parse(run.out);
  EXPECT_EQ(result["format"], "gpt2");
  EXPECT_EQ(result["written"], true);
  EXPECT_EQ(result["ignored"].size(), 3u);
  EXPECT_EQ(result["tensors"][0]["source"], "transformer.wte.weight");
}

TEST(Convert, SaysWhatIsWrong) {
  const TempDir dir;
  const std::string out = dir.file("out");
  const std::string gpt2 = kModels + "gpt2";
  expect_error(run_gpt({"convert"}), 2, {"IN", "gpt convert IN"});
  expect_error(run_gpt({"convert", gpt2}), 2, {"OUT", "gpt convert IN OUT"});
  const GptRun format = run_gpt({"convert", gpt2, out, "--to", "llama2"});
  expect_error(format, 2, {"--to", "\"llama2\""});
  EXPECT_TRUE(suggests(format.err, "\"llama2\"", "llama2c"));
  expect_error(run_gpt({"convert", gpt2, out + ".bin", "--to", "llama2c"}), 1,
               {"llama2.c", "position", "rope", "learned", "--position rope"});
  expect_error(run_gpt({"convert", gpt2, out, "--quant", "q8_0"}), 2, {"--quant", "--to gguf"});
  for (const std::string size : {"0", "5XB", "-1GB", "GB", "99999999999999999GB"})
    expect_error(run_gpt({"convert", gpt2, out, "--max-shard-size", size}), 2,
                 {"--max-shard-size", "500MB", "2GB", '"' + size + '"'});
  expect_error(run_gpt({"convert", gpt2, out, "--to", "gguf"}), 2, {"--to gguf", "OUT", ".gguf", out});
  expect_error(run_gpt({"convert", gpt2, out + ".bin"}), 2, {out + ".bin", "--to llama2c", "--to llmc"});
  const auto quant = [&](const std::string& name) {
    return run_gpt({"convert", gpt2, out + ".gguf", "--quant", name, "--dry-run"});
  };
  expect_error(quant("q3_k"), 2, {"--quant", "\"q3_k\""});
  EXPECT_TRUE(suggests(quant("q3_k").err, "q3_k", "q4_k"));
  for (const std::string name : {"Q4_K_M", "q4_K_m", "Q3_K_L"})
    expect_error(quant(name), 2, {"--quant " + name, "llama.cpp", "--quant q4_k"});
  expect_error(quant("F16"), 2, {"--quant F16", "--dtype"});
  expect_error(run_gpt({"convert", gpt2, out + ".gguf", "--dtype", "q8_0"}), 2,
               {"--dtype q8_0", "--quant q8_0"});
  EXPECT_EQ(quant("Q8_0").status, 0);
  EXPECT_EQ(quant("q4_K").status, 0);
  EXPECT_EQ(quant("IQ4_NL").status, 0);
  expect_error(quant("iq4_xs"), 2, {"--quant", "\"iq4_xs\""});
  EXPECT_TRUE(suggests(quant("iq4_xs").err, "iq4_xs", "iq4_nl"));
  expect_error(run_gpt({"convert", kTorch + "call.bad.pt", out}), 1,
               {kTorch + "call.bad.pt", "\"posix.system\""});
  expect_error(run_gpt({"convert", dir.file("none"), out}), 1, {dir.file("none")});
  EXPECT_FALSE(fs::exists(out));
  for (const char* name : {"o.txt", "o.model", "o.GGUF"})
    expect_error(run_gpt({"convert", gpt2, dir.file(name)}), 2,
                 {dir.file(name), ".gguf", dir.file(name) + "/"});
  fs::create_directories(dir.file("old.txt"));
  for (const Facts& words :
       {Facts{"v1.5"}, {"llama-3.2-1b"}, {"x.txt", "--to", "hf"}, {"y.txt/"}, {"old.txt", "--force"}}) {
    std::vector<std::string> convert = {"convert", gpt2, dir.file(words[0].text())};
    for (size_t i = 1; i < words.size(); ++i)
      convert.push_back(words[i].text());
    EXPECT_EQ(run_gpt(convert).status, 0) << words[0].text();
  }
}

// A file that only contains tensors. Settings that the tensors do not determine must be given, and
// contradicting settings are refused.
TEST(Convert, MinGptCheckpoints) {
  const TempDir dir;
  const std::string alone = dir.file("model.pt");
  const GptRun run =
      run_gpt({"convert", kTorch + "mingpt", dir.file("hf"), "--json"});  // config.json is next to the file
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(nlohmann::json::parse(run.out)["format"], "gpt2");
  EXPECT_EQ(nlohmann::json::parse(run.out)["ignored"].size(), 2u);  // masks
  fs::copy(kTorch + "mingpt/model.pt", alone);
  expect_error(run_gpt({"convert", alone, dir.file("out")}), 1,
               {alone, "n_head", "n_embd = 12", "1, 2, 3, 4, 6, 12", "--n-head", "config.json"});
  expect_error(run_gpt({"generate", alone, "--ids", "1"}), 1, {alone, "--n-head"});
  expect_error(run_gpt({"convert", alone, dir.file("out"), "--n-head", "5"}), 1,
               {alone, "n_embd = 12", "n_head = 5"});
  expect_error(run_gpt({"convert", kTorch + "mingpt", dir.file("out"), "--n-head", "4"}), 2,
               {"--n-head 4", kTorch + "mingpt/config.json", 3});
  expect_error(run_gpt({"convert", kModels + "gpt2", dir.file("out"), "--act", "gelu"}), 2,
               {"--act gelu", kModels + "gpt2/config.json", "gelu_tanh"});
  EXPECT_EQ(run_gpt({"convert", alone, dir.file("flags"), "--n-head", "3"}).status, 0);
  EXPECT_EQ(read_file(dir.file("hf/model.safetensors")), read_file(dir.file("flags/model.safetensors")));
  const GptRun dry =
      run_gpt({"convert", alone, dir.file("out"), "--n-head", "3", "--dtype", "bf16", "--dry-run"});
  EXPECT_TRUE(names(dry.err, {"--to hf --dtype bf16 --n-head 3"}));
  gpt::test::write_plain_file(dir.file("config.json"), R"({"model_type": "gpt-nano", "block_size": 7})");
  expect_error(run_gpt({"convert", alone, dir.file("out")}), 1, {alone, "config.json", "n_layer = 3", 2});
  gpt::test::write_plain_file(dir.file("config.json"), R"({"n_head": 3, "block_size": 7, "rope": 1})");
  expect_error(run_gpt({"convert", alone, dir.file("out")}), 1, {alone, "\"rope\"", "minGPT"});
}

TEST(Convert, SaysWhatTheFormatHasNoPlaceFor) {
  const TempDir dir;
  fs::copy(kModels + "llama", dir.file("in"));
  nlohmann::json config = nlohmann::json::parse(read_file(dir.file("in/config.json")));
  config["attention_dropout"] = 0.25;
  config["eos_token_id"] = {1, 2, 3};
  gpt::test::write_plain_file(dir.file("in/config.json"), config.dump());
  const GptRun gguf = run_gpt({"convert", dir.file("in"), dir.file("m.gguf"), "--dry-run"});
  EXPECT_TRUE(names(gguf.err, {"llama", "attn_dropout = 0.25"}));
  EXPECT_FALSE(names(gguf.err, {3})) << "three ends have their place";
  const GptRun hf = run_gpt({"convert", dir.file("in"), dir.file("hf"), "--dry-run"});
  EXPECT_EQ(hf.err.find("note:"), std::string::npos) << hf.err;
  EXPECT_FALSE(names(hf.err, {"attn_dropout"}));
}

// Copies a model and sets `count` elements of a tensor to a value, beginning at index `element`.
void copy_with_value(const std::string& model, const std::string& to, const std::string& tensor,
                     size_t element, float value, size_t count = 1) {
  fs::copy(kModels + model, to);
  const std::string weights = to + "/model.safetensors";
  std::string bytes = read_file(weights);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto tensors = nlohmann::json::parse(bytes.substr(sizeof header, header));
  const uint64_t at = tensors[tensor]["data_offsets"][0];
  for (size_t i = element; i < element + count; ++i)
    std::memcpy(bytes.data() + sizeof header + header + at + i * sizeof value, &value, sizeof value);
  gpt::test::write_plain_file(weights, bytes);
}

TEST(Convert, RefusesValuesThatAreNotFiniteOrWouldNotBe) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::string matrix = "transformer.h.0.mlp.c_proj.weight", vector = "transformer.ln_f.bias";
  struct Case {
    std::string tensor;
    float value;
    std::vector<std::string> flags;
    std::string type;  // type that cannot represent the value, or "" if every type refuses it
    std::string advice;
  };
  const std::vector<Case> cases = {
      {matrix, nan, {}, "", ""},
      {matrix, inf, {"--dtype", "bf16"}, "", ""},
      {vector, -inf, {"--dtype", "fp16"}, "", ""},
      {matrix, nan, {"--quant", "q4_0"}, "", ""},
      {vector, nan, {"--quant", "q8_0"}, "", ""},
      {matrix, 3.4e38F, {"--dtype", "bf16"}, "bf16", "fp32"},
      {matrix, -3.4e38F, {"--dtype", "fp16"}, "fp16", "fp32"},
      {matrix, 65520, {"--dtype", "fp16"}, "fp16", "bf16"},
      {matrix, 1e6, {"--quant", "q4_0"}, "q4_0", "bf16"},  // its scale is an eighth of the value
  };
  for (const Case& c : cases) {
    const TempDir dir;
    copy_with_value("gpt2", dir.file("in"), c.tensor, 5, c.value);
    for (const char* out : {"hf", "m.gguf"}) {
      if (out == std::string("hf") && !c.flags.empty() && c.flags[0] == "--quant") continue;
      std::vector<std::string> words = {"convert", dir.file("in"), dir.file(out)};
      words.insert(words.end(), c.flags.begin(), c.flags.end());
      const GptRun run = run_gpt(words);
      EXPECT_EQ(run.status, 1) << c.tensor << " " << c.value << out;
      EXPECT_TRUE(names(run.err, {c.tensor, c.tensor == matrix ? "[0, 5]" : "[5]"}));
      if (!c.type.empty()) {
        EXPECT_TRUE(names(run.err, {fmt::format("{}", c.value), c.type, "--dtype " + c.advice}));
      } else {
        EXPECT_TRUE(names(run.err, {std::isnan(c.value) ? "NaN" : "infinity"}));
      }
      EXPECT_FALSE(fs::exists(dir.file(out)));
    }
  }
}

TEST(Convert, KeepsTheLargestValuesOfAType) {
  const std::string matrix = "transformer.h.0.mlp.c_proj.weight";
  const std::pair<float, std::vector<std::string>> cases[] = {
      {65504.F, {"--dtype", "fp16"}},
      {-65519.F, {"--dtype", "fp16"}},
      {0x1.fep127F, {"--dtype", "bf16"}},
      {std::numeric_limits<float>::max(), {"--dtype", "fp32"}},
      {1e6F, {"--to", "gguf", "--quant", "q8_0"}}};  // its scale is 1/127 of the value
  for (const auto& [value, flags] : cases) {
    const TempDir dir;
    copy_with_value("gpt2", dir.file("in"), matrix, 5, value);
    std::vector<std::string> words = {"convert", dir.file("in"), dir.file("m.gguf")};
    words.insert(words.end(), flags.begin(), flags.end());
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, 0) << value << run.err;
  }
}

// Small models have tiny weights. Converting such weights to zeros would change the model.
TEST(Convert, RefusesTensorsThatWouldVanish) {
  const std::string matrix = "transformer.h.0.mlp.c_proj.weight";
  const auto convert = [&](float value, const std::vector<std::string>& flags) {
    const TempDir dir;
    const gpt::SafetensorsFile file(kModels + "gpt2/model.safetensors");
    copy_with_value("gpt2", dir.file("in"), matrix, 0, value, file.find(matrix)->bytes.size() / sizeof value);
    std::vector<std::string> words = {"convert", dir.file("in"), dir.file("m.gguf")};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_gpt(words);
  };
  for (const char* type : {"q8_0", "q4_0"}) {
    expect_error(convert(1e-9F, {"--quant", type}), 1, {matrix, type, "--dtype bf16"});
    EXPECT_EQ(convert(1e-4F, {"--quant", type}).status, 0);
    EXPECT_EQ(convert(0, {"--quant", type}).status, 0);
  }
  expect_error(convert(1e-9F, {"--dtype", "fp16"}), 1, {matrix, "fp16", "--dtype bf16"});
  EXPECT_EQ(convert(1e-9F, {"--dtype", "bf16"}).status, 0);
}

TEST(Convert, Llama3FrequenciesSurviveGguf) {
  const TempDir dir;
  fs::copy(kModels + "llama", dir.file("in"));
  nlohmann::json config = nlohmann::json::parse(read_file(dir.file("in/config.json")));
  // No wavelength is stretched by the whole factor, so the frequency factors in the file do not reveal it.
  const nlohmann::json rope = {{"rope_type", "llama3"},   {"rope_theta", 500.0},
                               {"factor", 2.0},           {"low_freq_factor", 2.0},
                               {"high_freq_factor", 8.0}, {"original_max_position_embeddings", 8192}};
  config.erase("rope_theta");
  config.erase("rope_scaling");
  config["rope_parameters"] = rope;
  gpt::test::write_plain_file(dir.file("in/config.json"), config.dump());
  EXPECT_EQ(run_gpt({"convert", dir.file("in"), dir.file("m.gguf")}).status, 0);
  const GptRun back = run_gpt({"convert", dir.file("m.gguf"), dir.file("back")});
  ASSERT_EQ(back.status, 0) << back.err;
  const nlohmann::json found = nlohmann::json::parse(read_file(dir.file("back/config.json")));
  const nlohmann::json& scaling =
      found.contains("rope_parameters") ? found["rope_parameters"] : found["rope_scaling"];
  for (const char* key :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
    EXPECT_EQ(scaling[key].get<double>(), rope[key].get<double>()) << key;
}

TEST(Convert, AllTokensThatEndATextSurviveGguf) {
  const std::vector<std::vector<int>> cases = {{3}, {3, 1, 2}, {5, 4, 3, 2, 1}};
  for (const std::vector<int>& ends : cases) {
    const TempDir dir;
    fs::copy(kModels + "llama", dir.file("in"));
    gpt::test::write_plain_file(dir.file("in/generation_config.json"),
                                nlohmann::json{{"eos_token_id", ends}}.dump());
    EXPECT_EQ(run_gpt({"convert", dir.file("in"), dir.file("m.gguf")}).status, 0);
    EXPECT_EQ(run_gpt({"convert", dir.file("m.gguf"), dir.file("back")}).status, 0);
    for (const char* file : {"back/config.json", "back/generation_config.json"}) {
      const nlohmann::json found = nlohmann::json::parse(read_file(dir.file(file)))["eos_token_id"];
      EXPECT_EQ(found, ends.size() == 1 ? nlohmann::json(ends[0]) : nlohmann::json(ends)) << file;
    }
  }
}

TEST(Convert, GgufBothWays) {
  const TempDir dir;
  for (const char* family : {"llama", "gpt2"}) {
    const std::string file = dir.file(std::string(family) + ".gguf"),
                      back = dir.file(std::string(family) + "-hf");
    // The file extension selects the format.
    GptRun run = run_gpt({"convert", kModels + family, file, "--json"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(nlohmann::json::parse(run.out)["format"], std::string("GGUF ") + family);
    run = run_gpt({"convert", file, back});
    EXPECT_EQ(run.status, 0) << run.err;
    const GptRun verified = run_gpt({"verify", back, "--golden", kModels + family + "/golden.safetensors"});
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  }
  const GptRun blocks = run_gpt(
      {"convert", kModels + "llama", dir.file("q.gguf"), "--to", "gguf", "--quant", "q4_k", "--dry-run"});
  EXPECT_EQ(blocks.status, 0) << blocks.err;
  EXPECT_TRUE(names(blocks.out, {"blk.0.attn_q.weight"}));
  EXPECT_TRUE(names(blocks.err, {"fp16", "q4_k"}));
}

TEST(Convert, GeneratesFromBlocksOfIq4Nl) {
  const TempDir dir;
  const GptRun trained = run_gpt({"train",
                                  "--data",
                                  "tales:20000",
                                  "--preset",
                                  "tiny",
                                  "--n-layer",
                                  "1",
                                  "--n-embd",
                                  "256",
                                  "--d-ff",
                                  "256",
                                  "--n-head",
                                  "4",
                                  "--n-kv-head",
                                  "2",
                                  "--steps",
                                  "1",
                                  "--warmup",
                                  "0",
                                  "--eval-every",
                                  "0",
                                  "--sample-every",
                                  "0",
                                  "--threads",
                                  "2",
                                  "--out",
                                  dir.file("run")});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const std::string file = dir.file("m.gguf"), back = dir.file("hf");
  const GptRun quantised = run_gpt({"convert", dir.file("run"), file, "--quant", "iq4_nl"});
  EXPECT_EQ(quantised.status, 0) << quantised.err;
  EXPECT_EQ(run_gpt({"convert", file, back, "--dtype", "fp32"}).status, 0);
  // The converted model has the dequantized weights. With quantized weights, activations are rounded to int8,
  // so the losses differ slightly.
  const auto loss = [&](const std::string& model) {
    const GptRun run = run_gpt({"eval", model, "tales:2000", "--json"});
    EXPECT_EQ(run.status, 0) << run.err;
    return nlohmann::json::parse(run.out)["loss"].get<double>();
  };
  EXPECT_NEAR(loss(file), loss(back), 0.01);
  const GptRun text = run_gpt({"generate", file, "Once", "-n", "8", "--greedy"});
  EXPECT_EQ(text.status, 0) << text.err;
}

}  // namespace
