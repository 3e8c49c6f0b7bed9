#!/usr/bin/env python3
"""Trains nanoGPT's small CPU recipe on tinyshakespeare with PyTorch, as a reference for loss and time.

    nanogpt_torch.py --data input.txt [--seed 1337] [--steps 2000] [--no-compile]

Characters as tokens, 90 % for training; 4 layers x 128, 4 heads, context 64, batch 12, 2,000 steps, learning rate
1e-3 -> 1e-4 (100 steps of warmup, then cosine), AdamW betas 0.9 and 0.99, decay 0.1, clipping at 1, no dropout, no
biases. Prints one JSON object: seconds of the training loop without and with compilation, and the loss over the whole
validation split in non-overlapping windows of 64. The published numbers were measured with torch 2.15.0.
"""

import argparse
import copy
import json
import math
import pathlib
import time

import torch

from torch_gpt import Gpt, make_adamw, train_step

CTX, BATCH, WARMUP, PEAK, FLOOR = 64, 12, 100, 1e-3, 1e-4


def learning_rate(step, steps):
    if step < WARMUP:
        return PEAK * step / WARMUP
    done = min(1.0, (step - WARMUP) / max(1, steps - WARMUP))
    return FLOOR + 0.5 * (PEAK - FLOOR) * (1 + math.cos(math.pi * done))


def load_splits(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    index = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([index[c] for c in text])
    cut = int(0.9 * len(ids))
    return ids[:cut], ids[cut:], len(index)


def draw(ids, generator):
    starts = torch.randint(len(ids) - CTX, (BATCH,), generator=generator)
    windows = ids[starts[:, None] + torch.arange(CTX + 1)]
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


@torch.no_grad()
def whole_split_loss(model, ids):
    """Returns the mean loss over all predicted tokens. The last window is shorter."""
    total = 0.0
    for start in range(0, len(ids) - 1, CTX):
        window = ids[start:start + CTX + 1]
        total += model(window[None, :-1], window[None, 1:]).item() * (len(window) - 1)
    return total / (len(ids) - 1)


def warm_up(loss_of, model, batch):
    """Compiles forward, backward and optimizer with `batch`, then restores the weights. Returns the duration in seconds."""
    before, start = copy.deepcopy(model.state_dict()), time.perf_counter()
    optimizer = make_adamw(model, PEAK, (0.9, 0.99), 0.1, fused=True)
    for _ in range(3):
        train_step(loss_of, model, optimizer, *batch)
    model.load_state_dict(before)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    train, val, vocab = load_splits(args.data)
    model = Gpt(vocab, CTX, width=128, layers=4, heads=4)
    loss_of = model if args.no_compile else torch.compile(model)
    generator = torch.Generator().manual_seed(args.seed)
    warm_seconds = warm_up(loss_of, model, draw(train, torch.Generator().manual_seed(0)))
    optimizer = make_adamw(model, PEAK, (0.9, 0.99), 0.1, fused=True)
    start = time.perf_counter()
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args.steps)
        loss = train_step(loss_of, model, optimizer, *draw(train, generator))
    seconds = time.perf_counter() - start
    print(json.dumps({
        "seed": args.seed, "steps": args.steps, "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(seconds, 2), "seconds_with_compile": round(seconds + warm_seconds, 2),
        "tokens_per_second": round(args.steps * BATCH * CTX / seconds), "last_train_loss": round(loss.item(), 4),
        "val_loss": round(whole_split_loss(model, val), 4), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
