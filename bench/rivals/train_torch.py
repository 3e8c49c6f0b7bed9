#!/usr/bin/env python3
"""Training speed of PyTorch on one shape, by default Mini-GPT's (10.8M parameters, 16 x 256 tokens a step).

    train_torch.py [--steps 10] [--warmup 3] [--vocab 256 --width 384 --layers 6 --heads 6 --ctx 256 --batch 16]

Whole steps in fp32: forward, backward, clipping at 1, AdamW. Prints one JSON object with the median tokens per
second. Machines are shared: compare only with a run of ours that alternates with this one.
"""

import argparse
import json
import statistics
import time

import torch

from torch_gpt import Gpt, make_adamw, train_step


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(vocab=256, width=384, layers=6, heads=6, ctx=256, batch=16, steps=10, warmup=3,
                            threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--d-ff", type=int, help="default: 4 x width")
    parser.add_argument("--attention-bias", action="store_true")
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


def main():
    args = parse()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = Gpt(args.vocab, args.ctx, args.width, args.layers, args.heads, args.d_ff,
                attention_bias=args.attention_bias, mlp_bias=True, norm_bias=True, scale_residual_init=False)
    loss_of = model if args.no_compile else torch.compile(model)
    optimizer = make_adamw(model, 3e-4, (0.9, 0.95), 0.1)
    ids = torch.randint(args.vocab, (args.warmup + args.steps, args.batch, args.ctx + 1))
    seconds = []
    for batch in ids:
        start = time.perf_counter()
        train_step(loss_of, model, optimizer, batch[:, :-1].contiguous(), batch[:, 1:].contiguous())
        seconds.append(time.perf_counter() - start)
    timed = seconds[args.warmup:]
    tokens = args.batch * args.ctx
    print(json.dumps({
        "parameters": sum(p.numel() for p in model.parameters()), "tokens_per_step": tokens, "steps": args.steps,
        "tokens_per_second": round(tokens / statistics.median(timed), 1),
        "seconds_per_step": {"min": round(min(timed), 4), "median": round(statistics.median(timed), 4),
                             "max": round(max(timed), 4)},
        "threads": args.threads, "compiled": not args.no_compile, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
