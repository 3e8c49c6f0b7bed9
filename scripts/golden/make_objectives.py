#!/usr/bin/env python3
"""Writes tests/golden/objectives: losses and gradients of the fine-tuning objectives, for two models of tests/golden/data.

    make_objectives.py [--out tests/golden/objectives]

Pinned: torch 2.15.0, safetensors 0.8.0. decoder.py computes everything in float64, and files are in float64. The cases:
  masked   cross-entropy of targets with weights, divided by the sum of the weights
  packed   the same for rows with several sequences, which do not see each other and whose positions start at 0
  dpo      Rafailov et al. 2023, equation 7, the mean over pairs
  policy   -sum(advantage * log-probability) / (number of sampled targets)
  tempered the same at a sampling temperature of 0.5; responses with advantage 0 also count in the number
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import load_file, save_file

import decoder

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SAMPLES, TOKENS, BETA, TEMPERATURE = 4, 10, 0.3, 0.5


def token_losses(spec, params, ids, targets, starts, temperature):
    """Returns -log p of every target [B, T], or 0 without a target. Rows are split where `starts` is 1."""
    rows = []
    for row_ids, row_targets, row_starts in zip(ids, targets, starts):
        cuts = [0] + [t for t in range(1, TOKENS) if row_starts[t]] + [TOKENS]
        parts = []
        for begin, end in zip(cuts, cuts[1:]):
            logits = decoder.forward(spec, params, row_ids[None, begin:end])[0][0] / temperature
            parts.append(torch.nn.functional.cross_entropy(logits, row_targets[begin:end].clamp(min=0), reduction="none")
                         * (row_targets[begin:end] >= 0))
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def masked(losses, targets, weights, labels):
    return (losses * weights).sum() / (weights * (targets >= 0)).sum()


def dpo(losses, targets, weights, labels):
    beyond = -(losses * weights).sum(1) - labels
    return -torch.nn.functional.logsigmoid(BETA * (beyond[0::2] - beyond[1::2])).mean()


def policy(losses, targets, weights, labels):
    return (losses * labels[:, None]).sum() / (targets >= 0).sum()


def draw(spec, case, generator):
    ids = torch.randint(spec.vocab, (SAMPLES, TOKENS + 1), generator=generator)
    ids, targets = ids[:, :-1].clone(), ids[:, 1:].clone()
    weights = torch.rand(SAMPLES, TOKENS, generator=generator)
    starts = torch.zeros(SAMPLES, TOKENS, dtype=torch.int32)
    labels = torch.randn(SAMPLES, generator=generator)
    for row in range(SAMPLES):  # prompts of different lengths, and rows that end early
        targets[row, :row] = -1
        targets[row, TOKENS - row % 3:] = -1
    if case == "packed":
        for row, places in enumerate([(3, 7), (1,), (), (9,)]):
            for t in places:
                starts[row, t] = 1
                targets[row, t - 1] = -1
    if case == "tempered":
        labels[1:3] = 0
    if case == "dpo":
        weights = (targets >= 0).float()
        labels = -20 + 3 * labels
    return ids, targets, weights, starts, labels


def make(family):
    folder = ROOT / "tests/golden/data" / family
    spec = decoder.read_spec(json.loads((folder / "config.json").read_text()))
    start = {k: v.double() for k, v in load_file(folder / "model.safetensors").items()}
    generator = torch.Generator().manual_seed(5)
    golden = {}
    for case, loss_of in (("masked", masked), ("packed", masked), ("dpo", dpo), ("policy", policy), ("tempered", policy)):
        ids, targets, weights, starts, labels = draw(spec, case, generator)
        params = {name: value.clone().requires_grad_() for name, value in start.items()}
        losses = token_losses(spec, params, ids, targets, starts, TEMPERATURE if case == "tempered" else 1)
        loss = loss_of(losses, targets, weights.double(), labels.double())
        loss.backward()
        case_golden = {"ids": ids.int(), "targets": targets.int(), "weights": weights, "starts": starts,
                       "labels": labels, "loss": loss.detach().view(1)}
        case_golden |= {f"grad.{name}": p.grad for name, p in params.items()}
        golden |= {f"{case}.{key}": value.contiguous() for key, value in case_golden.items()}
        print(family, case, loss.item())
    return golden


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/golden/objectives")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for family in ("gpt2", "llama"):
        save_file(make(family), out / f"{family}.safetensors")


if __name__ == "__main__":
    main()
