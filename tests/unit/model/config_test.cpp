#include "model/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/suggest.h"
#include "model/config_alias.h"
#include "model/families/family.h"
#include "model/model_files.h"
#include "model/presets.h"
#include "model/rope_table.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

using nlohmann::json;

ModelConfig from_json(const char* text) {
  ModelConfig c;
  const std::vector<std::string> unknown = read_model_keys(json::parse(text), c);
  EXPECT_TRUE(unknown.empty()) << unknown.front();
  complete(c);
  return c;
}

// Checks that the error is one line and names the key.
void expect_error(const char* text, const std::string& key) {
  try {
    from_json(text);
    ADD_FAILURE() << text << " is accepted";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_TRUE(test::names(message, {key})) << text;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Config, FillsInWhatIsDerived) {
  const ModelConfig c =
      from_json(R"({"vocab_size": 10, "n_embd": 48, "n_head": 4, "dropout": 0.25, "attn_dropout": 0})");
  EXPECT_EQ(c.n_kv_head, 4);
  EXPECT_EQ(c.head_dim, 12);
  EXPECT_EQ(c.d_ff, 192);
  EXPECT_EQ(c.embd_dropout, 0.25);
  EXPECT_EQ(c.attn_dropout, 0);
  EXPECT_EQ(c.resid_dropout, 0.25);
  EXPECT_TRUE(c.norm_bias);
  EXPECT_FALSE(from_json(R"({"vocab_size": 10, "norm": "rms"})").norm_bias);
  EXPECT_FALSE(from_json(R"({"vocab_size": 10, "norm_affine": false})").norm_bias);
  ModelConfig again = c;
  complete(again);
  EXPECT_EQ(again, c) << "completing twice changes something";
  ModelConfig open;
  EXPECT_NO_THROW(complete(open, false));
  EXPECT_THROW(complete(open, true), Error);
}

// The expected values are those of nanochat's tables in PyTorch: inv_freq, angles, cos and sin in fp32,
// followed by .bfloat16().
TEST(RopeTable, InBf16AsInNanochat) {
  ModelConfig c;
  c.vocab_size = 10;
  c.n_head = 12;
  c.position = Position::rope;
  c.rope_dtype = RopeDType::bf16;
  complete(c);
  ASSERT_EQ(c.head_dim, 64);
  struct Line {
    int64_t position;
    float cos[4], sin[4], last_sin;  // the first four pairs and the last
  };
  const Line lines[] = {{1,
                         {0.5390625f, 0.73046875f, 0.84765625f, 0.9140625f},
                         {0.83984375f, 0.6796875f, 0.53125f, 0.41015625f},
                         0.000133514404296875f},
                        {10,
                         {-0.83984375f, 0.34765625f, 0.7890625f, -0.474609375f},
                         {-0.54296875f, 0.9375f, -0.61328125f, -0.87890625f},
                         0.00133514404296875f},
                        {127,
                         {0.232421875f, 0.55078125f, -0.66796875f, -0.98828125f},
                         {0.97265625f, 0.8359375f, 0.74609375f, -0.147460938f},
                         0.0169677734375f}};
  const RopeTable narrow(rope_of(c), 128, DType::f32), wide(rope_of(c), 128, DType::f64);
  for (const Line& line : lines) {
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(narrow.cos.row<float>(line.position)[i], line.cos[i]) << line.position << " " << i;
      EXPECT_EQ(narrow.sin.row<float>(line.position)[i], line.sin[i]) << line.position << " " << i;
      EXPECT_EQ(wide.cos.row<double>(line.position)[i], line.cos[i]);
    }
    EXPECT_EQ(narrow.sin.row<float>(line.position)[31], line.last_sin) << line.position;
  }
  c.rope_dtype = RopeDType::fp32;
  EXPECT_NEAR(RopeTable(rope_of(c), 128, DType::f32).cos.row<float>(1)[0], 0.54030231, 1e-7);
}

// These files have the shape keys of other projects, but lack the other settings of those projects.
TEST(Config, SeedsWithoutAFamilyAreRefused) {
  struct Case {
    const char* text;
    std::vector<test::Fact> facts;
  };
  for (
      const Case& c : std::initializer_list<Case>{
          {R"({"sequence_len": 1024, "vocab_size": 50304, "n_layer": 12, "n_head": 6, "n_kv_head": 6, "n_embd": 768})",
           {"`preset`", "nanochat", "nanochat-doc"}},
          {R"({"vocab_size": 50257, "context_length": 1024, "emb_dim": 768, "n_heads": 12, "n_layers": 12,
                "dropout_rate": 0.1, "qkv_bias": false})",
           {"`preset`", "gpt2-scratch"}},
          {R"({"vocab_size": 40478, "n_positions": 512, "n_embd": 768, "n_layer": 12, "n_head": 12,
                "n_inner": 3072, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "resid_pdrop": 0.1})",
           {"`preset`", "gpt1-preln"}},
          {R"({"d_model": 384, "n_layers": 6, "max_seq_len": 256})", {"`preset`", "mini-gpt"}},
          {R"({"n_layers": 6})", {"`preset`", "gpt2-scratch", "mini-gpt"}},
          {R"({"hidden_size": 64, "num_hidden_layers": 2})", {"model_type"}}}) {
    for (const test::Fact& fact : c.facts)
      EXPECT_TRUE(
          test::refused([&] { require_family(json::parse(c.text), "seed.json"); }, "seed.json", {fact}));
    json known = json::parse(c.text);
    known["model_type"] = "mini-gpt";
    EXPECT_NO_THROW(require_family(known, "seed.json"));
  }
  EXPECT_NO_THROW(require_family(json::parse(R"({"n_embd": 64, "learning_rate": 1e-3})"), "own.json"));
}

TEST(Config, WrittenKeysComeBack) {
  for (const std::string& name : preset_names()) {
    EXPECT_NE(preset_purpose(name), "") << name;
    ModelConfig c = preset_config(name);
    complete(c, false);
    ModelConfig again;
    EXPECT_TRUE(read_model_keys(model_keys_json(c), again).empty());
    complete(again, false);
    EXPECT_EQ(again, c) << name;
  }
  EXPECT_EQ(model_keys_json(ModelConfig{}).size(), model_key_names().size());
}

TEST(Config, ImpossibleShapesAreErrorsThatNameTheKey) {
  expect_error(R"({"vocab_size": 10, "n_embd": 50, "n_head": 4})", "n_head");
  expect_error(
      R"({"vocab_size": 65536, "n_ctx": 1024, "n_layer": 20, "n_head": 6, "n_kv_head": 1, "n_embd": 512})",
      "n_head");  // as stated in the nanochat document
  expect_error(R"({"vocab_size": 10, "n_kv_head": 5})", "n_kv_head");
  expect_error(R"({"vocab_size": 10, "n_kv_head": 24})", "n_kv_head");
  expect_error(R"({"vocab_size": 10, "n_kv_head": -1})", "n_kv_head");
  expect_error(R"({"vocab_size": 10, "n_embd": 36, "position": "rope"})", "head_dim");
  expect_error(R"({"vocab_size": 10, "head_dim": 7, "position": "rope"})", "head_dim");
  for (const char* key :
       {"vocab_size", "n_ctx", "n_layer", "n_head", "n_kv_head", "n_embd", "head_dim", "d_ff"}) {
    for (const char* value : {"-1", "1000000000000", "9223372036854775807", "18446744073709551615", "1.5",
                              "1e300", "\"12\"", "null", "true", "[1]", "{}"}) {
      // A missing (null) derived size gets its default.
      const std::string k = key;
      if (std::string(value) == "null" && (k == "d_ff" || k == "n_kv_head" || k == "head_dim")) continue;
      json object = {{"vocab_size", 10}};
      object[key] = json::parse(value);
      expect_error(object.dump().c_str(), key);
    }
  }
  for (const char* key : {"vocab_size", "n_ctx", "n_head", "n_embd"}) {
    json object = {{"vocab_size", 10}};
    object[key] = 0;
    expect_error(object.dump().c_str(), key);
  }
}

TEST(Config, ImpossibleSwitchesAreErrorsThatNameTheKey) {
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{
           {"norm", "batch"},
           {"norm", 1},
           {"norm_eps", -1},
           {"norm_eps", 2},
           {"norm_eps", "small"},
           {"norm_position", ""},
           {"position", "sinus"},
           {"act", "tanh"},
           {"rope_sign", 0},
           {"rope_sign", 2},
           {"rope_layout", "both"},
           {"qkv_bias", 1},
           {"tie_embeddings", "yes"},
           {"logit_softcap", -1},
           {"init", "zeros"},
           {"init_std", -0.1},
           {"dropout", 1},
           {"dropout", 1.5},
           {"rope_scaling", 3},
           {"rope_scaling", {{"rope_type", "yarn"}}},
           {"rope_scaling", {{"rope_type", "linear"}, {"factor", "x"}}}}) {
    json object = {{"vocab_size", 10}};
    object[key] = value;
    expect_error(object.dump().c_str(), key);
  }
  expect_error(R"({"vocab_size": 10, "rope_theta": 0})", "rope_theta");
  expect_error(R"({"vocab_size": 10, "rope_scaling": {"rope_type": "linear", "factor": 0}})", "rope_scaling");
  expect_error(R"({"vocab_size": 10, "rope_scaling": {"rope_type": "llama3", "factor": 8}})", "rope_scaling");
  expect_error(
      R"({"vocab_size": 10, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
               "high_freq_factor": 4, "original_max_position_embeddings": 64}})",
      "rope_scaling");
  expect_error(R"({"vocab_size": 10, "head_bias": true})", "head_bias");
}

TEST(Config, UnknownKeysAreHandedBack) {
  ModelConfig c;
  const std::vector<std::string> unknown =
      read_model_keys({{"vocab_size", 10}, {"n_layr", 3}, {"batch_size", 4}, {"learning_rate", 1}}, c);
  EXPECT_EQ(unknown, (std::vector<std::string>{"batch_size", "lr", "n_layr"}));
}

// ---------------------------------------------------------------------------------------------------
// Key names of the five original projects and of transformers.

TEST(Aliases, OfEverySystemMeanTheSame) {
  const ModelConfig expected =
      from_json(R"({"vocab_size": 99, "n_ctx": 64, "n_embd": 48, "n_layer": 3, "n_head": 6})");
  const char* const texts[] = {
      R"({"vocab_size": 99, "sequence_len": 64, "n_embd": 48, "n_layer": 3, "n_head": 6, "n_kv_head": 6})",
      R"({"vocab_size": 99, "context_length": 64, "emb_dim": 48, "n_layers": 3, "n_heads": 6, "qkv_bias": true})",
      R"({"vocab_size": 99, "n_positions": 64, "n_embd": 48, "n_layer": 3, "n_head": 6, "n_inner": 192})",
      R"({"vocab_size": 99, "n_positions": 64, "n_embd": 48, "n_layer": 3, "n_head": 6, "n_inner": null})",
      R"({"vocab_size": 99, "max_seq_len": 64, "d_model": 48, "n_layers": 3, "n_heads": 6, "n_kv_heads": 6, "d_ff": 192})",
      R"({"vocab_size": 99, "max_position_embeddings": 64, "hidden_size": 48, "num_hidden_layers": 3,
          "num_attention_heads": 6, "num_key_value_heads": 6, "intermediate_size": 192, "hidden_act": "gelu_new"})"};
  for (const char* text : texts)
    EXPECT_EQ(from_json(text), expected) << text;
}

TEST(Aliases, OfSwitches) {
  EXPECT_EQ(from_json(R"({"vocab_size": 9, "dropout_rate": 0.1})").resid_dropout, 0.1);
  const ModelConfig gpt1 =
      from_json(R"({"vocab_size": 9, "embd_pdrop": 0.1, "attn_pdrop": 0.2, "resid_pdrop": 0.3})");
  EXPECT_EQ(gpt1.embd_dropout, 0.1);
  EXPECT_EQ(gpt1.attn_dropout, 0.2);
  EXPECT_EQ(gpt1.resid_dropout, 0.3);
  EXPECT_EQ(from_json(R"({"vocab_size": 9, "layer_norm_epsilon": 1e-3})").norm_eps, 1e-3);
  EXPECT_EQ(from_json(R"({"vocab_size": 9, "rms_norm_eps": 1e-3})").norm_eps, 1e-3);
  EXPECT_EQ(from_json(R"({"vocab_size": 9, "rope_rotation": -1})").rope_sign, -1);
  EXPECT_EQ(from_json(R"({"vocab_size": 9, "final_logit_softcapping": 15})").logit_softcap, 15);
  EXPECT_EQ(from_json(R"({"vocab_size": 9, "final_logit_softcapping": null})").logit_softcap, 0);
  EXPECT_FALSE(from_json(R"({"vocab_size": 9, "tie_word_embeddings": false})").tie_embeddings);
  EXPECT_EQ(from_json(R"({"vocab_size": 9, "hidden_act": "silu"})").act, Act::swiglu);
  EXPECT_EQ(from_json(R"({"vocab_size": 9, "activation_function": "gelu"})").act, Act::gelu);
  EXPECT_EQ(from_json(R"({"vocab_size": 9, "afn": "gelu"})").act, Act::gelu_tanh);
  EXPECT_EQ(from_json(R"({"vocab_size": 9, "afn": "silu"})").act, Act::swiglu);
  EXPECT_EQ(from_json(R"({"vocab_size": 9, "act": "relu_squared"})").act, Act::relu2);
  EXPECT_EQ(from_json(R"({"vocab_size": 9, "hidden_act": "relu_squared"})").act, Act::relu2);
  const ModelConfig bias = from_json(R"({"vocab_size": 9, "attention_bias": false})");
  EXPECT_FALSE(bias.qkv_bias || bias.out_bias);
  const char* const scalings[] = {
      R"({"vocab_size": 9, "rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 500}})",
      R"({"vocab_size": 9, "rope_theta": 500, "rope_scaling": {"type": "linear", "factor": 2}})"};
  for (const char* text : scalings) {
    EXPECT_EQ(from_json(text).rope_scaling.type, RopeScaling::Type::linear);
    EXPECT_EQ(from_json(text).rope_scaling.factor, 2);
    EXPECT_EQ(from_json(text).rope_theta, 500);
  }
}

TEST(Aliases, TrainingNamesAreTranslated) {
  const json out =
      translate_aliases({{"learning_rate", 1}, {"max_iters", 2}, {"warmup_iters", 3}, {"grad_clip", 4}});
  EXPECT_EQ(out, (json{{"lr", 1}, {"steps", 2}, {"warmup", 3}, {"clip_norm", 4}}));
}

TEST(Aliases, ContradictionsAreRefused) {
  for (const char* text : {R"({"n_ctx": 3, "sequence_len": 4})", R"({"n_positions": 3, "max_seq_len": 4})",
                           R"({"n_embd": 3, "d_model": 4})", R"({"attention_bias": false, "qkv_bias": true})",
                           R"({"rope_theta": 3, "rope_parameters": {"rope_theta": 4}})"}) {
    EXPECT_ERROR(translate_aliases(json::parse(text)), ErrorCode::invalid_argument) << text;
  }
  EXPECT_NO_THROW(translate_aliases({{"n_ctx", 3}, {"sequence_len", 3}}));
}

TEST(ModelConfigFile, FamiliesDefaultsAndErrors) {
  test::TempDir dir;
  const auto read = [&](const std::string& text) {
    test::write_plain_file(dir.file("config.json"), text);
    return read_model_config(dir.file("config.json"));
  };
  const ModelConfig llama =
      read(R"({"model_type": "llama", "vocab_size": 20, "hidden_size": 32, "num_attention_heads": 4,
      "num_hidden_layers": 2, "intermediate_size": 48, "eos_token_id": [2, 3], "bos_token_id": 1, "torch_dtype": "bfloat16"})");
  EXPECT_EQ(llama.norm, NormKind::rms);
  EXPECT_EQ(llama.eos_token_ids, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(llama.bos_token_id, 1);
  EXPECT_EQ(read(R"({"model_type": "openai-gpt", "vocab_size": 20, "afn": "gelu"})").act, Act::gelu_tanh);
  EXPECT_EQ(read(R"({"model_type": "gpt2", "vocab_size": 20, "activation_function": "gelu"})").act,
            Act::gelu);
  for (const char* text :
       {R"({"vocab_size": 20})", R"({"model_type": "bert", "vocab_size": 20})",
        R"({"model_type": "qwen3", "vocab_size": 20})", R"({"model_type": "gpt.cpp"})",
        R"({"model_type": "gpt2", "vocab_size": 20, "scale_attn_by_inverse_layer_idx": true})",
        R"({"model_type": "gpt.cpp", "vocab_size": 20, "n_layr": 3})",
        R"({"model_type": "mini-gpt", "vocab_size": 20, "n_layr": 3})",
        R"({"model_type": "gpt.cpp", "vocab_size": 20, "eos_token_id": 20})",
        R"({"model_type": "gpt.cpp", "vocab_size": 20, "bos_token_id": -4})", R"([])", "{", "",
        R"({"model_type": "gpt2", "vocab_size": 20, "bos_token_id": 1.5})",
        R"({"model_type": "llama", "vocab_size": 20, "rope_parameters": {"rope_type": "yarn"}})",
        R"({"model_type": "mini-gpt", "vocab_size": 20, "n_ctx": 3, "max_seq_len": 4})"}) {
    try {
      read(text);
      ADD_FAILURE() << text << " is accepted";
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::invalid_argument) << error.what() << " is about a file";
      EXPECT_NE(std::string(error.what()).find("config.json"), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
}

// ---------------------------------------------------------------------------------------------------
// Rules for config.json of transformers. docs/config-variants.md compares all keys.

// Returns a small model with a model_type and some keys, or throws an error.
ModelConfig foreign(const std::string& type, const char* keys) {
  json object = {{"model_type", type}, {"vocab_size", 20}};
  if (type == "gpt2" || type == "openai-gpt") {
    object.update({{"n_positions", 24}, {"n_embd", 16}, {"n_layer", 2}, {"n_head", 4}});
  } else {
    object.update({{"max_position_embeddings", 24},
                   {"hidden_size", 16},
                   {"intermediate_size", 20},
                   {"num_hidden_layers", 2},
                   {"num_attention_heads", 4},
                   {"num_key_value_heads", 2}});
  }
  object.update(json::parse(keys));
  return model_config_from_json(object, "config.json");
}

std::string refusal(const std::string& type, const char* keys) {
  try {
    foreign(type, keys);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ForeignConfig, KeysOfNobodyOfOtherFamiliesAndOfOursHaveNoEffect) {
  const ModelConfig llama = foreign("llama", "{}"), gpt2 = foreign("gpt2", "{}");
  for (const char* keys :
       {R"({"some_new_key": {"a": 1}})", R"({"qk_norm": true})", R"({"norm_position": "post"})",
        R"({"n_ctx": 7})", R"({"n_embd": 3, "d_model": 4})", R"({"use_sliding_window": true})",
        R"({"max_window_layers": 1})", R"({"partial_rotary_factor": 0.5})",
        R"({"quantization_config": null})", R"({"activation_function": "relu"})",
        R"({"sliding_window": null})", R"({"eos_token_id": 2, "pad_token_id": -1})",
        R"({"logit_softcap": 3})"}) {
    EXPECT_EQ(foreign("llama", keys), llama) << keys;
  }
  for (const char* keys :
       {R"({"n_ctx": 7})", R"({"rms_norm_eps": 0.1})", R"({"rope_theta": 5})", R"({"position": "rope"})",
        R"({"hidden_act": "relu"})", R"({"d_ff": 3})", R"({"tie_embeddings": false})"}) {
    EXPECT_EQ(foreign("gpt2", keys), gpt2) << keys;
  }
  EXPECT_EQ(foreign("qwen2", R"({"attention_bias": false, "mlp_bias": true})"), foreign("qwen2", "{}"));
}

// The name of a different model is not treated as a typo.
TEST(ForeignConfig, AnUnknownModelTypeIsRefusedWithTheListOfThoseSupported) {
  for (const char* type : {"qwen3", "qwen2_moe", "llama4", "gpt_neo", "gemma", "mistral3", "gpt"}) {
    const std::string message = refusal(type, "{}");
    EXPECT_TRUE(test::names(message, {type}));
    std::vector<std::string> known;
    for (const Family* family : families()) {
      EXPECT_TRUE(test::names(message, {family->name}));
      known.emplace_back(family->name);
    }
    const std::string typo = did_you_mean(type, known);
    EXPECT_TRUE(typo.empty() || message.find(typo) == std::string::npos) << message;
  }
}

TEST(ForeignConfig, WhatTheDecoderLacksIsRefusedByName) {
  const std::vector<std::tuple<std::string, const char*, std::string>> cases = {
      {"llama", R"({"hidden_act": "gelu"})", "hidden_act"},
      {"llama", R"({"hidden_act": "relu"})", "hidden_act"},
      {"gpt2", R"({"activation_function": "silu"})", "activation_function"},
      {"openai-gpt", R"({"afn": "silu"})", "afn"},
      {"llama", R"({"head_dim": 0})", "head_dim"},
      {"llama", R"({"num_key_value_heads": 0})", "num_key_value_heads"},
      {"llama", R"({"num_key_value_heads": 3})", "num_key_value_heads"},
      {"llama", R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})", "quantization_config"},
      {"llama", R"({"per_layer_config": {"0": {"intermediate_size": 8}}})", "per_layer_config"},
      {"llama", R"({"is_causal": false})", "is_causal"},
      {"llama", R"({"rope_parameters": {"rope_type": "linear"}})", "factor"},
      {"llama", R"({"rope_parameters": {"rope_type": "llama3", "factor": 8}})", "low_freq_factor"},
      {"llama", R"({"rope_parameters": {"rope_type": "yarn", "factor": 8}})", "rope_parameters.rope_type"},
      {"llama", R"({"rope_scaling": {"type": "yarn", "factor": 8}})", "rope_scaling.type"},
      {"llama", R"({"rope_scaling": {"type": "linear", "factor": 8}, "partial_rotary_factor": 0.5})",
       "partial_rotary_factor"},
      {"llama", R"({"rope_theta": null})", "rope_theta"},
      {"gpt2", R"({"n_inner": 0})", "n_inner"},
      {"gpt2", R"({"scale_attn_weights": false})", "scale_attn_weights"},
      {"nanochat", R"({"final_logit_softcapping": 0})", "final_logit_softcapping"},
      {"mistral", R"({"sliding_window": 0})", "sliding_window"},
      {"mistral", R"({"sliding_window": 5, "layer_types": ["full_attention"]})", "layer_types"},
      {"mistral", R"({"sliding_window": 5, "layer_types": ["chunked_attention", "chunked_attention"]})",
       "layer_types"},
      {"mistral", R"({"sliding_window": null, "layer_types": ["sliding_attention", "sliding_attention"]})",
       "layer_types"},
      {"ministral", R"({"sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"]})",
       "layer_types"},
      {"ministral", R"({"sliding_window": null})", "sliding_window"},
      {"llama", R"({"sliding_window": 5})", "sliding_window"},
      {"gpt2", R"({"layer_types": ["sliding_attention", "sliding_attention"]})", "layer_types"},
      {"qwen2", R"({"use_sliding_window": true, "sliding_window": 5, "max_window_layers": 1})",
       "max_window_layers"},
      {"qwen2", R"({"layer_types": ["sliding_attention", "sliding_attention"]})", "sliding_window"},
      {"qwen2", R"({"layer_types": ["full_attention"]})", "layer_types"},
      {"gpt2", R"({"attn_pdrop": 1.5})", "attn_pdrop"}};
  for (const auto& [type, keys, name] : cases)
    EXPECT_TRUE(test::names(refusal(type, keys), {name})) << keys;
}

TEST(ForeignConfig, WindowsAreThoseOfTransformers) {
  EXPECT_EQ(foreign("mistral", R"({"sliding_window": 5})").sliding_window, 5);
  EXPECT_EQ(foreign("mistral", R"({"sliding_window": 5, "use_sliding_window": false})").sliding_window, 5);
  EXPECT_EQ(foreign("mistral", R"({"sliding_window": null})").sliding_window, 0);
  EXPECT_EQ(foreign("mistral", "{}").sliding_window, 4096);
  // layer_types is a setting of Ministral, which Mistral ignores.
  for (const char* kinds :
       {R"(["full_attention", "full_attention"])", R"(["sliding_attention", "sliding_attention"])",
        R"(["sliding_attention", "full_attention"])", "null"}) {
    const std::string keys = fmt::format(R"({{"sliding_window": 5, "layer_types": {}}})", kinds);
    EXPECT_EQ(foreign("mistral", keys.c_str()).sliding_window, 5) << keys;
  }
  const char* const full = R"({"sliding_window": 5, "layer_types": ["full_attention", "full_attention"]})";
  EXPECT_EQ(foreign("ministral", full).sliding_window, 0);
  EXPECT_EQ(foreign("ministral", R"({"sliding_window": 5})").sliding_window, 5);
  json named = json::parse(full);
  named["architectures"] = {"MinistralForCausalLM"};
  EXPECT_EQ(foreign("mistral", named.dump().c_str()).sliding_window, 0) << "the class of the file decides";
  named["architectures"] = {"MistralForCausalLM"};
  EXPECT_EQ(foreign("mistral", named.dump().c_str()).sliding_window, 5);
  EXPECT_EQ(foreign("qwen2", R"({"sliding_window": 5})").sliding_window, 0);
  EXPECT_EQ(foreign("qwen2", R"({"use_sliding_window": true, "sliding_window": 5})").sliding_window, 0)
      << "28 layers come before the first that slides";
  EXPECT_EQ(foreign("qwen2", R"({"use_sliding_window": true, "sliding_window": 5, "max_window_layers": 0})")
                .sliding_window,
            5);
  EXPECT_EQ(foreign("qwen2", R"({"use_sliding_window": true, "sliding_window": 24, "max_window_layers": 1})")
                .sliding_window,
            0)
      << "a window as long as the context";
}

TEST(ForeignConfig, MissingKeysAreThoseOfTheirClass) {
  const ModelConfig c = model_config_from_json(json::parse(R"({"model_type": "mistral"})"), "config.json");
  EXPECT_EQ(c.vocab_size, 32000);
  EXPECT_EQ(c.n_kv_head, 8);
  EXPECT_EQ(c.n_ctx, 131072);
  EXPECT_EQ(c.eos_token_ids, (std::vector<int64_t>{2}));
  EXPECT_EQ(foreign("gpt2", "{}").attn_dropout, 0.1);
  EXPECT_TRUE(foreign("gpt2", "{}").eos_token_ids.empty()) << "50256, which 20 ids do not have";
  EXPECT_EQ(foreign("llama", R"({"rope_scaling": {"type": "linear", "factor": 2}, "rope_theta": 7,
      "rope_parameters": {"rope_theta": 9}})")
                .rope_theta,
            7);
  EXPECT_EQ(foreign("llama", R"({"rope_theta": 7, "rope_parameters": {"rope_theta": 9}})").rope_theta, 9);
  EXPECT_EQ(foreign("llama", R"({"rope_parameters": {"rope_type": "dynamic", "factor": 2}})"),
            foreign("llama", "{}"))
      << "it begins where the context ends";
}

TEST(ForeignConfig, GenerationConfigsIdsGoFirst) {
  test::TempDir dir;
  test::write_plain_file(dir.file("config.json"),
                         R"({"model_type": "llama", "vocab_size": 20, "eos_token_id": 3})");
  test::write_plain_file(dir.file("generation_config.json"),
                         R"({"eos_token_id": [4, 5, 99], "bos_token_id": null})");
  const ModelConfig c = read_model_config(dir.file("config.json"));
  EXPECT_EQ(c.eos_token_ids, (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(c.bos_token_id, 1);
  for (const char* text : {"[]", "{", R"({"eos_token_id": "2"})"}) {
    test::write_plain_file(dir.file("generation_config.json"), text);
    try {
      read_model_config(dir.file("config.json"));
      ADD_FAILURE() << text << " is accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("generation_config.json"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace gpt
