#!/usr/bin/env python3
"""Writes the small torch.save files in tests/data/torch, and the same tensors as safetensors.

    make_torch_files.py [--out tests/data/torch]

Pinned: torch 2.15.0, safetensors 0.8.0.
  nanogpt.pt       a compiled checkpoint as saved by nanoGPT: model_args, tied head, masks, optimizer
  model_000010.pt  a nanochat model from the time of NanoChat in transformers, with meta_000010.json
  mingpt/          a checkpoint as saved by minGPT: model.pt and config.json; logits.safetensors has its logits
  views.pt         views of storages of every type; views.safetensors has them dense
  views-P.pt       the same in pickle protocols P = 3 to 5; views-legacy-P.pt in the format before 1.6, P = 2 to 5
  scalars.pt       a nanoGPT checkpoint whose model_args are tensors without dimensions; scalars-legacy.pt
  *.bad.pt         files that must be refused
"""

import argparse
import collections
import json
import os
import pathlib
import zipfile

import torch
from safetensors.torch import save_file


def nanogpt(out, g):
    args = dict(n_layer=2, n_head=2, n_embd=8, block_size=6, bias=False, vocab_size=11, dropout=0.1)
    c, v, t = args["n_embd"], args["vocab_size"], args["block_size"]
    noise = lambda *shape: torch.randn(shape, generator=g) * 0.5
    state = {"transformer.wte.weight": noise(v, c), "transformer.wpe.weight": noise(t, c)}
    for i in range(args["n_layer"]):
        p = f"transformer.h.{i}."
        state[p + "ln_1.weight"] = 1 + noise(c)
        state[p + "attn.bias"] = torch.tril(torch.ones(t, t))[None, None]
        state[p + "attn.c_attn.weight"] = noise(3 * c, c)
        state[p + "attn.c_proj.weight"] = noise(c, c)
        state[p + "ln_2.weight"] = 1 + noise(c)
        state[p + "mlp.c_fc.weight"] = noise(4 * c, c)
        state[p + "mlp.c_proj.weight"] = noise(c, 4 * c)
    state["transformer.ln_f.weight"] = 1 + noise(c)
    state["lm_head.weight"] = state["transformer.wte.weight"]
    moments = {0: {"step": torch.tensor(5.0), "exp_avg": noise(v, c)}}
    torch.save({"model": collections.OrderedDict((f"_orig_mod.{k}", w) for k, w in state.items()),
                "optimizer": {"state": moments, "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.95), "params": [0]}]},
                "model_args": args, "iter_num": 5, "best_val_loss": torch.tensor(3.25),
                "config": {"dataset": "openwebtext", "device": "cuda", "compile": True}}, out / "nanogpt.pt")
    save_file({k: w.clone() for k, w in state.items() if not k.endswith("attn.bias")}, out / "nanogpt.safetensors")


def nanochat(out, g):
    c, v = 8, 16
    noise = lambda *shape: torch.randn(shape, generator=g) * 0.5
    state = {"transformer.wte.weight": noise(v, c).bfloat16()}
    for i in range(2):
        p = f"transformer.h.{i}."
        for name in ("attn.c_q", "attn.c_k", "attn.c_v", "attn.c_proj"):
            state[f"{p}{name}.weight"] = noise(c, c)
        state[p + "mlp.c_fc.weight"], state[p + "mlp.c_proj.weight"] = noise(4 * c, c), noise(c, 4 * c)
    state["lm_head.weight"] = noise(v, c)
    torch.save({f"_orig_mod.{k}": w for k, w in state.items()}, out / "model_000010.pt")
    meta = {"step": 10, "val_bpb": 1.5, "user_config": {"depth": 2},
            "model_config": dict(sequence_len=8, vocab_size=v, n_layer=2, n_head=2, n_kv_head=2, n_embd=c)}
    (out / "meta_000010.json").write_text(json.dumps(meta))


def mingpt(out, g):
    """Writes a model of torch.nn.Linear with GPT-2 names, masks, an untied head and the tanh GELU. Its settings are in
    a separate file."""
    layers, heads, c, v, t = 2, 3, 12, 13, 7
    noise = lambda *shape: torch.randn(shape, generator=g) * 0.5
    state = {"transformer.wte.weight": noise(v, c), "transformer.wpe.weight": noise(t, c)}
    for i in range(layers):
        p = f"transformer.h.{i}."
        state[p + "attn.bias"] = torch.tril(torch.ones(t, t))[None, None]
        for name, rows, cols in (("attn.c_attn", 3 * c, c), ("attn.c_proj", c, c), ("mlp.c_fc", 4 * c, c), ("mlp.c_proj", c, 4 * c)):
            state[f"{p}{name}.weight"], state[f"{p}{name}.bias"] = noise(rows, cols), noise(rows)
        for name in ("ln_1", "ln_2"):
            state[f"{p}{name}.weight"], state[f"{p}{name}.bias"] = 1 + noise(c), noise(c)
    state["transformer.ln_f.weight"], state["transformer.ln_f.bias"] = 1 + noise(c), noise(c)
    state["lm_head.weight"] = noise(v, c)
    folder = out / "mingpt"
    folder.mkdir(exist_ok=True)
    torch.save(collections.OrderedDict(state), folder / "model.pt")
    model = dict(model_type=None, n_layer=layers, n_head=heads, n_embd=c, vocab_size=None, block_size=t, embd_pdrop=0.1,
                 resid_pdrop=0.1, attn_pdrop=0.1)
    config = {"system": {"seed": 3407, "work_dir": "./out/adder"}, "data": {"ndigit": 2}, "model": model,
              "trainer": {"device": "auto", "batch_size": 64, "learning_rate": 0.0005, "betas": [0.9, 0.95]}}
    (folder / "config.json").write_text(json.dumps(config, indent=4))
    ids = torch.tensor([3, 1, 4, 1, 5, 9, 2])
    save_file({"ids": ids, "logits": mingpt_logits({k: w.double() for k, w in state.items()}, ids, layers, heads)},
              folder / "logits.safetensors")


def mingpt_logits(s, ids, layers, heads):
    f = torch.nn.functional
    linear = lambda x, name: f.linear(x, s[name + ".weight"], s[name + ".bias"])
    norm = lambda x, name: f.layer_norm(x, x.shape[-1:], s[name + ".weight"], s[name + ".bias"])
    x = s["transformer.wte.weight"][ids] + s["transformer.wpe.weight"][: len(ids)]
    for i in range(layers):
        p = f"transformer.h.{i}."
        q, k, v = (m.view(len(ids), heads, -1).transpose(0, 1)
                   for m in linear(norm(x, p + "ln_1"), p + "attn.c_attn").chunk(3, dim=-1))
        y = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).reshape(len(ids), -1)
        x = x + linear(y, p + "attn.c_proj")
        x = x + linear(f.gelu(linear(norm(x, p + "ln_2"), p + "mlp.c_fc"), approximate="tanh"), p + "mlp.c_proj")
    return f.linear(norm(x, "transformer.ln_f"), s["lm_head.weight"])


def views(out, g):
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    tensors = {"whole": base, "transposed": base.T, "rows": base[1:3], "strided": base[::2, 1::2], "column": base[:, 2],
               "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3), "permuted": base.reshape(2, 3, 4).permute(2, 0, 1),
               "parameter": torch.nn.Parameter(base[:2]), "f64": base.double()[:1], "f16": base.half()[:, :1],
               "bf16": base.bfloat16()[3], "i64": torch.arange(5), "i32": torch.arange(5, dtype=torch.int32)[2:],
               "u8": torch.arange(5, dtype=torch.uint8)}
    saved = {"state_dict": {**tensors, "mask": torch.ones(2, dtype=torch.bool)}, "note": "plain"}
    torch.save(saved, out / "views.pt")
    for protocol in (3, 4, 5):
        torch.save(saved, out / f"views-{protocol}.pt", pickle_protocol=protocol)
    for protocol in (2, 3, 4, 5):
        torch.save(saved, out / f"views-legacy-{protocol}.pt", pickle_protocol=protocol, _use_new_zipfile_serialization=False)
    save_file({k: t.detach().contiguous().clone() for k, t in tensors.items()}, out / "views.safetensors")


def scalars(out, g):
    args = {"n_layer": torch.tensor(2), "n_head": torch.tensor(2, dtype=torch.int32), "n_embd": torch.tensor(8, dtype=torch.uint8),
            "block_size": torch.tensor(6, dtype=torch.int16), "bias": torch.tensor(False), "vocab_size": torch.tensor(11, dtype=torch.int8),
            "dropout": torch.tensor(0.125, dtype=torch.bfloat16)}
    more = {"f64": torch.tensor(-2.5, dtype=torch.float64), "f32": torch.arange(3.0)[2], "f16": torch.tensor(0.5).half(),
            "negative": torch.tensor(-3, dtype=torch.int8), "one": torch.tensor([4])}
    model = torch.load(out / "nanogpt.pt", weights_only=True)["model"]
    saved = {"model": {k.removeprefix("_orig_mod."): w for k, w in model.items()}, "model_args": args, "more": more}
    torch.save(saved, out / "scalars.pt")
    torch.save(saved, out / "scalars-legacy.pt", _use_new_zipfile_serialization=False)


class Call:
    def __reduce__(self):
        return os.system, ("echo called",)


def refused(out, g):
    x = {"x": torch.ones(3)}
    torch.save({**x, "y": Call()}, out / "call.bad.pt")
    torch.save(torch.nn.Linear(2, 2), out / "module.bad.pt")
    torch.save(x, out / "protocol0.bad.pt", pickle_protocol=0, _use_new_zipfile_serialization=False)
    torch.save({**x, "y": Call()}, out / "legacy-call.bad.pt", _use_new_zipfile_serialization=False)
    torch.save({"x": torch.ones(1).expand(1000)}, out / "expanded.bad.pt")
    torch.save({"_orig_mod.x": torch.ones(1), "x": torch.ones(1)}, out / "twice.bad.pt")
    torch.save([1, 2, 3], out / "list.bad.pt")
    torch.save(x, out / "plain.pt")
    with zipfile.ZipFile(out / "plain.pt") as plain, zipfile.ZipFile(out / "compressed.bad.pt", "w",
                                                                     zipfile.ZIP_DEFLATED) as packed:
        for name in plain.namelist():
            packed.writestr(zipfile.ZipInfo(name), plain.read(name), zipfile.ZIP_DEFLATED)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/torch")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    g = torch.Generator().manual_seed(1)
    for make in (nanogpt, nanochat, views, scalars, refused, mingpt):
        make(out, g)


if __name__ == "__main__":
    main()
