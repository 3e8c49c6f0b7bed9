#!/usr/bin/env python3
"""Writes the errors of PyTorch in bf16 relative to golden vectors, which `gpt verify --dtype bf16` uses as its limits.

    bf16_errors.py [--models DIR] [--out DIR]

For every model folder of DIR (default tests/golden/data), runs the code of make_golden.py in two common ways to use
bf16: with fp32 parameters under torch.autocast(bfloat16), and with bf16 parameters. Writes
OUT/<model>/golden_bf16.json (default: next to the golden file) with the largest difference per kind of tensor.
Differences of gradients and gradient norms are relative to the largest element of the tensor (at least 1e-3). AdamW
steps are only done with fp32 parameters. A single value may be close by chance. The error of a loss is therefore at
least the error that independent errors of its tokens would cause, and the error of a gradient norm at least the error
that independent errors of its tensors would cause.
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import load_file

import decoder
import make_golden


def kind_of(name):
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "adamw" else parts[0]


def in_bf16(spec, weights, golden, autocast):
    """Returns the tensors of a golden file, computed with autocast or with bf16 parameters, without the greedy ids."""
    ids, targets = golden["input_ids"], golden.get("targets")
    dtype = torch.float32 if autocast else torch.bfloat16
    params = {name: w.to(dtype).requires_grad_() for name, w in weights.items()}
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast, cache_enabled=False):  # the weights change within the block
        logits, attentions = decoder.forward(spec, params, ids)
        found = {"logits": logits}
        found.update({f"attention.{i}": a for i, a in enumerate(attentions)})
        with torch.no_grad():
            found["incremental_logits"] = make_golden.incremental(spec, params, ids)
        if targets is not None:
            loss = make_golden.mean_loss(logits.float(), targets)
            found["loss"] = loss.reshape(1)
            grads = torch.autograd.grad(loss, list(params.values()))
            found.update({f"grad.{name}": g for name, g in zip(params, grads)})
        if targets is not None and autocast:
            start = {name: p.detach().clone() for name, p in params.items()}
            losses, norms, trained = make_golden.adamw(spec, start, ids, targets)
            found["adamw.loss"], found["adamw.grad_norm"] = torch.tensor(losses), torch.tensor(norms)
            found.update({f"adamw.param.{name}": p for name, p in trained.items()})
    return found


def expected_loss_error(found, golden):
    targets = golden["targets"].flatten()
    per_token = [torch.nn.functional.cross_entropy(logits.detach().double().flatten(0, 1), targets, ignore_index=-1,
                                                   reduction="none") for logits in (found["logits"], golden["logits"])]
    return ((per_token[0] - per_token[1]).norm() / (targets >= 0).sum()).item()


def expected_norm_error(found, golden):
    names = [name for name in golden if name.startswith("grad.")]
    want = torch.stack([golden[name].double().norm() for name in names])
    error = torch.stack([found[name].double().norm() for name in names]) - want
    return ((want / want.norm() * error).norm() / max(1e-3, golden["adamw.grad_norm"].max().item())).item()


def errors(directory):
    config = json.loads((directory / "config.json").read_text())
    spec = decoder.read_spec(config)
    weights = {k: v for k, v in load_file(directory / "model.safetensors").items()
               if not k.endswith(make_golden.BUFFERS)}
    golden = load_file(directory / "golden.safetensors")
    worst = {}
    for autocast in (True, False):
        found = in_bf16(spec, weights, golden, autocast)
        if "loss" in golden:
            worst["loss"] = max(worst.get("loss", 0), expected_loss_error(found, golden))
        if "adamw.grad_norm" in golden:
            worst["adamw.grad_norm"] = max(worst.get("adamw.grad_norm", 0), expected_norm_error(found, golden))
        for name, value in found.items():
            if name not in golden:
                continue
            want = golden[name].double()
            error = (value.detach().double() - want).abs().max().item()
            if kind_of(name) in ("grad", "adamw.grad_norm"):
                error /= max(1e-3, want.abs().max().item())
            worst[kind_of(name)] = max(worst.get(kind_of(name), 0), error)
    if "adamw.loss" in worst:  # the four losses of the steps and the single loss are of the same kind
        worst["adamw.loss"] = max(worst["adamw.loss"], worst["loss"])
    return {kind: float(f"{error:.4g}") for kind, error in worst.items()}


def main():
    root = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/data"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=pathlib.Path, default=root)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for directory in sorted(d for d in args.models.iterdir() if (d / "golden.safetensors").exists()):
        found = errors(directory)
        out = (args.out or args.models) / directory.name
        out.mkdir(parents=True, exist_ok=True)
        (out / "golden_bf16.json").write_text(json.dumps(found, indent=1) + "\n")
        print(directory.name, found, flush=True)


if __name__ == "__main__":
    main()
