"""A simple decoder in PyTorch float64, the independent reference for tests/golden.

The decoder follows the definitions of the model families and is not optimized for speed. `read_spec` converts a
config.json of any family to a Spec. `block_weights` and `outer_weights` map the tensors of a family to common names,
with every matrix as [out, in]. `forward` computes logits and attention, with or without a KV cache.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass
class Spec:
    family: str
    vocab: int
    ctx: int
    d: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    d_ff: int
    norm: str  # "layer" or "rms"
    eps: float
    act: str
    tied: bool
    post_norm: bool = False
    embd_norm: bool = False
    final_norm: bool = True
    qk_norm: bool = False
    softcap: float = 0.0
    rope_theta: float = 0.0  # 0: learned positions
    rope_sign: int = 1
    rope_scaling: dict | None = None
    qkv_bias: bool = False
    window: int = 0  # number of keys that a token sees, including its own; 0: all


LLAMA_LIKE = ("llama", "qwen2", "mistral")


def read_spec(config):
    """Returns the Spec of a config.json. Raises KeyError if a required key is missing."""
    family = config["model_type"]
    if family in ("gpt2", "openai-gpt", "gpt1-preln"):
        return _spec_gpt(family, config)
    if family in ("gpt2-scratch", "mini-gpt"):
        return _spec_course(family, config)
    if family in LLAMA_LIKE or family == "nanochat":
        return _spec_hugging_face(family, config)
    return _spec_nanochat_seed(family, config)


def _spec_gpt(family, c):
    d, heads = c["n_embd"], c["n_head"]
    post = family == "openai-gpt"
    return Spec(family, c["vocab_size"], c["n_positions"], d, c["n_layer"], heads, heads, d // heads,
                c.get("n_inner") or 4 * d, "layer", c["layer_norm_epsilon"], "gelu_tanh", True,
                post_norm=post, final_norm=not post, qkv_bias=True)


def _spec_course(family, c):
    if family == "mini-gpt":
        d, heads, ctx, d_ff, layers = c["d_model"], c["n_heads"], c["max_seq_len"], c["d_ff"], c["n_layers"]
        act, tied, bias = "gelu", True, False
    else:
        d, heads, ctx, layers = c["emb_dim"], c["n_heads"], c["context_length"], c["n_layers"]
        act, tied, bias, d_ff = "gelu_tanh", False, c["qkv_bias"], 4 * d
    return Spec(family, c["vocab_size"], ctx, d, layers, heads, heads, d // heads, d_ff, "layer",
                c["layer_norm_epsilon"], act, tied, qkv_bias=bias)


def _spec_hugging_face(family, c):
    d, heads = c["hidden_size"], c["num_attention_heads"]
    rope = c.get("rope_parameters") or {"rope_theta": c["rope_theta"], **(c.get("rope_scaling") or {})}
    nano = family == "nanochat"
    return Spec(family, c["vocab_size"], c["max_position_embeddings"], d, c["num_hidden_layers"], heads,
                c["num_key_value_heads"], c.get("head_dim") or d // heads, c["intermediate_size"], "rms",
                c["rms_norm_eps"], "relu2" if nano else "swiglu", c["tie_word_embeddings"], embd_norm=nano,
                qk_norm=nano, softcap=c.get("final_logit_softcapping") or 0.0, rope_theta=rope["rope_theta"],
                rope_sign=-1 if nano else 1,
                rope_scaling=rope if rope.get("rope_type", "default") == "llama3" else None,
                qkv_bias=family == "qwen2",
                window=(c.get("sliding_window") or 0) if c.get("use_sliding_window", family == "mistral") else 0)


def _spec_nanochat_seed(family, c):
    d, heads = c["n_embd"], c["n_head"]
    return Spec(family, c["vocab_size"], c["sequence_len"], d, c["n_layer"], heads, c["n_kv_head"], d // heads,
                4 * d, "rms", c["rms_norm_eps"], "relu2", False, embd_norm=True, qk_norm=True,
                softcap=c["logit_softcap"] or 0.0, rope_theta=c["rope_theta"], rope_sign=c["rope_rotation"])


# Tensor names in files: (query, key, value) or the fused matrix, then output, first and last feed-forward matrix, gate.
PREFIX = {"openai-gpt": "transformer.h.", "gpt2": "transformer.h.", "gpt1-preln": "blocks.",
          "gpt2-scratch": "trf_blocks.", "mini-gpt": "blocks.", "nanochat": "model.layers.",
          "nanochat-notebook": "blocks.", "nanochat-doc": "transformer.h.", "llama": "model.layers."}
_CONV = dict(qkv=["attn.c_attn"], out="attn.c_proj", up="mlp.c_fc", down="mlp.c_proj")
_SEED = dict(_CONV, qkv=["attn.c_q", "attn.c_k", "attn.c_v"])
_HF = dict(qkv=["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], out="self_attn.o_proj")
MATRICES = {
    "openai-gpt": _CONV, "gpt2": _CONV, "gpt1-preln": _CONV, "nanochat-notebook": _SEED, "nanochat-doc": _SEED,
    "gpt2-scratch": dict(qkv=["att.W_query", "att.W_key", "att.W_value"], out="att.out_proj",
                         up="ff.layers.0", down="ff.layers.2"),
    "mini-gpt": dict(qkv=["attn.qkv_proj"], out="attn.out_proj", up="ffn.fc1", down="ffn.fc2"),
    "nanochat": dict(_HF, up="mlp.fc1", down="mlp.fc2"),
    "llama": dict(_HF, up="mlp.up_proj", down="mlp.down_proj", gate="mlp.gate_proj"),
}
for _family in LLAMA_LIKE[1:]:
    PREFIX[_family], MATRICES[_family] = PREFIX["llama"], MATRICES["llama"]
# Names of the two norms of a layer and of the final norm, and of their gain and shift.
NORMS = {
    "openai-gpt": ("ln_1", "ln_2", None, "weight", "bias"),
    "gpt2": ("ln_1", "ln_2", "transformer.ln_f", "weight", "bias"),
    "gpt1-preln": ("ln_1", "ln_2", "ln_f", "gamma", "beta"),
    "gpt2-scratch": ("norm1", "norm2", "final_norm", "scale", "shift"),
    "mini-gpt": ("ln1", "ln2", "ln_final", "weight", "bias"),
    "llama": ("input_layernorm", "post_attention_layernorm", "model.norm", "weight", None),
}
# Names of the token embedding, the position embedding and the head.
OUTER = {
    "openai-gpt": ("transformer.tokens_embed", "transformer.positions_embed", None),
    "gpt2": ("transformer.wte", "transformer.wpe", None),
    "gpt1-preln": ("embeddings.wte", "embeddings.wpe", None),
    "gpt2-scratch": ("tok_emb", "pos_emb", "out_head"),
    "mini-gpt": ("token_embedding", "position_embedding", None),
    "nanochat": ("model.embed_tokens", None, "lm_head"),
    "nanochat-notebook": ("wte", None, "lm_head"),
    "nanochat-doc": ("transformer.wte", None, "lm_head"),
    "llama": ("model.embed_tokens", None, "lm_head"),
}
for _family in LLAMA_LIKE[1:]:
    NORMS[_family], OUTER[_family] = NORMS["llama"], OUTER["llama"]
INPUT_MAJOR = ("openai-gpt", "gpt2")  # these families store their layer matrices as [in, out]


def _linear(spec, params, name):
    weight = params[name + ".weight"]
    return (weight.T if spec.family in INPUT_MAJOR else weight), params.get(name + ".bias")


def block_weights(spec, params, i):
    """Maps common names to (matrix [out, in], bias or None) of layer i, and "norm1" and "norm2" to (gain, shift) or
    None."""
    prefix, names = f"{PREFIX[spec.family]}{i}.", MATRICES[spec.family]
    found = {key: _linear(spec, params, prefix + names[key]) for key in ("out", "up", "down", "gate") if key in names}
    parts = [_linear(spec, params, prefix + name) for name in names["qkv"]]
    if len(parts) == 1:
        weight, bias = parts[0]
        biases = bias.chunk(3) if bias is not None else [None] * 3
        parts = list(zip(weight.chunk(3), biases))
    found["q"], found["k"], found["v"] = parts
    for n in (0, 1):
        found[f"norm{n + 1}"] = _norm_weights(spec, params, prefix, n)
    return found


def _norm_weights(spec, params, prefix, which):
    if spec.family not in NORMS:
        return None
    names = NORMS[spec.family]
    base = prefix + names[which]
    return params[f"{base}.{names[3]}"], params[f"{base}.{names[4]}"] if names[4] else None


def _wide(x):
    """Converts bf16 to float32. Norms and activations are computed in float32 and rounded once, as in PyTorch kernels.
    """
    return x.float() if x.dtype == torch.bfloat16 else x


def _normalise(spec, x, weights):
    return _normalise_wide(spec, _wide(x), weights).to(x.dtype)


def _normalise_wide(spec, x, weights):
    if spec.norm == "layer":
        x = x - x.mean(-1, keepdim=True)
    x = x / torch.sqrt((x * x).mean(-1, keepdim=True) + spec.eps)
    if weights is None:
        return x
    gain, shift = weights
    return x * gain if shift is None else x * gain + shift


def rope_frequencies(spec):
    """Returns the angle per position of each pair, [head_dim / 2], with Llama-3 scaling if configured."""
    half = spec.head_dim // 2
    freqs = spec.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)
    if spec.rope_scaling is None:
        return freqs
    s = spec.rope_scaling
    waves_in_original = s["original_max_position_embeddings"] * freqs / (2 * math.pi)
    keep = (waves_in_original - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
    keep = keep.clamp(0, 1)
    return freqs * (keep + (1 - keep) / s["factor"])


def _rotate(spec, x, start):
    """Rotates the pairs (i, i + head_dim/2) of x [B, H, T, D], whose first position is `start`."""
    positions = torch.arange(start, start + x.shape[2], dtype=torch.float64)
    angle = spec.rope_sign * positions[:, None] * rope_frequencies(spec)
    c, s = angle.cos().to(_wide(x).dtype), angle.sin().to(_wide(x).dtype)
    first, second = x.chunk(2, -1)
    return torch.cat([first * c - second * s, first * s + second * c], -1).to(x.dtype)


def _attention(spec, w, x, start, cache):
    b, t, _ = x.shape

    def heads(key, count):
        return F.linear(x, *w[key]).view(b, t, count, spec.head_dim).transpose(1, 2)

    q, k, v = heads("q", spec.heads), heads("k", spec.kv_heads), heads("v", spec.kv_heads)
    if spec.rope_theta:
        q, k = _rotate(spec, q, start), _rotate(spec, k, start)
    if spec.qk_norm:
        q, k = _normalise(spec, q, None), _normalise(spec, k, None)
    if cache is not None:
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        cache[:] = [k, v]
    share = spec.heads // spec.kv_heads
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    scores = q @ k.transpose(2, 3) / math.sqrt(spec.head_dim)
    key, query = torch.arange(k.shape[2])[None, :], torch.arange(start, start + t)[:, None]
    hidden = key > query
    if spec.window:
        hidden |= key <= query - spec.window
    probabilities = scores.masked_fill(hidden, -math.inf).softmax(-1)
    mixed = (probabilities @ v).transpose(1, 2).reshape(b, t, spec.heads * spec.head_dim)
    return F.linear(mixed, *w["out"]), probabilities


def _feed_forward(spec, w, x):
    result = F.linear(x, *w["up"])
    up = _wide(result)
    if spec.act == "swiglu":
        hidden = F.silu(_wide(F.linear(x, *w["gate"]))) * up
    elif spec.act == "relu2":
        hidden = up.clamp(min=0) ** 2
    elif spec.act == "gelu":
        hidden = up * 0.5 * (1 + torch.erf(up / math.sqrt(2)))
    else:
        hidden = 0.5 * up * (1 + torch.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up**3)))
    return F.linear(hidden.to(result.dtype), *w["down"])


def forward(spec, params, ids, start=0, caches=None):
    """Returns logits [B, T, V] and the attention [B, H, T, start + T] of every layer. `caches` has one list per layer,
    which is empty at first. The call extends the lists."""
    token, position, head = OUTER[spec.family]
    x = params[token + ".weight"][ids]
    if position:
        x = x + params[position + ".weight"][start:start + ids.shape[1]]
    if spec.embd_norm:
        x = _normalise(spec, x, None)
    attentions = []
    for i in range(spec.layers):
        w = block_weights(spec, params, i)
        cache = caches[i] if caches is not None else None
        if spec.post_norm:
            mixed, probabilities = _attention(spec, w, x, start, cache)
            x = _normalise(spec, x + mixed, w["norm1"])
            x = _normalise(spec, x + _feed_forward(spec, w, x), w["norm2"])
        else:
            mixed, probabilities = _attention(spec, w, _normalise(spec, x, w["norm1"]), start, cache)
            x = x + mixed
            x = x + _feed_forward(spec, w, _normalise(spec, x, w["norm2"]))
        attentions.append(probabilities)
    if spec.final_norm:
        x = _normalise(spec, x, _norm_weights(spec, params, "", 2))
    logits = F.linear(x, params[(token if spec.tied else head) + ".weight"])
    if spec.softcap:
        logits = spec.softcap * torch.tanh(logits / spec.softcap)
    return logits, attentions
