#!/usr/bin/env python3
"""Writes tests/golden/muon.safetensors: 20 updates of a matrix by Muon, in float64.

    make_muon.py --nanochat FILE [--out tests/golden/muon.safetensors]

Pinned: torch 2.15.0, safetensors 0.8.0. FILE is nanochat/optim.py of nanochat 92d63d4. The muon_step_fused of that file
and torch.optim.Muon run unmodified, without compilation. Both functions round to bfloat16 or float32 during the
computation. This script replaces these dtypes by float64, so that nothing is rounded.
"""

import argparse
import math
import pathlib
import types

import torch
from safetensors.torch import save_file

STEPS, RATE, DECAY, MOMENTUM = 20, 0.05, 0.1, 0.95
SHAPES = {"square": (6, 6), "tall": (11, 5), "wide": (4, 9)}
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def torch_muon(start, grads, adjust):
    parameter = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.Muon([parameter], lr=RATE, weight_decay=DECAY, momentum=MOMENTUM, adjust_lr_fn=adjust)
    for grad in grads:
        parameter.grad = grad.clone()
        optimizer.step()
    return parameter.detach()


def nanochat_step(path):
    """Returns muon_step_fused of the file, in float64."""
    source = path.read_text().replace("from nanochat.common import COMPUTE_DTYPE", "COMPUTE_DTYPE = torch.float32")
    source = source.replace(".float()", ".double()")
    module = types.ModuleType("optim")
    compile_before, torch.compile = torch.compile, lambda **_: lambda function: function
    exec(source, module.__dict__)
    torch.compile = compile_before
    return module.muon_step_fused


def nanochat_muon(step, start, grads):
    parameters, momentum = start.clone()[None], torch.zeros(1, *start.shape, dtype=torch.float64)
    rows, cols = start.shape
    second = torch.zeros((1, rows, 1) if rows >= cols else (1, 1, cols), dtype=torch.float64)
    scale = max(1.0, rows / cols) ** 0.5  # MuonAdamW multiplies the learning rate by this scale
    for i, grad in enumerate(grads):
        decay = DECAY * 0.5 * (1 + math.cos(math.pi * i / STEPS))  # scripts/base_train.py
        step(grad.clone()[None], parameters, momentum, second, *(torch.tensor(x, dtype=torch.float64) for x in
             (MOMENTUM, RATE * scale, decay, 0.9)), 5, -1 if rows >= cols else -2)
    return parameters[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nanochat", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/golden/muon.safetensors")
    args = parser.parse_args()
    generator = torch.Generator().manual_seed(4)
    bfloat16, torch.bfloat16 = torch.bfloat16, torch.float64
    step = nanochat_step(args.nanochat)
    golden = {}
    for name, shape in SHAPES.items():
        start = torch.randn(shape, generator=generator, dtype=torch.float64)
        grads = torch.randn((STEPS, *shape), generator=generator, dtype=torch.float64)
        golden[f"{name}.start"], golden[f"{name}.grads"] = start, grads
        for adjust in ("original", "match_rms_adamw"):
            golden[f"{name}.{adjust}"] = torch_muon(start, grads, adjust)
        golden[f"{name}.nanochat"] = nanochat_muon(step, start, grads)
    torch.bfloat16 = bfloat16
    save_file({name: value.contiguous() for name, value in golden.items()}, args.out)
    print(len(golden), "tensors")


if __name__ == "__main__":
    main()
