// GPT-2 (Radford et al. 2019), and the programs that write it: transformers, llm.c, minGPT, nanoGPT.

#include <algorithm>

#include "base/printable.h"
#include "model/families/checkpoints.h"
#include "model/families/family.h"
#include "model/json_value.h"

namespace gpt {

constexpr Naming transformers_naming(bool transposed_blocks) {
  return {
      .outside = {"transformer.wte.{1}", "transformer.wpe.{1}", "transformer.ln_f.{1}", "lm_head.{1}"},
      .block = "transformer.h.{0}.",
      .norms = {"ln_1.{1}", "ln_2.{1}"},
      .qkv = {"attn.c_attn.{1}"},
      .linear = {"attn.c_proj.{1}", "mlp.c_fc.{1}", "mlp.c_proj.{1}"},
      .transposed_blocks = transposed_blocks,
  };
}
constexpr Naming kNaming = transformers_naming(true);

constexpr Preset kPresets[] = {
    {"gpt2", "GPT-2 of 2019, the smallest",
     R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768})"},
    {"gpt2-medium", "GPT-2, 24 blocks",
     R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 24, "n_head": 16, "n_embd": 1024})"},
    {"gpt2-large", "GPT-2, 36 blocks",
     R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 36, "n_head": 20, "n_embd": 1280})"},
    {"gpt2-xl", "GPT-2, 48 blocks",
     R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 48, "n_head": 25, "n_embd": 1600})"},
    {"gpt3-175b", "GPT-3 of 2020, to count and plan with",
     R"({"vocab_size": 50257, "n_ctx": 2048, "n_layer": 96, "n_head": 96, "n_embd": 12288})"},
    // no biases, exact GELU
    {"nanogpt-cpu", "a small text in minutes, by characters (nanoGPT's)",
     R"({"n_ctx": 64, "n_layer": 4, "n_head": 4, "n_embd": 128, "act": "gelu", "norm_bias": false,
         "qkv_bias": false, "out_bias": false, "mlp_bias": false, "dropout": 0, "tokenizer": "char",
         "batch_size": 12, "steps": 2000, "lr": 1e-3, "min_lr": 1e-4, "warmup": 100, "beta2": 0.99,
         "weight_decay": 0.1, "clip_norm": 1.0, "eval_every": 250})"},
};

constexpr ConfigKey kKeys[] = {
    {"n_inner", "d_ff", Means::derived},
    {"activation_function", "act", Means::act, nullptr, kPlainActs},
};

constexpr FixedKey kFixed[] = {{"is_causal", "[true, null]"},
                               {"attribute_map", "[{}]"},
                               {"scale_attn_weights", "[true]"},
                               {"scale_attn_by_inverse_layer_idx", "[false]"}};

constinit const Naming kNanoGptNaming = transformers_naming(false);

constinit const Naming kLlmcNaming = {
    .outside = {"wte", "wpe", "lnf{1}"},
    .norms = {"ln1{1}.{0}", "ln2{1}.{0}"},
    .qkv = {"qkv{1}.{0}"},
    .linear = {"attproj{1}.{0}", "fc{1}.{0}", "fcproj{1}.{0}"},
    .words = {"w", "b"},
    .norm_words = {"w", "b"},
};

// Its GELU is the exact one, and one switch takes all biases away.
ModelConfig nanogpt_config(const nlohmann::json& args, const std::string& what) {
  ModelConfig c;
  try {
    for (const auto& [key, value] : args.items()) {
      constexpr std::string_view kKnown[] = {"n_layer", "n_head",     "n_embd", "block_size",
                                             "bias",    "vocab_size", "dropout"};
      if (std::ranges::find(kKnown, key) == std::end(kKnown)) {
        fail("unknown key {}", printable(key));
      }
    }
    nlohmann::json keys = args;
    const nlohmann::json bias = args.value("bias", nlohmann::json(true));
    keys.erase("bias");
    keys.update(
        {{"act", "gelu"}, {"qkv_bias", bias}, {"out_bias", bias}, {"mlp_bias", bias}, {"norm_bias", bias}});
    if (keys.value("vocab_size", nlohmann::json()).is_null()) keys["vocab_size"] = 0;
    read_model_keys(keys, c);
  } catch (const Error& error) {
    fail("{}: its \"model_args\": {}", what, error.what());
  }
  return c;
}

ModelConfig llmc_config(const LlmcHeader& h) {
  constexpr int64_t kVocab = 50257;
  ModelConfig c;
  c.n_embd = h.channels;
  c.n_layer = h.num_layers;
  c.n_head = h.num_heads;
  c.vocab_size = h.vocab_size;
  c.n_ctx = h.max_seq_len;
  if (h.vocab_size == kVocab) {
    c.bos_token_id = kVocab - 1;
    c.eos_token_ids = {kVocab - 1};
  }
  return c;
}

constinit const Family family::gpt2 = {
    .name = "gpt2",
    .switches = R"({"residual_init_scale": true})",
    .presets = kPresets,
    .namings = {&kNaming, &kNanoGptNaming},
    .keys = kGptKeys,
    .more_keys = kKeys,
    .missing = R"({"vocab_size": 50257, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "resid_pdrop": 0.1,
                   "bos_token_id": 50256, "eos_token_id": 50256})",
    .fixed = kFixed,
    .no_window = true,
    .causal_lm = "GPT2LMHeadModel",
    .sequence_classification = "GPT2ForSequenceClassification",
    .double_heads = "GPT2DoubleHeadsModel",
    .gguf = {"gpt2", &kGgufFusedNaming},
};

}  // namespace gpt
