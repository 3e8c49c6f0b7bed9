// Checks all parameter counts of the design documents against the output of gpt info.

#include <gtest/gtest.h>

#include <sstream>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

using nlohmann::json;

json info(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "info");
  arguments.push_back("--json");
  const GptRun run = run_gpt(arguments);
  EXPECT_EQ(run.status, 0) << run.err;
  return run.status == 0 ? json::parse(run.out) : json::object();
}

struct Row {
  std::vector<std::string> arguments;
  int64_t token, position, attention, mlp, norm, layers, final_norm, head,
      total;  // attention, mlp and norm are per layer
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  for (size_t i = 0; i < row.arguments.size(); ++i)
    out << (i > 0 ? " " : "") << row.arguments[i];
  return out;
}
// Replaces all characters except letters and digits for GoogleTest.
std::string row_name(const testing::TestParamInfo<Row>& row) {
  std::string name = testing::PrintToString(row.param);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class InfoTotals : public testing::TestWithParam<Row> {};

TEST_P(InfoTotals, MatchTheTable) {
  const Row& row = GetParam();
  const json p = info(row.arguments).at("parameters");
  EXPECT_EQ(p.at("token_embedding"), row.token);
  EXPECT_EQ(p.at("position_embedding"), row.position);
  EXPECT_EQ(p.at("per_layer").at("attention"), row.attention);
  EXPECT_EQ(p.at("per_layer").at("mlp"), row.mlp);
  EXPECT_EQ(p.at("per_layer").at("norm"), row.norm);
  EXPECT_EQ(p.at("per_layer").at("total"), row.attention + row.mlp + row.norm);
  EXPECT_EQ(p.at("layers"), row.layers);
  EXPECT_EQ(p.at("final_norm"), row.final_norm);
  EXPECT_EQ(p.at("head"), row.head);
  EXPECT_EQ(p.at("total"), row.total);
  int64_t sum = 0;
  for (const char* key :
       {"token_embedding", "position_embedding", "attention", "mlp", "norm", "final_norm", "head"}) {
    sum += p.at(key).get<int64_t>();
  }
  EXPECT_EQ(sum, row.total);
}

INSTANTIATE_TEST_SUITE_P(
    All, InfoTotals,
    testing::Values(
        Row{{"mini-gpt"}, 98304, 98304, 589824, 1181568, 1536, 10637568, 768, 0, 10834944},
        Row{{"gpt1-preln"}, 31087104, 393216, 2362368, 4722432, 3072, 85054464, 1536, 0, 116536320},
        Row{{"gpt1"}, 31087104, 393216, 2362368, 4722432, 3072, 85054464, 0, 0, 116534784},
        Row{{"gpt2", "--qkv-bias", "false", "--out-bias", "false"},
            38597376,
            786432,
            2359296,
            4722432,
            3072,
            85017600,
            1536,
            0,
            124402944},
        Row{{"gpt2"}, 38597376, 786432, 2362368, 4722432, 3072, 85054464, 1536, 0, 124439808},
        Row{{"gpt2-scratch"}, 38597376, 786432, 2360064, 4722432, 3072, 85026816, 1536, 38597376, 163009536},
        Row{{"gpt2-scratch", "--tie-embeddings"},
            38597376,
            786432,
            2360064,
            4722432,
            3072,
            85026816,
            1536,
            0,
            124412160},
        Row{{"gpt3-175b", "--qkv-bias=false", "--out-bias=false"},
            617558016,
            25165824,
            603979776,
            1208020992,
            49152,
            173956792320,
            24576,
            0,
            174599540736},
        Row{{"gpt3-175b"},
            617558016,
            25165824,
            604028928,
            1208020992,
            49152,
            173961510912,
            24576,
            0,
            174604259328},
        Row{{"llama3-8b"}, 525336576, 0, 41943040, 176160768, 8192, 6979584000, 4096, 525336576, 8030261248},
        Row{{"nanochat-demo"}, 131072, 0, 262144, 524288, 0, 3145728, 0, 131072, 3407872},
        Row{{"nanochat"}, 38633472, 0, 2359296, 4718592, 0, 84934656, 0, 38633472, 162201600},
        Row{{"nanochat-doc"}, 38633472, 0, 2359296, 4718592, 0, 84934656, 0, 38633472, 162201600},
        // GPT-2 from scratch before it has layers and norms: 2 x 50,257 x 768 + 1,024 x 768.
        Row{{"gpt2-scratch", "--n-layer", "0", "--final-norm", "false"},
            38597376,
            786432,
            0,
            0,
            0,
            0,
            0,
            38597376,
            77981184},
        Row{{"nanochat-d20"}, 83886080, 0, 6553600, 13107200, 0, 393216000, 0, 83886080, 560988160},
        Row{{"nanochat-d26"}, 109051904, 0, 11075584, 22151168, 0, 863895552, 0, 109051904, 1081999360},
        Row{{"nanochat-d32"}, 134217728, 0, 16777216, 33554432, 0, 1610612736, 0, 134217728, 1879048192},
        // The shape in the nanochat document, with a number of heads that divides the width.
        Row{{"nanochat-doc", "--vocab-size", "65536", "--n-layer", "20", "--n-embd", "512", "--n-head", "8",
             "--n-kv-head", "1"},
            33554432,
            0,
            589824,
            2097152,
            0,
            53739520,
            0,
            33554432,
            120848384},
        Row{{"nanochat-d20", "--n-embd", "512", "--n-head", "8", "--n-kv-head", "1"},
            33554432,
            0,
            589824,
            2097152,
            0,
            53739520,
            0,
            33554432,
            120848384}),
    row_name);

// The two presets have the same shape and size, but other settings differ.
TEST(Info, TheDocumentAndTheNotebookDiffer) {
  const json document = info({"nanochat-doc"}).at("config"), notebook = info({"nanochat"}).at("config");
  EXPECT_EQ(document.at("rope_sign"), 1);
  EXPECT_EQ(document.at("logit_softcap"), 15);
  EXPECT_EQ(document.at("n_ctx"), 1024);
  EXPECT_EQ(notebook.at("rope_sign"), -1);
  EXPECT_EQ(notebook.at("logit_softcap"), 0);
  const GptRun stated = run_gpt({"info", "nanochat-doc", "--vocab-size", "65536", "--n-layer", "20",
                                 "--n-embd", "512", "--n-kv-head", "1"});
  EXPECT_EQ(stated.status, 2);
  EXPECT_TRUE(names(stated.err, {"n_embd = 512", "n_head = 6"}));
}

TEST(Info, TheFirstModelIsWhatOthersVary) {
  const GptRun behind = run_gpt({"info", "--compare", "gpt2", ":n_layer=2"});
  EXPECT_EQ(behind.status, 0) << behind.err;
  EXPECT_EQ(behind.out, run_gpt({"info", "gpt2", "--compare", ":n_layer=2"}).out);
  EXPECT_EQ(run_gpt({"info", "--compare", ":n_layer=2"}).status, 2);
}

// RoPE keys are only compared if both models use RoPE.
TEST(Info, ComparesWhatHasAMeaning) {
  const std::string mixed = run_gpt({"info", "gpt2", "--compare", "nanochat"}).out;
  EXPECT_EQ(mixed.find("rope_"), std::string::npos) << mixed;
  const std::string turned = run_gpt({"info", "nanochat", "--compare", ":rope_sign=1", "gpt2"}).out;
  EXPECT_NE(turned.find("rope_sign"), std::string::npos) << turned;
}

TEST(Info, DepthAgainstWidthDerivesTheMlp) {
  EXPECT_EQ(info({"mini-gpt", "--n-layer", "2", "--n-embd", "512", "--n-head", "8"})["parameters"]["total"],
            6563840);
  EXPECT_EQ(info({"mini-gpt", "--n-layer", "8", "--n-embd", "256", "--n-head", "4"})["parameters"]["total"],
            6441472);
}

TEST(Info, GroupedHeads) {
  EXPECT_EQ(info({"nanochat-demo", "--n-kv-head", "2"})["parameters"]["total"], 3145728);
  EXPECT_EQ(info({"nanochat-demo", "--n-kv-head", "1"})["parameters"]["total"], 3014656);
}

TEST(Info, RuleOfThumbFlopsAndMemory) {
  const json gpt2 = info({"gpt2"});
  EXPECT_EQ(gpt2["parameters"]["rule_of_thumb_12LC2"], 84934656);
  EXPECT_EQ(info({"gpt3-175b"})["parameters"]["rule_of_thumb_12LC2"], 173946175488);
  // The FLOPs per token of d20 are 6 (N - embedding) + 12 L H D T.
  EXPECT_DOUBLE_EQ(info({"nanochat-d20"})["flops_per_token"]["training"].get<double>(),
                   6.0 * (560988160 - 83886080) + 12.0 * 20 * 1280 * 2048);
  EXPECT_EQ(gpt2["memory_bytes"]["inference"]["weights"]["bf16"], 2 * 124439808);
  EXPECT_EQ(gpt2["memory_bytes"]["training"]["moments"], 8 * 124439808);
  // The KV cache takes 2 L Hkv D elements per token. Six heads of 64 in 20 layers with 1024 tokens in bf16
  // take 30 MiB.
  const json cache =
      info({"nanochat-d20", "--n-embd", "384", "--n-head", "6", "--n-kv-head", "6", "--n-ctx", "1024"});
  EXPECT_EQ(cache["memory_bytes"]["inference"]["kv_cache_full_context"]["bf16"], 30 << 20);
}

TEST(Info, ComparesAndLists) {
  const GptRun table = run_gpt({"info", "gpt2", "--compare", "mini-gpt", "tiny"});
  EXPECT_EQ(table.status, 0);
  EXPECT_TRUE(names(table.out, {124439808, 10834944}));
  EXPECT_EQ(info({"gpt2", "--compare", "tiny"})["models"].size(), 2u);
  EXPECT_TRUE(names(run_gpt({"info"}).out, {"nanochat-demo"}));
}

TEST(Info, ComparesVariations) {
  const json models = info({"mini-gpt", "--compare", ":n_layer=2,n_embd=512,n_head=8",
                            "mini-gpt:n-layer=8,n-embd=256,n-head=4", "nanochat-demo:n_kv_head=1"})["models"];
  ASSERT_EQ(models.size(), 4u);
  EXPECT_EQ(models[0]["parameters"]["total"], 10834944);
  EXPECT_EQ(models[1]["parameters"]["total"], 6563840);
  EXPECT_EQ(models[2]["parameters"]["total"], 6441472);
  EXPECT_EQ(models[3]["parameters"]["total"], 3014656);
  const GptRun table = run_gpt({"info", "nanochat-d20", "--compare", ":n_kv_head=2", ":n_kv_head=1"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_TRUE(names(table.out, {"n_kv_head"}));
  EXPECT_FALSE(names(table.out, {"n_layer"})) << "only keys that differ";
  EXPECT_EQ(run_gpt({"info", "--compare", ":n_layer=2"}).status, 2);
  EXPECT_EQ(run_gpt({"info", "gpt2", "--compare", ":n_layer=2,x"}).status, 2);
  EXPECT_TRUE(suggests(run_gpt({"info", "gpt2", "--compare", ":n_layr=2"}).err, "\"n_layr\"", "n_layer"));
}

// Without a model, these commands would only list the presets.
TEST(Info, ViewsOfAModelNeedOne) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"info", "--summary"}, {"info", "--schedule"}, {"info", "--at", "5"}}) {
    const GptRun run = run_gpt(arguments);
    EXPECT_EQ(run.status, 2) << arguments.back();
    EXPECT_TRUE(names(run.err, {arguments[1] == "--at" ? "--schedule" : arguments[1], "MODEL"}));
  }
  EXPECT_EQ(run_gpt({"info", "gpt2", "--at", "5", "--compare", "gpt1"}).status, 2);
}

TEST(Info, MemoryByFormatBatchAndZeroStage) {
  const json memory = info({"gpt2", "--batch-size", "4", "--devices", "8"})["memory_bytes"];
  EXPECT_EQ(memory["inference"]["weights"]["fp8"], 124439808);
  // A key and a value of 768 elements, 12 layers, 1024 tokens, 4 sequences.
  EXPECT_EQ(memory["inference"]["kv_cache_full_context"]["fp16"], int64_t{2} * 2 * 768 * 12 * 1024 * 4);
  const json& zero = memory["training"]["formats"]["mixed"]["zero"];
  EXPECT_EQ(zero[0]["total"], int64_t{16} * 124439808);
  EXPECT_EQ(zero[1]["total"], int64_t{4} * 124439808 + 12 * 15554976);
  EXPECT_EQ(zero[2]["total"], int64_t{2} * 124439808 + 14 * 15554976);
  EXPECT_EQ(zero[3]["total"], int64_t{16} * 15554976);
  EXPECT_LT(memory["training"]["formats"]["autocast"]["activations"],
            memory["training"]["formats"]["fp32"]["activations"]);
  EXPECT_EQ(run_gpt({"info", "gpt2", "--devices", "0"}).status, 2);
}

TEST(Info, ScheduleSummaryAndInitialLoss) {
  const GptRun schedule = run_gpt({"info", "mini-gpt", "--schedule", "--steps", "10000", "--warmup", "200"});
  EXPECT_EQ(schedule.status, 0) << schedule.err;
  EXPECT_TRUE(names(schedule.out, {"0.000249"}));
  EXPECT_NE(schedule.out.find(std::string(40, '=')), std::string::npos);
  const GptRun at = run_gpt({"info", "mini-gpt", "--schedule", "linear", "--at", "0,100,5000"});
  EXPECT_TRUE(names(at.out, {"0.000030"}));
  EXPECT_NEAR(info({"mini-gpt"})["initial_loss"].get<double>(), 5.5452, 5e-5);
  EXPECT_NEAR(info({"gpt1"})["initial_loss"].get<double>(), 10.6085, 5e-5);
  const GptRun summary = run_gpt({"info", "nanochat-demo", "--summary"});
  EXPECT_EQ(summary.status, 0) << summary.err;
  EXPECT_TRUE(names(summary.out, {"relu2", "[B,T,512]", 3407872, "13.0 MiB", "ln 512 = 6.2383"}));
}

TEST(Info, ListsParametersByTheNamesThatFreezeMatches) {
  const GptRun run = run_gpt({"info", "tiny", "--tensors"});
  EXPECT_EQ(run.status, 0) << run.err;
  std::istringstream lines(run.out);
  std::string header, rule, name;
  std::getline(lines, header);
  std::getline(lines, rule);
  lines >> name;
  EXPECT_TRUE(names(run.out, {"blocks.3.attn.q.weight"}));
  const gpt::test::TempDir dir;
  const auto train = [&](const std::string& pattern) {
    return run_gpt({"train", "--preset", "tiny", "--data", "tales:5000", "--n-ctx", "16", "--steps", "1",
                    "--eval-every", "0", "--freeze", pattern, "--out", dir.file(pattern)});
  };
  EXPECT_EQ(train(name).status, 0) << train(name).err;
  EXPECT_EQ(train(name + "x").status, 2);
  EXPECT_EQ(run_gpt({"info", "--tensors"}).status, 2);
}

// AutoModel of transformers does not support the class of such a config.
TEST(Info, NotesAMistralWithListedLayers) {
  const gpt::test::TempDir dir;
  std::filesystem::copy(std::string(GPT_SOURCE_DIR) + "/tests/golden/data/mistral", dir.file("in"));
  std::ifstream in(dir.file("in/config.json"));
  nlohmann::json config = nlohmann::json::parse(in);
  const auto note = [&](const nlohmann::json& layers) {
    config["layer_types"] = layers;
    std::ofstream(dir.file("in/config.json")) << config.dump();
    const GptRun run = run_gpt({"info", dir.file("in")});
    EXPECT_EQ(run.status, 0) << run.err;
    return run.err;
  };
  config["sliding_window"] = 5;
  const auto layers = config["num_hidden_layers"].get<size_t>();
  EXPECT_TRUE(names(note(std::vector<std::string>(layers, "full_attention")), {"note:", "layer_types", 5}));
  EXPECT_FALSE(names(note(std::vector<std::string>(layers, "sliding_attention")), {"layer_types"}));
  EXPECT_FALSE(names(note(nullptr), {"layer_types"}));
}

}  // namespace
