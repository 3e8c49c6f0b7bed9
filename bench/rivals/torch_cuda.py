#!/usr/bin/env python3
"""Measures PyTorch on a CUDA device: training GPT-2 124M and Mini-GPT, decoding with the 1B Llama shape, attention, fp8 matmuls.

    torch_cuda.py [--only train,decode,attention] [--small]

Prints one JSON line per measurement. If a variant fails, prints the reason and continues with the next one. A training
step consists of forward, backward, clipping at 1 and the fused AdamW, on random ids; bf16 means autocast with fp32
weights. Decoding follows gpt-fast: a static cache, the whole step compiled into one CUDA graph, argmax. --small runs
tiny shapes, also without a GPU, to test the script.
"""

import argparse
import contextlib
import functools
import json
import statistics
import time
import traceback

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_gpt import Gpt, make_adamw, train_step
from works import SHAPES

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
TRAININGS = {
    "gpt2": dict(vocab=50304, ctx=1024, width=768, layers=12, heads=12, batch=32, attention_bias=True, mlp_bias=True,
                 norm_bias=True, gelu="tanh"),
    "mini-gpt": dict(vocab=256, ctx=256, width=384, layers=6, heads=6, batch=64, attention_bias=False, mlp_bias=True,
                     norm_bias=True, gelu="none"),
}
SMALL = dict(vocab=256, ctx=32, width=64, layers=2, heads=2, batch=2)


def say(**figure):
    print(json.dumps(figure), flush=True)


def wait():
    if ON_GPU:
        torch.cuda.synchronize()


def milliseconds(call, repeat=10, series=3):
    """Returns the wall-clock milliseconds per call: the median of `series` series of `repeat` calls."""
    call()
    wait()
    times = []
    for _ in range(series):
        start = time.perf_counter()
        for _ in range(repeat):
            call()
        wait()
        times.append((time.perf_counter() - start) / repeat * 1e3)
    return statistics.median(times)


@contextlib.contextmanager
def row(**what):
    """Prints a failure of the block as a result of `what`, and frees the GPU memory of the block."""
    start = time.perf_counter()
    try:
        yield
    except Exception as failure:  # noqa: BLE001: any failure of a variant is a figure
        traceback.print_exc(limit=3)
        say(**what, failed=f"{type(failure).__name__}: {str(failure)[:200]}")
    torch._dynamo.reset()
    if ON_GPU:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    say(took_s=round(time.perf_counter() - start, 1))


def train_flops(shape):
    """Returns the FLOPs per token: 6 for each weight of a matmul. Causal attention is counted in full, as is common with PyTorch."""
    weights = shape["layers"] * 12 * shape["width"] ** 2 + shape["vocab"] * shape["width"]
    return 6 * weights + 12 * shape["layers"] * shape["width"] * shape["ctx"]


def make_training(shape, dtype, compiled, mode=None):
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    model = Gpt(shape["vocab"], shape["ctx"], shape["width"], shape["layers"], shape["heads"],
                attention_bias=shape["attention_bias"], mlp_bias=shape["mlp_bias"], norm_bias=shape["norm_bias"],
                gelu=shape["gelu"]).to(DEVICE)
    optimizer = make_adamw(model, 1e-4, (0.9, 0.95), 0.1, fused=True)
    ids = torch.randint(shape["vocab"], (shape["batch"], shape["ctx"] + 1), device=DEVICE)
    batch = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def forward(ids, targets):
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=dtype == "bf16"):
            return model(ids, targets)

    loss_of = torch.compile(forward, mode=mode) if compiled else forward
    return lambda: train_step(loss_of, model, optimizer, *batch), model, optimizer


def kernel_times(step, steps=3):
    """Prints the slowest kernels of a step with their milliseconds."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(steps):
            step()
        wait()
    rows = [(e.key, e.self_device_time_total / steps / 1e3, e.count / steps) for e in trace.key_averages()]
    rows = sorted((r for r in rows if r[1] > 0), key=lambda r: -r[1])
    say(kernels_of_step=[[name[:110], round(ms, 3), count] for name, ms, count in rows[:24]],
        all_kernels_ms=round(sum(r[1] for r in rows), 2))


def train(name, shape, dtype, kind, profiled=False, **changes):
    shape = {**shape, **changes}
    what = dict(training=name, vocab=shape["vocab"], batch=shape["batch"], ctx=shape["ctx"], dtype=dtype, kind=kind)
    with row(**what), sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH],
                                  set_priority=True):
        step, model, optimizer = make_training(shape, dtype, kind != "eager",
                                               "max-autotune-no-cudagraphs" if kind == "autotuned" else None)
        for _ in range(3):
            step()
        ms = milliseconds(step, repeat=10)
        tokens = shape["batch"] * shape["ctx"]
        say(**what, step_ms=round(ms, 2), tokens_per_s=round(tokens / ms * 1e3),
            TFLOPs=round(train_flops(shape) * tokens / ms * 1e-9, 1),
            adamw_ms=round(milliseconds(optimizer.step), 3),
            peak_MiB=round(torch.cuda.max_memory_allocated() / 2 ** 20) if ON_GPU else None)
        if profiled and ON_GPU:
            kernel_times(step)


class Linear(nn.Module):
    """Linear layer with bf16 weights, or int8 weights with a scale per output, which are converted during the matmul."""

    def __init__(self, inputs, outputs, int8):
        super().__init__()
        if int8:
            self.register_buffer("weight", torch.randint(-127, 128, (outputs, inputs), dtype=torch.int8))
            self.register_buffer("scale", torch.full((outputs,), 1e-3, dtype=torch.bfloat16))
        else:
            self.weight = nn.Parameter(torch.randn(outputs, inputs, dtype=torch.bfloat16) * 0.02, requires_grad=False)
            self.scale = None

    def forward(self, x):
        if self.scale is None:
            return F.linear(x, self.weight)
        return F.linear(x, self.weight.to(x.dtype)) * self.scale


class LlamaBlock(nn.Module):
    def __init__(self, s, batch, cached, int8):
        super().__init__()
        width, head = s["width"], s["width"] // s["heads"]
        self.heads, self.kv_heads, self.head = s["heads"], s["kv_heads"], head
        self.qkv = Linear(width, (s["heads"] + 2 * s["kv_heads"]) * head, int8)
        self.out = Linear(s["heads"] * head, width, int8)
        self.gate_up, self.down = Linear(width, 2 * s["d_ff"], int8), Linear(s["d_ff"], width, int8)
        self.norm1 = nn.Parameter(torch.ones(width, dtype=torch.bfloat16), requires_grad=False)
        self.norm2 = nn.Parameter(torch.ones(width, dtype=torch.bfloat16), requires_grad=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(batch, s["kv_heads"], cached, head, dtype=torch.bfloat16))

    def rotated(self, x, cos, sin):
        low, high = x.chunk(2, dim=-1)
        return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)

    def forward(self, x, position, cos, sin, mask):
        batch = x.shape[0]
        qkv = self.qkv(F.rms_norm(x, x.shape[-1:], self.norm1, 1e-5)).view(batch, -1, self.head)
        q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        q, k = self.rotated(q, cos, sin), self.rotated(k, cos, sin)
        self.keys.index_copy_(2, position, k[:, :, None])
        self.values.index_copy_(2, position, v[:, :, None])
        # Queries that share a key head are rows of one matmul.
        grouped = q.view(batch, self.kv_heads, -1, self.head)
        mixed = F.scaled_dot_product_attention(grouped, self.keys, self.values, attn_mask=mask)
        x = x + self.out(mixed.reshape(batch, -1))
        gate, up = self.gate_up(F.rms_norm(x, x.shape[-1:], self.norm2, 1e-5)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    """One decoding step, from ids [B] at `position` [1] to the next ids [B]. Without a mask, it attends to the whole cache.
    A real model would not, but flash attention can then split the keys, and no masked position is computed."""

    def __init__(self, s, batch, cached, int8, masked):
        super().__init__()
        self.masked = masked
        self.token = nn.Parameter(torch.randn(s["vocab"], s["width"], dtype=torch.bfloat16), requires_grad=False)
        self.blocks = nn.ModuleList(LlamaBlock(s, batch, cached, int8) for _ in range(s["layers"]))
        self.head = Linear(s["width"], s["vocab"], int8)
        self.norm = nn.Parameter(torch.ones(s["width"], dtype=torch.bfloat16), requires_grad=False)
        half = s["width"] // s["heads"] // 2
        angle = torch.outer(torch.arange(cached).float(), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angle.cos().to(torch.bfloat16))
        self.register_buffer("sin", angle.sin().to(torch.bfloat16))
        self.cached = cached

    def forward(self, ids, position):
        x = F.embedding(ids, self.token)
        cos, sin = self.cos[position], self.sin[position]
        mask = (torch.arange(self.cached, device=ids.device) <= position)[None, None, None] if self.masked else None
        for block in self.blocks:
            x = block(x, position, cos, sin, mask)
        return self.head(F.rms_norm(x, x.shape[-1:], self.norm, 1e-5)).argmax(-1)


def decode(s, batch, depth, int8, kind, masked=True, tokens=64):
    what = dict(decoding="llama-1b", batch=batch, depth=depth, dtype="int8" if int8 else "bf16", kind=kind,
                masked=masked)
    with row(**what), torch.no_grad(), torch.device(DEVICE):
        torch._inductor.config.coordinate_descent_tuning = kind != "eager"
        model = Llama(s, batch, depth + tokens, int8, masked)
        step = model if kind == "eager" else torch.compile(model, mode="reduce-overhead", fullgraph=True)
        ids, position = torch.zeros(batch, dtype=torch.long), torch.zeros(1, dtype=torch.long)

        def generate():
            nonlocal ids
            position.fill_(depth)
            for _ in range(tokens):
                ids = step(ids, position).clone()
                position.add_(1)

        generate()
        ms = milliseconds(generate, repeat=2) / tokens
        weights = sum(m.weight.numel() * m.weight.element_size() for m in model.modules() if isinstance(m, Linear))
        cache = sum(b.keys.numel() * 4 for b in model.blocks)
        say(**what, step_ms=round(ms, 4), tokens_per_s=round(batch / ms * 1e3, 1), weights_MiB=round(weights / 2 ** 20),
            cache_MiB=round(cache / 2 ** 20), GBps=round((weights + cache) / ms * 1e-6))


def attention(name, batch, heads, ctx, head, dtype=torch.bfloat16):
    shape = (batch, heads, ctx, head)
    flops = 4 * batch * heads * ctx * ctx * head / 2  # causal: half of the score matrix
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        what = dict(attention=name, shape=shape, backend=backend.name.lower().removesuffix("_attention"))
        with row(**what), sdpa_kernel(backend):
            q, k, v = (torch.randn(shape, device=DEVICE, dtype=dtype, requires_grad=True) for _ in range(3))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            gradient = torch.randn_like(out)
            forward = milliseconds(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), repeat=20)
            backward = milliseconds(functools.partial(torch.autograd.grad, out, (q, k, v), gradient, retain_graph=True),
                                    repeat=20)
            say(**what, forward_ms=round(forward, 4), forward_TFLOPs=round(flops / forward * 1e-9, 1),
                backward_ms=round(backward, 4), backward_TFLOPs=round(2.5 * flops / backward * 1e-9, 1))


def fp8(name, m, n, k):
    """Measures the forward matmul of a layer in e4m3 with a scale per operand, the same in bf16, and rounding the input to e4m3."""
    what = dict(fp8=name, m=m, n=n, k=k)
    with row(**what), torch.no_grad():
        x, w = (torch.randn(shape, device=DEVICE, dtype=torch.bfloat16) for shape in ((m, k), (n, k)))
        x8, w8 = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn).t()
        one = torch.ones((), device=DEVICE)
        times = {"bf16": milliseconds(lambda: x @ w.t(), repeat=20)}
        for label, fast in (("fp8", False), ("fp8_fast", True)):
            times[label] = milliseconds(
                lambda fast=fast: torch._scaled_mm(x8, w8, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast),
                repeat=20)
        rounding = milliseconds(lambda: x.to(torch.float8_e4m3fn), repeat=20)
        say(**what, **{f"{label}_TFLOPs": round(2 * m * n * k / ms * 1e-9, 1) for label, ms in times.items()}, rounding_ms=round(rounding, 4))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="train,decode,attention,fp8", help="parts, between commas")
    parser.add_argument("--small", action="store_true", help="tiny shapes, to try the script")
    a = parser.parse_args()
    parts = a.only.split(",")
    say(device=torch.cuda.get_device_name() if ON_GPU else "CPU", torch=torch.__version__)
    trainings = {name: {**shape, **(SMALL if a.small else {})} for name, shape in TRAININGS.items()}
    llama = {**SHAPES["llama-1b"], **(dict(layers=2, width=256, d_ff=512, heads=4, kv_heads=2) if a.small else {})}
    depth = 16 if a.small else 512
    if "train" in parts:
        for name, shape in trainings.items():
            train(name, shape, "bf16", "eager")
            train(name, shape, "bf16", "compiled", profiled=True)
        train("mini-gpt", trainings["mini-gpt"], "tf32", "compiled")
    if "attention" in parts:
        attention("gpt2", *((1, 2, 32, 32) if a.small else (32, 12, 1024, 64)))
        attention("mini-gpt", *((1, 2, 32, 32) if a.small else (64, 6, 256, 64)))
    if "fp8" in parts:
        for name, *sizes in (("qkv", 32768, 2304, 768), ("out", 32768, 768, 768), ("up", 32768, 3072, 768),
                             ("down", 32768, 768, 3072), ("head", 32768, 50304, 768), ("square", 8192, 8192, 8192)):
            fp8(name, *([64] * 3 if a.small else sizes))
    if "decode" in parts:
        decode(llama, 1, depth, False, "eager")
        decode(llama, 1, depth, False, "compiled")
        decode(llama, 16, depth, False, "compiled")
        decode(llama, 1, depth, False, "compiled", masked=False)
        decode(llama, 1, 8 * depth, False, "compiled")
        decode(llama, 1, 8 * depth, False, "compiled", masked=False)
        decode(llama, 1, depth, True, "compiled")
    if "train" in parts:
        train("gpt2", trainings["gpt2"], "bf16", "compiled", vocab=50257)
        train("gpt2", trainings["gpt2"], "tf32", "compiled", batch=8 if not a.small else 2)
        train("gpt2", trainings["gpt2"], "bf16", "autotuned")


if __name__ == "__main__":
    main()
