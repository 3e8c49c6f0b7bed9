#!/usr/bin/env python3
"""Creates tests/data/adapters with PEFT: small models, adapters for them, logits, and gradients for stored dtypes.

Versions: torch 2.15.0, transformers 5.23.0, peft 0.21.2, gguf 0.19.0, safetensors 0.8.
    make_adapters.py ROOT                  writes ROOT/tests/data/adapters
    make_adapters.py ROOT --check GPT      converts each adapter with `GPT convert`, loads it with PEFT again, and
                                           prints the largest difference of the logits

CASE/base is a model, CASE/adapter an adapter as saved by PEFT. CASE/golden.safetensors has "ids" [B,T] and the fp32
logits "base" and "logits" [B,T,V], without and with the adapter. In the case `blocks`, the base is a GGUF file with
matrices of many types, and the adapter is trained to predict the next token. CASE/gradients has the same format as
the adapter and contains the gradients of its matrices. PyTorch computes them in float64 with the dequantized weights. "loss" is the mean
over all targets.
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from make_gguf import finish, random_blocks
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

GPT2 = dict(vocab_size=29, n_positions=16, n_embd=24, n_layer=2, n_head=3, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            bos_token_id=0, eos_token_id=1)
LLAMA = dict(vocab_size=29, max_position_embeddings=16, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, head_dim=6)
BLOCKS = dict(vocab_size=32, max_position_embeddings=16, hidden_size=256, intermediate_size=256, num_hidden_layers=1,
              num_attention_heads=4, num_key_value_heads=1, head_dim=64, rms_norm_eps=1e-5,
              attn_implementation="sdpa")

CASES = {
    "gpt2": (GPT2, dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
    "llama": (LLAMA, dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])),
    "rslora": (LLAMA, dict(r=4, lora_alpha=3, use_rslora=True, target_modules="all-linear")),
    "patterns": (LLAMA, dict(r=3, lora_alpha=6, target_modules="all-linear",
                             rank_pattern={"q_proj": 2, "layers.1.mlp.up_proj": 5}, alpha_pattern={"down_proj": 1.5})),
    "layers": (GPT2, dict(r=2, lora_alpha=8, target_modules=["attn.c_proj"], layers_to_transform=[1],
                          fan_in_fan_out=True)),
    # Modules selected by regular expressions, with exclusions. Ranks and alphas are those of the first matching pattern
    # in the file.
    "regex": (LLAMA, dict(r=3, lora_alpha=6, target_modules=r"model\.layers\.\d+\.(self_attn|mlp)\.\w*(q|v|down|up)_proj",
                          exclude_modules=r".*\.layers\.1\.self_attn\.v_\w+",
                          # PEFT sorts these patterns in the file.
                          rank_pattern={r"^model.layers.1.*": 5, r"layers\.[01]\.self_attn\.(q|k)_proj": 2, "q_proj": 4},
                          alpha_pattern={"(?:self_attn.)q_proj": 4, r"(up|down)_proj": 1.5, r"layers\.\d\.mlp\..*": 9})),
    "exclude": (LLAMA, dict(r=2, lora_alpha=4, target_modules="all-linear", exclude_modules=["k_proj", "1.mlp.up_proj"])),
    "layers_pattern": (GPT2, dict(r=2, lora_alpha=8, target_modules=["c_attn", "mlp.c_proj"], layers_to_transform=[1],
                                  layers_pattern=["h", "blocks"], fan_in_fan_out=True)),
    "head": (LLAMA, dict(r=4, lora_alpha=8, target_modules=["q_proj", "lm_head"], rank_pattern={"lm_head": 2})),
    "tied_head": (GPT2, dict(r=4, lora_alpha=8, target_modules=["c_attn", "lm_head"])),
}


def make_base(keys):
    torch.manual_seed(1)
    is_gpt2 = "n_embd" in keys
    model = GPT2LMHeadModel(GPT2Config(**keys)) if is_gpt2 else LlamaForCausalLM(LlamaConfig(**keys))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.3 + (1 if p.dim() == 1 and not is_gpt2 else 0))
    return model.eval()


def add_adapter(model, settings):
    torch.manual_seed(2)
    adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **settings))
    with torch.no_grad():
        for name, p in adapted.named_parameters():
            if "lora_" in name:
                p.copy_(torch.randn_like(p) * 0.3)
    return adapted.eval()


def ids_of(keys):
    torch.manual_seed(3)
    return torch.randint(keys["vocab_size"], (2, 9))


def logits(model, ids):
    with torch.no_grad():
        return model(ids).logits.float().contiguous()


def save_adapter(adapted, folder, name):
    adapted.peft_config["default"].base_model_name_or_path = name
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)


def make_case(folder, keys, settings):
    base, ids = make_base(keys), ids_of(keys)
    base.save_pretrained(folder / "base")
    plain = logits(base, ids)
    adapted = add_adapter(base, settings)
    save_adapter(adapted, folder / "adapter", "base")
    save_file({"ids": ids.int(), "base": plain, "logits": logits(adapted, ids)}, folder / "golden.safetensors")


# The types in which the matrices of a layer are stored.
STORED = {"attn_q": T.Q8_0, "attn_k": T.Q4_0, "attn_v": T.Q5_K, "attn_output": T.Q6_K, "ffn_gate": T.Q4_K,
          "ffn_up": T.BF16, "ffn_down": T.F16}
MODULES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
           "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
           "ffn_down": "mlp.down_proj"}


def stored_bytes(rng, dtype, rows, cols):
    if dtype in (T.BF16, T.F16):
        return gguf.quants.quantize(rng.normal(size=(rows, cols)).astype(np.float32) / 16, dtype)
    blocks = random_blocks(rng, dtype, rows, cols)
    numbers = gguf.quants.dequantize(blocks, dtype)
    # Scales the blocks so that the model produces useful output: random scales times a power of two that all types
    # support.
    view = blocks.reshape(rows, cols // gguf.GGML_QUANT_SIZES[dtype][0], -1)
    factor = np.float16(2.0 ** np.floor(np.log2(0.06 / np.abs(numbers).mean())))
    for at in {T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}.get(dtype, [0]):
        scale = np.ascontiguousarray(view[..., at : at + 2]).view(np.float16) * factor
        view[..., at : at + 2] = scale.view(np.uint8)
    return blocks


class ExactNorm(torch.nn.Module):
    """An RMSNorm in the dtype of its input. The RMSNorm of transformers converts to fp32."""

    def __init__(self, norm):
        super().__init__()
        self.weight, self.eps = norm.weight, norm.variance_epsilon

    def forward(self, x):
        return self.weight * x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps)


class ExactRotary(torch.nn.Module):
    """RoPE in float64. The RoPE of transformers computes in fp32."""

    def __init__(self, config):
        super().__init__()
        self.d = config.head_dim

    def forward(self, x, position_ids):
        frequencies = 10000.0 ** -(torch.arange(0, self.d, 2, dtype=torch.float64) / self.d)
        angles = position_ids[..., None].double() * frequencies
        angles = torch.cat((angles, angles), -1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def make_exact(model):
    layer = model.model.layers[0]
    layer.input_layernorm = ExactNorm(layer.input_layernorm)
    layer.post_attention_layernorm = ExactNorm(layer.post_attention_layernorm)
    model.model.norm = ExactNorm(model.model.norm)
    model.model.rotary_emb = ExactRotary(model.config)


def rows_of_halves(x, heads):
    """Converts rows from the order of llama.cpp, which rotates adjacent rows, to the order of transformers."""
    d = x.shape[0] // heads
    return x.reshape(heads, d // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def make_blocks(folder):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(4)
    model = make_base(BLOCKS)
    writer = gguf.GGUFWriter(folder / "base.gguf", "llama")
    c = model.config
    for add, value in [(writer.add_context_length, 16), (writer.add_embedding_length, 256), (writer.add_block_count, 1),
                       (writer.add_feed_forward_length, 256), (writer.add_head_count, 4), (writer.add_head_count_kv, 1),
                       (writer.add_layer_norm_rms_eps, 1e-5), (writer.add_rope_dimension_count, 64),
                       (writer.add_rope_freq_base, 10000.0), (writer.add_vocab_size, 32)]:
        add(value)
    state = model.state_dict()
    plain = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
             "blk.0.attn_norm": "model.layers.0.input_layernorm", "blk.0.ffn_norm": "model.layers.0.post_attention_layernorm"}
    for ours, theirs in plain.items():
        writer.add_tensor(ours + ".weight", state[theirs + ".weight"].numpy())
    for name, dtype in STORED.items():
        module = f"model.layers.0.{MODULES[name]}.weight"
        raw = stored_bytes(rng, dtype, *state[module].shape)
        writer.add_tensor(f"blk.0.{name}.weight", raw, raw_dtype=dtype)
        numbers = gguf.quants.dequantize(raw, dtype).astype(np.float32)
        heads = {"attn_q": c.num_attention_heads, "attn_k": c.num_key_value_heads}.get(name)
        state[module] = torch.from_numpy(rows_of_halves(numbers, heads) if heads else numbers)
    finish(writer)
    model.load_state_dict(state)
    make_exact(model)
    adapted = add_adapter(model, dict(r=2, lora_alpha=3, target_modules="all-linear")).double()
    ids = ids_of(BLOCKS)
    out = adapted(ids)
    loss = torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    save_file({"ids": ids.int(), "logits": out.logits.detach(), "loss": loss.detach()[None]},
              folder / "golden.safetensors")
    save_adapter(adapted.float(), folder / "adapter", "base.gguf")
    with torch.no_grad():
        for name, p in adapted.named_parameters():
            if "lora_" in name:
                p.copy_(p.grad)
    save_adapter(adapted, folder / "gradients", "base.gguf")


def run(*words):
    subprocess.run([str(w) for w in words], check=True, capture_output=True)


def check(folder, gpt):
    for name, (keys, _) in CASES.items():
        case, ids = folder / name, ids_of(keys)
        want = load_file(case / "golden.safetensors")["logits"]
        with tempfile.TemporaryDirectory() as tmp:
            out = Path(tmp)
            run(gpt, "convert", case / "adapter", out / "again", "--base", case / "base")
            if name != "tied_head":  # neither GGUF nor merged models support it
                run(gpt, "convert", case / "adapter", out / "a.gguf", "--base", case / "base")
                run(gpt, "convert", out / "a.gguf", out / "from-gguf", "--base", case / "base")
                run(gpt, "convert", case / "base", out / "merged", "--adapter", case / "adapter")
            errors = []
            for way in ("again", "from-gguf"):
                if not (out / way).exists():
                    continue
                adapted = PeftModel.from_pretrained(make_base(keys), out / way).eval()
                errors.append(f"{way} {(logits(adapted, ids) - want).abs().max():.1e}")
            if not (out / "merged").exists():
                print(f"{name:10}", ", ".join(errors))
                continue
            merged = type(make_base(keys)).from_pretrained(out / "merged").eval()
            errors.append(f"merged {(logits(merged, ids) - want).abs().max():.1e}")
            print(f"{name:10}", ", ".join(errors))


if __name__ == "__main__":
    folder = Path(sys.argv[1]) / "tests/data/adapters"
    if "--check" in sys.argv:
        check(folder, sys.argv[sys.argv.index("--check") + 1])
    else:
        shutil.rmtree(folder, ignore_errors=True)
        for name, (keys, settings) in CASES.items():
            make_case(folder / name, keys, settings)
        make_blocks(folder / "blocks")
