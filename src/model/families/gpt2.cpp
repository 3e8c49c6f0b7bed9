// The GPT-2 family (Radford et al. 2019), including checkpoints of transformers, llm.c, minGPT and nanoGPT.

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

// nanoGPT uses the exact GELU, and a model with `bias = false` has no biases at all.
static void set_nanogpt_switches(ModelConfig& c, bool bias) {
  c.act = Act::gelu;
  c.norm_bias = c.qkv_bias = c.out_bias = c.mlp_bias = bias;
}

// clang-format off
constexpr Preset kPresets[] = {
    {"gpt2", "GPT-2 (2019), 12 layers", {.vocab_size = 50257}},
    {"gpt2-medium", "GPT-2, 24 layers", {.vocab_size = 50257, .n_layer = 24, .n_head = 16, .n_embd = 1024}},
    {"gpt2-large", "GPT-2, 36 layers", {.vocab_size = 50257, .n_layer = 36, .n_head = 20, .n_embd = 1280}},
    {"gpt2-xl", "GPT-2, 48 layers", {.vocab_size = 50257, .n_layer = 48, .n_head = 25, .n_embd = 1600}},
    {"gpt3-175b", "GPT-3 (2020), to estimate parameters and memory",
     {.vocab_size = 50257, .n_ctx = 2048, .n_layer = 96, .n_head = 96, .n_embd = 12288}},
    {"nanogpt-cpu", "nanoGPT character model: small text, minutes",
     {.n_ctx = 64, .n_layer = 4, .n_head = 4, .n_embd = 128},
     [](ModelConfig& c) {
       set_nanogpt_switches(c, false);
       c.dropout = 0;
     },
     {.tokenizer = "char", .batch_size = 12, .steps = 2000, .warmup = 100, .lr = 1e-3, .min_lr = 1e-4, .beta2 = 0.99,
      .weight_decay = 0.1, .clip_norm = 1.0, .eval_every = 250}},
};
// clang-format on

constexpr ConfigKey kKeys[] = {
    {"n_inner", &ModelConfig::d_ff, Means::derived},
    {"activation_function", &ModelConfig::act, Means::act, nullptr, kPlainActs},
};

constexpr FixedKey kFixed[] = {{"is_causal", {true, nullptr}},
                               {"attribute_map", {EmptyObject{}}},
                               {"scale_attn_weights", {true}},
                               {"scale_attn_by_inverse_layer_idx", {false}}};

constinit const Naming kNanoGptNaming = transformers_naming(false);

constinit const Naming kLlmcNaming = {
    .outside = {"wte", "wpe", "lnf{1}"},
    .norms = {"ln1{1}.{0}", "ln2{1}.{0}"},
    .qkv = {"qkv{1}.{0}"},
    .linear = {"attproj{1}.{0}", "fc{1}.{0}", "fcproj{1}.{0}"},
    .words = {"w", "b"},
    .norm_words = {"w", "b"},
};

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
    bool bias = true;
    if (args.contains("bias")) from_json_value("mlp_bias", args["bias"], bias);
    set_nanogpt_switches(c, bias);
    keys.erase("bias");
    if (keys.value("vocab_size", nlohmann::json()).is_null()) keys["vocab_size"] = 0;
    read_model_keys(keys, c);
  } catch (const Error& error) {
    fail_because(error, "{}: \"model_args\": {}", what, error.what());
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

constexpr const char *kGptTelling[] = {"n_positions", "n_inner"}, *kNanoGptTelling[] = {"block_size"};
constexpr ConfigKey kNanoGptKeys[] = {{"block_size", &ModelConfig::n_ctx}};
constexpr ForeignNames::Training kNanoGptTraining[] = {
    {"learning_rate", "lr"}, {"max_iters", "steps"}, {"warmup_iters", "warmup"}, {"grad_clip", "clip_norm"}};
constexpr ForeignNames kForeignNames[] = {{.telling = kGptTelling,
                                           .program = "GPT-1 and GPT-2",
                                           .remedy = "`preset` gpt1-preln (the notebook), gpt1 or gpt2"},
                                          {.telling = kNanoGptTelling,
                                           .program = "nanoGPT",
                                           .remedy = "`preset` nanogpt-cpu or gpt2",
                                           .keys = kNanoGptKeys,
                                           .training = kNanoGptTraining}};

constinit const Family family::gpt2 = {
    .name = "gpt2",
    .switches = [](ModelConfig& c) { c.residual_init_scale = true; },
    .presets = kPresets,
    .namings = {&kNaming, &kNanoGptNaming},
    .keys = kGptKeys,
    .more_keys = kKeys,
    .missing = {.vocab_size = 50257},
    .missing_dropout = 0.1,
    .bos_token_id = 50256,
    .eos_token_id = 50256,
    .fixed = kFixed,
    .no_window = true,
    .causal_lm = "GPT2LMHeadModel",
    .sequence_classification = "GPT2ForSequenceClassification",
    .double_heads = "GPT2DoubleHeadsModel",
    .gguf = {"gpt2", &kGgufFusedNaming},
    .foreign_names = kForeignNames,
};

}  // namespace gpt
