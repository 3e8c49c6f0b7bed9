"""The values that config_variants.py uses for the keys of a config.json, and the texts of the page that it writes.

The keys of a config class are its dataclass fields in transformers. A key without a list in this file gets values of
its type. Used with transformers 5.23.0.
"""

import dataclasses
import enum

import transformers


class Missing(enum.Enum):
    ABSENT = 0


ABSENT = Missing.ABSENT
CLASSES = {"gpt2": transformers.GPT2Config, "openai-gpt": transformers.OpenAIGPTConfig, "llama": transformers.LlamaConfig,
           "qwen2": transformers.Qwen2Config, "mistral": transformers.MistralConfig,
           "ministral": transformers.MinistralConfig, "nanochat": transformers.NanoChatConfig}
MODELS = {"gpt2": transformers.GPT2LMHeadModel, "openai-gpt": transformers.OpenAIGPTLMHeadModel,
          "llama": transformers.LlamaForCausalLM, "qwen2": transformers.Qwen2ForCausalLM,
          "mistral": transformers.MistralForCausalLM, "ministral": transformers.MinistralForCausalLM,
          "nanochat": transformers.NanoChatForCausalLM}
ROTARY = ("llama", "qwen2", "mistral", "ministral", "nanochat")
# These keys affect training or the maximum text length, which are not compared. gpt may refuse a value that is invalid
# for them. It may also refuse a quantization that transformers ignores for fp32 weights, depending on the installed
# packages.
EFFECT_ELSEWHERE = {"attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "initializer_range",
                    "max_position_embeddings", "quantization_config"}
ORDER = {"same": 0, "equal": 1, "stricter": 2, "refused both": 3, "refused": 4}

ACTS = ["gelu", "gelu_new", "gelu_fast", "gelu_accurate", "gelu_python", "gelu_pytorch_tanh", "gelu_python_tanh",
        "gelu_10", "quick_gelu", "relu", "relu2", "relu6", "relu_squared", "silu", "swish", "swiglu", "gelu_tanh", "mish",
        "tanh", "sigmoid", "linear", "leaky_relu", "laplace", "nonsense", "", None]
IDS = [0, 5, -1, 50256, None, [3, 7], [], [2, 99999], "2", True, 1.5]
DROPOUT = [0, 0.0, 0.3, None, "0.1"]
PRUNED = [{}, {"0": [1]}, None]
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 12, "rope_theta": 500.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "rope_theta": 500.0}
FACTORS = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5]


def without(d, *keys):
    return {k: v for k, v in d.items() if k not in keys}


ROPE = [
    None, {}, {"rope_theta": 100.0}, {"rope_theta": 100}, {"rope_type": "default"}, {"rope_type": "default", "rope_theta": 50.0},
    {"rope_type": "default", "rope_theta": 50.0, "factor": 4.0}, {"type": "default", "rope_theta": 50.0},
    {"rope_type": "linear", "factor": 4.0, "rope_theta": 50.0}, {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "linear", "factor": 0.5}, {"rope_type": "linear", "factor": 1.0, "rope_theta": 10000.0},
    {"type": "linear", "factor": 2.0}, {"type": "linear", "rope_type": "default", "factor": 2.0},
    {"type": "default", "rope_type": "linear", "factor": 2.0}, {"rope_type": "linear"}, {"rope_type": "linear", "factor": None},
    {"rope_type": "linear", "factor": "4"}, {"rope_type": "linear", "factor": 0}, {"factor": 4.0},
    {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 0.5},
    {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 1.0},
    {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 0.95},
    {"rope_type": "default", "partial_rotary_factor": 0.5}, {"rope_type": "default", "partial_rotary_factor": None},
    {"rope_type": "dynamic", "factor": 4.0}, {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 50.0},
    {"rope_type": "dynamic"}, {"rope_type": "dynamic", "factor": 4.0, "partial_rotary_factor": 0.5},
    {"rope_type": "dynamic", "factor": None}, {"type": "dynamic", "factor": 2.0},
    LLAMA3, without(LLAMA3, "rope_theta"), without(LLAMA3, "original_max_position_embeddings"), without(LLAMA3, "factor"),
    without(LLAMA3, "low_freq_factor"), without(LLAMA3, "high_freq_factor"), {**LLAMA3, "low_freq_factor": 4.0},
    {**LLAMA3, "low_freq_factor": 8.0}, {**LLAMA3, "partial_rotary_factor": 0.5}, {**LLAMA3, "factor": None},
    {**LLAMA3, "original_max_position_embeddings": 0}, {**LLAMA3, "original_max_position_embeddings": 12.5},
    {**LLAMA3, "attention_factor": 2.0}, YARN, {**YARN, "attention_factor": 1.0}, without(YARN, "factor"),
    {"rope_type": "longrope", "factor": 4.0, "short_factor": FACTORS, "long_factor": FACTORS,
     "original_max_position_embeddings": 8, "rope_theta": 500.0},
    {"rope_type": "longrope"}, {"rope_type": "proportional", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
    {"rope_type": "proportional", "rope_theta": 500.0}, {"rope_type": "axial", "rope_theta": 500.0},
    {"rope_type": "nonsense"}, {"rope_type": None}, {"rope_type": 3}, {"rope_theta": None}, {"rope_theta": "100"},
    {"rope_theta": 0}, {"rope_theta": -5.0}, {"rope_theta": 100.0, "some_new_key": 3},
    {"full_attention": {"rope_type": "default", "rope_theta": 100.0}},
    {"full_attention": {"rope_type": "default", "rope_theta": 100.0},
     "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}},
    {"mrope_section": [1, 1, 2], "rope_type": "default"}, {"attention_factor": 2.0, "rope_theta": 100.0},
    "linear", [], 4.0]

FIELDS = {  # values for fields of transformers classes, by one of the names of a field
    "vocab_size": [64, 0, None, "45"], "hidden_size": [32, 20, 0, None], "n_embd": [36, 20, 0, None],
    "num_hidden_layers": [1, 3, 0, None, -1], "n_layer": [1, 3, 0, None],
    "num_attention_heads": [1, 2, 4, 3, 0, None, "2"], "n_head": [1, 3, 5, 6, 0, None],
    "num_key_value_heads": [1, 2, 4, 3, 0, None, -1, "1"], "intermediate_size": [24, 7, 0, None],
    "n_inner": [40, None, 0, -1, "40", 72], "head_dim": [4, 6, 8, 12, 14, 3, 5, 0, None, "8", -2],
    "max_position_embeddings": [8, 16, 64, 0, None, "16"], "n_positions": [16, 32, 0, None, 9],
    "rms_norm_eps": [1e-3, 1e-8, 0.0, 0, None, "1e-5", -1e-6], "layer_norm_epsilon": [1e-3, 1e-8, 0.0, 0, None, "1e-5"],
    "hidden_act": ACTS, "activation_function": ACTS, "afn": ACTS,
    "initializer_range": [0.5, 0.0, 1.0, None, "0.02", -0.1], "use_cache": [True, False, None, "yes"],
    "pad_token_id": [*IDS[:7], "2"], "bos_token_id": IDS, "eos_token_id": IDS,
    "pretraining_tp": [1, 2, 4, 0, None], "tie_word_embeddings": [True, False, None, 1],
    "rope_parameters": ROPE, "attention_bias": [True, False, None, 1], "mlp_bias": [True, False, None],
    "attention_dropout": [*DROPOUT, 1.0], "resid_pdrop": DROPOUT, "embd_pdrop": DROPOUT, "attn_pdrop": DROPOUT,
    "sliding_window": [None, 2, 3, 6, 17, 4096, 0, -1, "5", 2.5, True], "use_sliding_window": [True, False, None, 1],
    "max_window_layers": [0, 1, 2, 28, None, -1, "1"],
    "layer_types": [None, [], ["full_attention"] * 2, ["sliding_attention"] * 2, ["full_attention", "sliding_attention"],
                    ["full_attention"] * 3, ["sliding_attention"], ["attention"] * 2, ["nonsense"] * 2,
                    ["chunked_attention"] * 2, ["linear_attention"] * 2, "full_attention"],
    "scale_attn_weights": [True, False, None, 1], "scale_attn_by_inverse_layer_idx": [True, False, None],
    "reorder_and_upcast_attn": [True, False, None], "add_cross_attention": [True, False, None],
    "summary_type": ["last", "mean", None], "summary_use_proj": [True, False], "summary_activation": ["tanh", None],
    "summary_proj_to_labels": [True, False], "summary_first_dropout": [0.0, 0.5],
    "final_logit_softcapping": [None, 5.0, 30, 0.0, 0, -5.0, "15", True],
    "transformers_version": ["4.30.0", "5.23.0", None], "output_hidden_states": [True, False, None],
    "architectures": [["LlamaForCausalLM"], ["GPT2Model"], ["LlamaForSequenceClassification"], [], None],
    "return_dict": [True, False], "dtype": ["float32", "bfloat16", "float16", None, "nonsense"],
    "chunk_size_feed_forward": [0, 4], "is_encoder_decoder": [True, False, None],
    "id2label": [None, {"0": "a", "1": "b"}, {"0": "a"}], "label2id": [None, {"a": 0, "b": 1}],
    "problem_type": [None, "regression", "nonsense"],
}

# Keys of the base class in old and new versions of transformers, keys for loading and generation, and unknown keys.
COMMON = {
    "torch_dtype": ["float16", "bfloat16", "float32", None], "_name_or_path": ["gpt2", None], "name_or_path": ["x"],
    "attn_implementation": ["eager", "sdpa", None], "_attn_implementation": ["eager"], "experts_implementation": ["eager"],
    "output_attentions": [True, False, None], "use_return_dict": [True], "torchscript": [True, False],
    "pruned_heads": PRUNED, "tie_encoder_decoder": [True, False], "cross_attention_hidden_size": [None, 16],
    "is_decoder": [True, False], "add_cross_attention": [True, False], "gradient_checkpointing": [True, False],
    "finetuning_task": ["mnli", None], "num_labels": [1, 2, 5], "tokenizer_class": ["GPT2Tokenizer", None],
    "prefix": ["a", None], "sep_token_id": [1, None], "cls_token_id": [2], "unk_token_id": [0], "decoder_start_token_id": [1],
    "task_specific_params": [None, {"text-generation": {"do_sample": True, "max_length": 50}}],
    "max_length": [5, 20], "min_length": [3], "do_sample": [True], "temperature": [0.7, 0.0], "top_k": [5], "top_p": [0.9],
    "repetition_penalty": [1.3], "num_beams": [4], "early_stopping": [True], "bad_words_ids": [[[3]]],
    "suppress_tokens": [[1, 2]], "forced_bos_token_id": [1], "forced_eos_token_id": [2], "no_repeat_ngram_size": [2],
    "auto_map": [{"AutoConfig": "configuration_x.XConfig", "AutoModelForCausalLM": "modeling_x.X"}, None],
    "quantization_config": [None, {}, {"quant_method": "bitsandbytes", "load_in_8bit": True},
                            {"quant_method": "gptq", "bits": 4}, {"quant_method": "fp8"}, {"bits": 4}],
    "compression_config": [None, {"quant_method": "compressed-tensors"}],
    "per_layer_config": [None, {}, {"0": {"intermediate_size": 12}}, {"7": {"hidden_size": 3}}],
    "is_causal": [True, False, None], "transformers_weights": [None, "other.safetensors", "model.safetensors"],
    "configuration_files": [["config.json"], ["config.4.0.0.json"]], "fusion_config": [None, {"patch": True}],
    "distributed_config": [None, {}], "text_config": [None, {}, {"hidden_size": 8}], "decoder": [None, {}],
    "attribute_map": [{}, {"hidden_size": "vocab_size"}], "default_theta": [5.0], "tie_last_hidden_states": [True, False],
    "attention_chunk_size": [None, 4], "kv_sharing_modes": [None], "attention_factor": [2.0], "logit_scale": [0.5],
    "logits_scaling": [8.0], "residual_multiplier": [0.2], "embedding_multiplier": [12.0], "attention_multiplier": [0.5],
    "attn_logit_softcapping": [50.0], "final_logit_softcapping": [5.0], "query_pre_attn_scalar": [9],
    "rope_theta": [500.0, 500, 10000.0, None, "500", 0, 1e6], "rope_scaling": [None, {}, {"type": "linear", "factor": 4.0},
                                                                              {"rope_type": "dynamic", "factor": 2.0}, LLAMA3, YARN,
                                                                              {"factor": 2.0}, 4, False],
    "partial_rotary_factor": [0.5, 1.0, 0.25, None, "0.5", 1], "rope_interleaved": [True], "rotary_dim": [4],
    "rotary_pct": [0.25], "rotary_emb_base": [500], "original_max_position_embeddings": [8, None], "rope_local_base_freq": [100.0],
    "sliding_window": [None, 3, 6, 4096, 0], "use_sliding_window": [True, False, None], "max_window_layers": [0, 1],
    "layer_types": FIELDS["layer_types"], "sliding_window_pattern": [2, 6], "no_rope_layers": [[1, 0]],
    "use_qk_norm": [True], "qk_layernorm": [True], "attn_bias": [True], "qkv_bias": [True, False], "use_bias": [True, False],
    "num_local_experts": [4], "num_experts": [4], "num_experts_per_tok": [2], "moe_intermediate_size": [12],
    "alibi": [True], "parallel_attn": [True], "multi_query": [True], "new_decoder_architecture": [True], "clip_qkv": [8.0],
    "n_ctx": [16, 24, 64], "n_special": [0, 2], "predict_special_tokens": [True, False], "head_dim": [None, 6, 7, 0],
    "layer_norm_eps": [1e-3], "norm_epsilon": [1e-3], "norm_type": ["layer"], "embd_dropout": [0.5], "hidden_dropout": [0.1],
    "classifier_dropout": [0.1], "vocab_file": ["x"], "n_layr": [3], "some_new_key": [1, "x", {"a": [None]}, None],
    "rope_parameters": [None, {"rope_theta": 5.0}], "mtp_layer_types": [["attention"]], "_rope_type_labels": [["rope_theta"]],
    "keys_to_ignore_at_inference": [["logits"]], "transformers.js_config": [{"dtype": "q4"}], "unsloth_version": ["2025.1"],
    "use_bfloat16": [True], "max_seq_len": [16], "model_max_length": [16], "kv_cache_scheme": [{"num_bits": 8}],
}

OWN = {  # keys of gpt.cpp and of the five original projects, inserted into a transformers file
    "norm": ["layer", "rms"], "norm_affine": [False], "norm_bias": [False, True], "norm_eps": [1e-2], "norm_position": ["post", "pre"],
    "embd_norm": [True], "final_norm": [False], "qk_norm": [True, False], "position": ["learned", "rope"], "rope_sign": [-1, 1],
    "rope_layout": ["interleaved", "halves"], "act": ["relu", "swiglu"], "out_bias": [True, False],
    "head_bias": [True], "tie_embeddings": [True, False], "logit_softcap": [3.0, 0], "dropout": [0.2], "attn_dropout": [0.2],
    "resid_dropout": [0.2], "init": ["torch"], "init_std": [0.5], "residual_init_scale": [True], "n_kv_head": [1, 2], "d_ff": [11],
    "context_length": [7], "emb_dim": [8], "d_model": [8], "n_layers": [5], "n_heads": [1], "n_kv_heads": [1], "dropout_rate": [0.3],
    "block_size": [8], "sequence_len": [8], "rope_rotation": [-1], "lr": [0.1], "learning_rate": [0.1], "steps": [5], "n_ctx_hint": [5]}


def of_type(field, default):
    """Returns values for a field that has no list."""
    if isinstance(default, bool):
        return [True, False, None]
    if isinstance(default, (int, float)):
        return [default, default + 1, 0, None, "1"]
    return [None, "text", 1]


def options_of(model_type):
    """Returns values by key for the fields of the class, their aliases, and the keys of all other classes."""
    cls, out = CLASSES[model_type], {}
    for field in dataclasses.fields(cls):
        out[field.name] = list(FIELDS.get(field.name) or of_type(field, field.default)) + [ABSENT]
    for alias, name in cls.attribute_map.items():
        out[alias] = list(FIELDS[name])
    for other in (COMMON, OWN):
        for key, options in other.items():
            out.setdefault(key, []).extend(v for v in options if not any(v is o or (v == o and type(v) is type(o))
                                                                       for o in out.get(key, [])))
    for other in CLASSES.values():
        for field in dataclasses.fields(other):
            if field.name not in out:
                out[field.name] = list(FIELDS.get(field.name, [None]))[:4]
    return out


WINDOW = {"sliding_window": 5}
TOGETHER = {  # combinations of keys that interact
    "gpt2": [{"n_embd": 24, "n_head": 4, "n_inner": None}, {"n_embd": 24, "hidden_size": 36, "n_head": 4}, {"n_layer": 3, "num_hidden_layers": 1},
             {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True}, {"n_ctx": 12, "n_positions": 30},
             {"reorder_and_upcast_attn": True, "scale_attn_by_inverse_layer_idx": True}],
    "openai-gpt": [{"n_embd": 24, "n_head": 4, "n_inner": 30}, {"n_ctx": 12, "n_positions": 30}],
    "qwen2": [{"use_sliding_window": u, **w, **m} for u in (True, False) for w in ({}, WINDOW, {"sliding_window": None},
                                                                                  {"sliding_window": 4096}, {"sliding_window": 0})
              for m in ({"max_window_layers": 0}, {"max_window_layers": 1}, {"max_window_layers": 2}, {"max_window_layers": ABSENT},
                        {"layer_types": ["sliding_attention"] * 2}, {"layer_types": ["full_attention"] * 2},
                        {"layer_types": ["full_attention", "sliding_attention"]})],
    "mistral": [{**w, **m} for w in (WINDOW, {"sliding_window": None}, {"sliding_window": ABSENT}, {"sliding_window": 4096})
                for m in ({"use_sliding_window": False}, {"use_sliding_window": True}, {"layer_types": ["full_attention"] * 2},
                          {"layer_types": ["sliding_attention"] * 2}, {"layer_types": ["sliding_attention", "full_attention"]},
                          {"max_window_layers": 1}, {"max_position_embeddings": 4})],
    "llama": [{"sliding_window": 5, "layer_types": ["full_attention"] * 2}, {"sliding_window": 5, "use_sliding_window": False},
              {"sliding_window": 5, "use_cache": False}],
}


def model_class(config):
    """Returns the class that computes a model. model_type determines it, unless a Mistral file names a Ministral class.
    """
    names = config.get("architectures")
    named = names[0] if isinstance(names, list) and names else ""
    if config["model_type"] == "mistral" and isinstance(named, str) and named.startswith("Ministral"):
        return MODELS["ministral"]
    return MODELS[config["model_type"]]


TOGETHER["ministral"] = TOGETHER["mistral"]
TOGETHER["mistral"] = TOGETHER["mistral"] + [
    {"architectures": [a], "sliding_window": w, "layer_types": kinds} for a in ("MinistralForCausalLM", "MistralForCausalLM")
    for w in (5, None) for kinds in (["full_attention"] * 2, ["sliding_attention"] * 2, None)]


def together_for(model_type):
    if model_type not in ROTARY:
        return []
    legacy = [{"rope_parameters": ABSENT, **c} for c in (
        {}, {"rope_theta": 500.0}, {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 500.0},
        {"rope_scaling": LLAMA3, "rope_theta": 50.0}, {"rope_scaling": without(LLAMA3, "rope_theta"), "rope_theta": 50.0},
        {"rope_scaling": {"type": "dynamic", "factor": 4.0}, "rope_theta": 500.0}, {"rope_scaling": YARN},
        {"rope_scaling": {"rope_type": "llama3"}}, {"rope_scaling": None, "rope_theta": 500},
        {"rope_theta": 500.0, "partial_rotary_factor": 0.5}, {"rope_theta": None},
        {"rope_scaling": {"type": "linear", "factor": 4.0}, "partial_rotary_factor": 0.5},
        {"rope_scaling": without(LLAMA3, "original_max_position_embeddings"), "original_max_position_embeddings": 6},
        {"rope_scaling": LLAMA3, "original_max_position_embeddings": 6})]
    both = [{"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0}, **c} for c in (
        {"rope_theta": 900.0}, {"rope_scaling": {"type": "linear", "factor": 8.0}}, {"rope_scaling": {}}, {"rope_scaling": None},
        {"partial_rotary_factor": 1.0}, {"max_position_embeddings": 12})]
    return legacy + both + [
        {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 50.0}, "max_position_embeddings": 8},
        {"hidden_size": 24, "num_attention_heads": 4, "head_dim": ABSENT}, {"hidden_size": 24, "num_attention_heads": 4, "head_dim": 0},
        {"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": ABSENT},
        {"hidden_size": 64, "num_attention_heads": ABSENT, "num_key_value_heads": 4, "head_dim": ABSENT},
        {"num_attention_heads": 4, "head_dim": 10, "num_key_value_heads": 2}, {"tie_word_embeddings": True, "vocab_size": 50}]


# Changes of the weights, with the config changes that each is combined with.
WEIGHTS = [(how, {"tie_word_embeddings": tie}) for how in ("without head", "with another head", "with an equal head",
                                                          "without prefix", "with a classifier", "with inv_freq")
           for tie in (True, False)]

ALWAYS_TESTED = {"sliding_window", "use_sliding_window", "max_window_layers", "layer_types", "quantization_config", "head_dim",
                 "partial_rotary_factor", "rope_parameters", "rope_scaling", "rope_theta", "hidden_act", "activation_function", "afn",
                 "qk_norm", "norm_position", "n_ctx", "attention_bias", "is_causal", "per_layer_config", "eos_token_id"}

PAGE_HEAD = """# The keys of transformers' config.json

This page shows which keys of a `config.json` have the same effect in `gpt` as in transformers, which keys have no effect,
and which keys are refused. `scripts/golden/config_variants.py` writes this page. It compares `gpt` with transformers
5.23.0 on {count} variants of the models in `tests/golden/data`. In each variant, some keys are set, removed or changed to a
different type, alone or in combination. {loads} variants ({share:.0f} %) load in `gpt`.

The tables use these names for the outcomes:

- **same**: Both programs load the file, and the change has no effect in either program.
- **equal**: Both programs load the file. The change affects the logits, and both programs compute the same logits.
- **stricter**: `gpt` loads the file, but transformers refuses it. The usual reason is the type of a key that has no
  effect.
- **refused both**: Neither program loads the file.
- **refused**: transformers loads the file and computes something that `gpt` does not support. `gpt` refuses the file
  with a message that names the key.

transformers loads each file with the class of its `model_type`, or with the class of Ministral if the `architectures`
of a Mistral file name Ministral.
{auto}

The page leaves out two cases. With a sliding window of 1, the results of transformers with its cache differ from those for
the whole sequence. The key `skip` in `per_layer_config` is read but not applied by this version of transformers."""
KEYS_HEAD = """## By key

In each variant of this table, only one key is changed. A cell shows the number of values of this key for each outcome:
same (s), equal (e), refused only by `gpt` (r), refused by both programs (b), loaded only by `gpt` (l)."""
REFUSED_HEAD = """## Refused only by gpt

`gpt` refuses some values that transformers loads. This list contains the first such value of each key, with the message
of `gpt`."""
