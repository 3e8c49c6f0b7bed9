#!/usr/bin/env python3
"""Measures the training speed of PyTorch on one shape, once for every line of standard input.

    torch_worker.py '{"vocab": 256, "width": 384, "layers": 6, "heads": 6, "ctx": 256, "batch": 16, "dtype": "bf16", ...}'

The model is compiled and uses PyTorch's fused attention; bf16 means autocast. A step consists of forward, backward,
clipping at 1 and AdamW, fused or foreach, whichever is faster on this machine. Prints a JSON line when it is ready, and
one for every measurement. Started by `compare`.
"""

import contextlib
import json
import statistics
import sys
import time

import torch

from torch_gpt import Gpt, make_adamw, train_step


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def faster_adamw(model):
    """Returns the faster of PyTorch's two AdamW implementations and its name, by the best of three steps each. Needs gradients."""
    best = None
    for kind in ({"fused": True}, {"foreach": True}):
        try:
            optimizer = make_adamw(model, 1e-4, (0.9, 0.95), 0.1, **kind)
            optimizer.step()
        except RuntimeError:  # this build has no such CPU kernel
            continue
        took = min(seconds(optimizer.step) for _ in range(3))
        if best is None or took < best[0]:
            best = took, optimizer, next(iter(kind))
    return best[1], best[2]


class Bench:
    def __init__(self, shape):
        torch.set_num_threads(shape["threads"])
        torch.manual_seed(1)
        self.shape = shape
        self.model = Gpt(shape["vocab"], shape["ctx"], shape["width"], shape["layers"], shape["heads"],
                         attention_bias=shape["attention_bias"], mlp_bias=shape["mlp_bias"],
                         norm_bias=shape["norm_bias"], gelu=shape["gelu"], scale_residual_init=False)
        self.loss_of = torch.compile(self.forward)
        ids = torch.randint(shape["vocab"], (shape["batch"], shape["ctx"] + 1))
        self.batch = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
        self.loss_of(*self.batch).backward()  # triggers compilation
        self.optimizer, self.adamw = faster_adamw(self.model)
        self.step()

    def forward(self, ids, targets):
        narrow = self.shape["dtype"] == "bf16"
        with torch.autocast("cpu", dtype=torch.bfloat16) if narrow else contextlib.nullcontext():
            return self.model(ids, targets)

    def step(self):
        train_step(self.loss_of, self.model, self.optimizer, *self.batch)

    def measure(self):
        times = [seconds(self.step) for _ in range(self.shape["repeat"] + 1)][1:]
        return {"tokens_per_second": self.shape["batch"] * self.shape["ctx"] / statistics.median(times)}


def main():
    bench = Bench(json.loads(sys.argv[1]))
    parameters = sum(p.numel() for p in bench.model.parameters())
    print(json.dumps({"ready": f"PyTorch {torch.__version__}, compiled, {bench.adamw} AdamW, {parameters:,} parameters",
                      "parameters": parameters}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(bench.measure()), flush=True)


if __name__ == "__main__":
    main()
