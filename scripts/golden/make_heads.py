#!/usr/bin/env python3
"""Writes tests/golden/heads: a small GPT-2 with a head, and losses and gradients of all tasks in float64.

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    scripts/golden/make_heads.py
    scripts/golden/make_heads.py --compare GPT DIR    compares the logits of the models that `gpt finetune` has written
                                                      to DIR/*/ with those of the class that config.json names

The losses are those of GPT-1 (Radford et al. 2018, 3.2 and 3.3). The head reads the position of the last token of a row.
The language model loss, a mean over the tokens of each row and then over rows, is added with the factor lambda.
"""

import json
import pathlib
import subprocess
import sys

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2ForSequenceClassification

OUT = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/golden/heads"
V, T, C = 24, 12, 8
START, DELIMITER, EXTRACT = V - 3, V - 2, V - 1
AUX = 0.5


def make_rows(examples, samples, rng):
    """Returns rows of 3 to T tokens that end with the extract token and are padded with the start token."""
    ids = torch.full((examples * samples, T), START)
    lengths = torch.randint(3, T + 1, (examples * samples,), generator=rng)
    for row, n in zip(ids, lengths):
        row[1:n - 1] = torch.randint(0, START, (int(n) - 2,), generator=rng)
        row[n - 1] = EXTRACT
    return ids, lengths


def lm_loss(model, hidden, ids, lengths, weights):
    """Returns the auxiliary loss of GPT-1: the mean over the tokens of each row, then the weighted mean over rows."""
    logits = hidden @ model.transformer.wte.weight.T
    means = torch.stack([F.cross_entropy(logits[b, :n - 1], ids[b, 1:n]) for b, n in enumerate(lengths)])
    return (means * weights).sum() / weights.sum()


def head_loss(answer, extracted, head, labels, weights):
    if answer == "number":
        scores = (extracted @ head.T)[:, 0]
        return ((scores - labels) ** 2 * weights).sum() / weights.sum()
    scores = extracted @ head.T
    if answer == "choice":
        scores = scores.view(len(labels), -1)
    losses = F.cross_entropy(scores, labels.long(), reduction="none")
    return (losses * weights).sum() / weights.sum()


def make_case(name, answer, samples, summed, labels, class_weights, model, rng):
    ids, lengths = make_rows(len(labels), samples, rng)
    labels = torch.tensor(labels, dtype=torch.float64)
    weights = torch.ones(len(labels), dtype=torch.float64)
    if class_weights:
        weights = torch.tensor(class_weights, dtype=torch.float64)[labels.long()]
    head = model.score.weight if answer == "label" else model.score.weight[:1]
    model.zero_grad()
    hidden = model.transformer(ids).last_hidden_state
    extracted = hidden[torch.arange(len(ids)), lengths - 1]
    if summed:
        extracted = extracted.view(len(labels), samples, C).sum(1)
    loss = head_loss(answer, extracted, head, labels, weights)
    loss = loss + AUX * lm_loss(model, hidden, ids, lengths, weights.repeat_interleave(samples))
    loss.backward()
    out = {"ids": ids.int(), "lengths": lengths.int(), "labels": labels.float(), "weights": weights.float(),
           "loss": loss.detach().view(1)}
    for key, parameter in model.named_parameters():
        out["grad." + key] = parameter.grad.clone()
    return {f"{name}.{key}": value.contiguous() for key, value in out.items()}


def make():
    rng = torch.Generator().manual_seed(1)
    torch.manual_seed(1)
    config = GPT2Config(vocab_size=V, n_positions=T, n_embd=C, n_layer=1, n_head=2, num_labels=3, pad_token_id=START,
                        attn_pdrop=0, embd_pdrop=0, resid_pdrop=0, bos_token_id=None, eos_token_id=None,
                        initializer_range=0.3, attn_implementation="eager")
    model = GPT2ForSequenceClassification(config).eval()
    for parameter in model.parameters():  # including biases, in values that fp32 can represent
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=rng)
    OUT.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(OUT)
    model = model.double()
    golden = {}
    golden |= make_case("classify", "label", 1, False, [2, 0, 1, 1, 2, 0], None, model, rng)
    golden |= make_case("weighted", "label", 1, False, [0, 0, 1, 2, 2, 1], [0.5, 2, 1.25], model, rng)
    golden |= make_case("similar", "label", 2, True, [1, 0, 2], None, model, rng)
    golden |= make_case("number", "number", 2, True, [3.5, -1, 0.25], None, model, rng)
    golden |= make_case("choose", "choice", 3, False, [2, 0, 1, 1], None, model, rng)
    save_file(golden, OUT / "golden.safetensors")
    print(len(golden), "tensors")


def logits_of(folder, rows):
    """Computes rows of ids with the transformers class of the folder. Yields a list of outputs per row."""
    config = json.loads((folder / "config.json").read_text())
    model, report = getattr(transformers, config["architectures"][0]).from_pretrained(
        folder, output_loading_info=True)
    assert not report["missing_keys"], report["missing_keys"]
    model = model.double().eval()
    for row in rows:
        ids = torch.tensor([row])
        with torch.no_grad():
            if "DoubleHeads" in config["architectures"][0]:
                out = model(ids[:, None], mc_token_ids=torch.tensor([[len(row) - 1]])).mc_logits.flatten()
            else:
                padded = F.pad(ids, (0, 3), value=config["pad_token_id"])  # the class finds the last token that is not padding
                out = model(padded).logits[0]
        yield out


def compare(gpt, root):
    """Compares the probabilities of `gpt classify --ids` with transformers for every model."""
    worst = 0
    for folder in sorted(pathlib.Path(root).iterdir()):
        if not (folder / "task.json").exists():
            continue
        lines = subprocess.run([gpt, "classify", folder, "--show-ids", "--data", folder / "examples.jsonl"],
                               check=True, capture_output=True, text=True).stdout.splitlines()
        for line in map(json.loads, lines):
            outputs = list(logits_of(folder, line["ids"]))
            task = json.loads((folder / "task.json").read_text())
            out = torch.cat(outputs) if task["task"] == "choose" else sum(outputs)
            ours = torch.tensor(line["outputs"], dtype=torch.float64)
            worst = max(worst, float((out - ours).abs().max()))
        print(f"{folder.name}: {len(lines)} examples, largest difference so far {worst:.2g}")
    assert worst < 1e-4, worst


if __name__ == "__main__":
    compare(sys.argv[2], sys.argv[3]) if sys.argv[1:2] == ["--compare"] else make()
