#!/usr/bin/env python3
"""Varies every key of every config.json that both transformers and gpt.cpp can read, and compares the logits.

    config_variants.py --gpt build/release/gpt [--count 4900] [--table docs/config-variants.md]
                       [--cases tests/golden/config_variants.json] [--all FILE] [--type llama]

Pinned: torch 2.15.0, transformers 5.23.0, safetensors 0.8.0. Uses the models of tests/golden/data. If a variant has
different shapes, a model with random weights is created for the config as transformers reads it. A variant is the
config.json with some keys set or removed. The folder is loaded with the transformers class of its model_type and with
`gpt verify --write`. If AutoModel of transformers selects a different class, the variant records that class. The logits
must match for a whole sequence and for a sequence that is fed in pieces. The outcome of a variant is one of

    same          loads, and changes nothing in either program
    equal         loads, and changes the logits of both programs in the same way
    refused both  neither program loads it
    refused       only gpt.cpp refuses it: the key has an effect in transformers that gpt.cpp does not support
    stricter      gpt.cpp loads it, but type checks or other code of transformers refuse it
    BUG ...       different logits, refusal of a key without effect, or a message that names no key

Exits with 1 if there is any bug. --table and --cases write the two committed files: the outcomes by key, and the
variants that a test runs without Python. Takes a few minutes on one core.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

import config_values as values

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = {"gpt2": "gpt2", "openai-gpt": "gpt1", "llama": "llama", "qwen2": "qwen2", "mistral": "mistral",
           "ministral": "mistral", "nanochat": "nanochat"}
TOLERANCE = 3e-4  # for logits up to about 5 in fp32; a misread key has a much larger effect
ROUNDING = 2e-5  # largest difference between two correct computations
LARGEST = 4_000_000  # maximum number of parameters of a model that is created for a variant
TRANSFORMERS_REFUSES = (Exception,)  # a config can cause any exception anywhere in transformers


@dataclasses.dataclass
class Variant:
    type: str
    changes: dict  # key -> value, or values.ABSENT
    weights: str = ""  # change of the weights, see change_weights
    outcome: str = ""
    message: str = ""  # error of gpt.cpp
    theirs: str = ""  # error of transformers
    logits: list = dataclasses.field(default_factory=list)
    own_weights: bool = False  # weights were created for this variant
    auto: str = ""  # class selected by AutoConfig, if it differs

    def label(self):
        parts = [f"{k}: {'absent' if v is values.ABSENT else json.dumps(v)}" for k, v in self.changes.items()]
        return ", ".join(parts + ([f"({self.weights})"] if self.weights else [])) or "unchanged"


class Base:
    """A model of tests/golden/data."""

    def __init__(self, model_type):
        folder = ROOT / "tests/golden/data" / FOLDERS[model_type]
        self.changes = changes_of_type(model_type)
        self.config = {**json.loads((folder / "config.json").read_text()), **self.changes}
        self.weights = load_file(folder / "model.safetensors")
        self.ids = load_file(folder / "golden.safetensors")["input_ids"]
        self.shapes = shapes_of(self.weights)
        self.logits = None


def changes_of_type(model_type):
    """Returns the changes that turn the config.json of the folder into one of this type."""
    if FOLDERS[model_type] != "mistral" or model_type == "mistral":
        return {}
    return {"model_type": model_type, "architectures": [values.MODELS[model_type].__name__]}


def shapes_of(weights):
    return {name: tuple(w.shape) for name, w in weights.items()}


def config_of(base, variant):
    config = dict(base.config)
    for key, value in variant.changes.items():
        if value is values.ABSENT:
            config.pop(key, None)
        else:
            config[key] = value
    return config


def random_weights(shapes):
    out = {}
    for i, (name, shape) in enumerate(sorted(shapes.items())):
        generator = torch.Generator().manual_seed(1000 + i)
        w = torch.randn(shape, generator=generator)
        norm = len(shape) == 1 and name.endswith("weight")
        scale = 0.3 if len(shape) == 1 or "embed" in name or "wte" in name or "wpe" in name else 1.2 / max(1, shape[-1])**0.5
        out[name] = (1 + 0.3 * w) if norm else scale * w
    return out


def change_weights(weights, how, head, embedding, prefix):
    weights = dict(weights)
    if how == "without head":
        weights.pop(head, None)
    elif how == "with another head":
        weights[head] = weights[embedding].flip(0).clone()
    elif how == "with an equal head":
        weights[head] = weights[embedding].clone()
    elif how == "without prefix":
        weights = {name.removeprefix(prefix): w for name, w in weights.items()}
    elif how == "with a classifier":
        weights["score.weight"] = weights[embedding][:2].clone()
    elif how == "with inv_freq":
        weights[prefix + "layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(3)
    return weights


HEAD = "lm_head.weight"


def embedding_of(weights):
    return next(n for n in weights if n.endswith(("wte.weight", "tokens_embed.weight", "embed_tokens.weight")))


def prepare(folder, base, variant):
    """Writes the folder, with weights that fit the config as transformers reads it."""
    (folder / "config.json").write_text(json.dumps(config_of(base, variant)))
    weights = base.weights
    try:
        cls = values.model_class(config_of(base, variant))
        with torch.device("meta"):
            model = cls(cls.config_class.from_pretrained(folder))
        auto = type(transformers.AutoConfig.from_pretrained(folder))
        variant.auto = "" if auto is cls.config_class else auto.__name__
        shapes = {n: tuple(p.shape) for n, p in model.named_parameters()}
        if "crossattention" not in " ".join(shapes) and shapes != base.shapes and sum(
                p.numel() for p in model.parameters()) <= LARGEST:
            weights = random_weights(shapes)
            variant.own_weights = True
    except TRANSFORMERS_REFUSES:
        pass
    embedding = embedding_of(weights)
    prefix = "transformer." if embedding.startswith("transformer.") else "model."
    weights = change_weights(weights, variant.weights, HEAD, embedding, prefix)
    save_file({n: w.contiguous() for n, w in weights.items()}, folder / "model.safetensors", metadata={"format": "pt"})


def transformers_logits(cls, folder, ids):
    """Returns the logits of the whole sequence, and the last logits after feeding it in pieces. A refusal is an
    exception."""
    model, info = cls.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    missing = [k for k in info["missing_keys"] if "crossattention" not in k and "ln_cross" not in k]
    if missing or info["mismatched_keys"]:
        raise ValueError(f"weights of random numbers: {missing or info['mismatched_keys']}")
    unexpected = [k for k in info["unexpected_keys"] if not k.endswith("inv_freq")]
    with torch.no_grad():
        out = model(input_ids=ids, use_cache=False, return_dict=True)
        full = out.logits
        past, at = None, 0
        for n in [7] + [1] * (ids.shape[1] - 7):
            if at >= ids.shape[1]:
                break
            step = model(input_ids=ids[:, at:at + n], past_key_values=past, use_cache=True, return_dict=True)
            past, at = getattr(step, "past_key_values", None), at + n
            if past is None:
                return full, full[:, -1], unexpected
        return full, step.logits[:, -1], unexpected


def gpt_logits(gpt, folder):
    out = folder / "out.safetensors"
    out.unlink(missing_ok=True)
    run = subprocess.run([gpt, "verify", folder, "--golden", folder / "ids.safetensors", "--write", out, "--threads", "1"],
                         capture_output=True, text=True)
    if not out.exists():
        if run.returncode not in (1, 2):
            return None, f"CRASH {run.returncode}"
        return None, run.stderr.strip().replace(f"{folder}/", "").replace(str(folder), "the model")
    tensors = load_file(out)
    return tensors["logits"], ""


def close(a, b):
    return a.shape == b.shape and bool(torch.isfinite(a).all()) and float((a - b).abs().max()) <= TOLERANCE


def names_a_key(variant, config):
    """Returns true if the message contains a varied key, a key nested in it, or another key of the file."""
    def inner(value):
        return [k for k in value] + [i for v in value.values() for i in inner(v)] if isinstance(value, dict) else []

    def has(keys):
        return any(re.search(r"(?<![\w])" + re.escape(k) + r"(?![\w])", variant.message) for k in keys)

    if has(variant.changes) or any(has(inner(v)) for v in variant.changes.values()):
        return True
    return bool(variant.weights) or (len(variant.changes) > 1 and has(config))


def classify(base, variant, config, theirs, ours):
    """Returns the outcome. theirs: (full, last, unexpected tensors) or None; ours: logits or None."""
    if variant.message.startswith("CRASH"):
        return "BUG crash"
    shapes_differ = theirs is None and "expected shape" in variant.message  # both fail, and gpt names the tensor
    if ours is None and not names_a_key(variant, config) and not shapes_differ:
        return "BUG unnamed"
    if theirs is None:
        return "refused both" if ours is None else "stricter"
    full, last, unexpected = theirs
    if not torch.isfinite(full).all():
        return "refused both" if ours is None else "BUG not finite there"
    consistent = close(full[:, -1], last)
    fits = full.shape == base.logits.shape and not variant.own_weights
    no_effect = fits and consistent and not unexpected and float((full - base.logits).abs().max()) <= ROUNDING
    if ours is None:
        elsewhere = any(key in values.EFFECT_ELSEWHERE for key in variant.changes)
        return "BUG refused without effect" if no_effect and not elsewhere else "refused"
    if not consistent or not close(full, ours):
        return "BUG different"
    return "same" if no_effect else "equal"


class Runner:
    def __init__(self, gpt, scratch, types):
        self.gpt, self.scratch = gpt, scratch
        self.bases = {t: Base(t) for t in types}
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        for t, base in self.bases.items():
            folder = scratch / f"base-{t}"
            folder.mkdir()
            prepare(folder, base, Variant(t, {}))
            base.logits = transformers_logits(values.MODELS[t], folder, base.ids)[0]

    def start(self, i, variant):
        base, folder = self.bases[variant.type], self.scratch / f"v{i}"
        folder.mkdir()
        prepare(folder, base, variant)
        ids = base.ids
        config = config_of(base, variant)
        limit = config.get("max_position_embeddings", config.get("n_positions"))
        vocab = config.get("vocab_size")
        if type(limit) is int and 0 < limit < ids.shape[1]:
            ids = ids[:, :limit]
        if type(vocab) is int and vocab > 0:
            ids = ids % vocab
        save_file({"input_ids": ids.contiguous()}, folder / "ids.safetensors")
        ours = self.pool.submit(gpt_logits, self.gpt, folder)
        theirs = None
        try:
            theirs = transformers_logits(values.model_class(config), folder, ids)
        except TRANSFORMERS_REFUSES as error:
            variant.theirs = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return base, folder, variant, theirs, ours

    def run(self, variants):
        """Sets the outcome and message of each variant."""
        waiting = collections.deque()
        for i, variant in enumerate(variants):
            waiting.append(self.start(i, variant))
            if len(waiting) > 8:
                self.finish(*waiting.popleft())
            if i % 200 == 199:
                print(f"{i + 1} of {len(variants)}", file=sys.stderr)
        while waiting:
            self.finish(*waiting.popleft())

    def finish(self, base, folder, variant, theirs, future):
        ours, variant.message = future.result()
        variant.outcome = classify(base, variant, config_of(base, variant), theirs, ours)
        if theirs is not None:
            variant.logits = [float(f"{x:.6g}") for x in theirs[0][0, -1, :6]]
        shutil.rmtree(folder)


def singles(model_type):
    for key, options in values.options_of(model_type).items():
        for value in options:
            yield Variant(model_type, {key: value})
    for changes in values.TOGETHER.get(model_type, []) + values.together_for(model_type):
        yield Variant(model_type, changes)
    for how, changes in values.WEIGHTS:
        yield Variant(model_type, changes, how)


def combinations(found, count, seed):
    """Yields random sets of two to four changes. Nine in ten of the changes load in transformers."""
    rng = random.Random(seed)
    by_type = collections.defaultdict(lambda: ([], []))
    for v in found:
        if not v.weights and len(v.changes) == 1:
            by_type[v.type][v.theirs != ""].append(v)
    for _ in range(count):
        t = rng.choice(sorted(by_type))
        changes = {}
        for _ in range(rng.randint(2, 4)):
            part = rng.choice(by_type[t][rng.random() < 0.05])
            changes.update(part.changes)
        yield Variant(t, changes)


def summary(variants):
    outcomes = sorted({v.outcome for v in variants}, key=lambda o: (o.startswith("BUG"), values.ORDER.get(o, 9), o))
    lines = ["| model_type | variants | " + " | ".join(outcomes) + " |", "| --- " * (len(outcomes) + 2) + "|"]
    for t in [*FOLDERS, "all"]:
        of_type = [v for v in variants if t in (v.type, "all")]
        counts = collections.Counter(v.outcome for v in of_type)
        if of_type:
            lines.append(f"| {t} | {len(of_type)} | " + " | ".join(str(counts[o]) for o in outcomes) + " |")
    return lines


def auto_note(variants):
    """Returns a note about the files that AutoModel loads with a different class."""
    other = [v for v in variants if v.auto]
    keys = sorted({k for k in set.intersection(*(set(v.changes) for v in other))}) if other else []
    types = sorted({f"`{v.type}` with `{'`, `'.join(keys)}` as {v.auto.removesuffix('Config')}" for v in other})
    return f"transformers' AutoModel loads {len(other)} of the files with a different class: {', '.join(types)}." if other else ""


def table(variants):
    """Returns the committed page: counts, and the outcomes of each key on its own."""
    loads = sum(v.outcome in ("same", "equal", "stricter") for v in variants)
    lines = [*values.PAGE_HEAD.format(count=len(variants), loads=loads, share=100 * loads / len(variants),
                                      auto=auto_note(variants)).splitlines(),
             "", *summary(variants), "", *values.KEYS_HEAD.splitlines(), ""]
    short = {"same": "s", "equal": "e", "refused": "r", "refused both": "b", "stricter": "l"}
    cells = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    for v in variants:
        if len(v.changes) == 1 and not v.weights:
            cells[next(iter(v.changes))][v.type][short.get(v.outcome, v.outcome)] += 1
    lines += ["| key | " + " | ".join(FOLDERS) + " |", "| --- " * (len(FOLDERS) + 1) + "|"]
    for key in sorted(cells):
        row = [" ".join(f"{n}{o}" for o, n in sorted(cells[key][t].items())) for t in FOLDERS]
        lines.append(f"| `{key}` | " + " | ".join(row) + " |")
    lines += ["", *values.REFUSED_HEAD.splitlines(), ""]
    seen = set()
    for v in variants:
        key = next(iter(v.changes), "")
        if v.outcome == "refused" and len(v.changes) == 1 and not v.weights and (v.type, key) not in seen:
            seen.add((v.type, key))
            lines.append(f"- {v.type}, `{v.label()}`: {v.message.removeprefix('gpt: config.json: config key ')}")
    return "\n".join(lines) + "\n"


def cases(variants, per_type=30, seed=3):
    """Returns a selection of single changes on the committed weights, with every key at most twice."""
    rng = random.Random(seed)
    out = []
    for t in FOLDERS:
        used, kinds = collections.Counter(), collections.Counter()
        chosen = [v for v in variants if v.type == t and not v.weights and not v.own_weights and len(v.changes) <= 2]
        rng.shuffle(chosen)
        chosen.sort(key=lambda v: not any(k in values.ALWAYS_TESTED for k in v.changes))
        for v in chosen:
            key = tuple(sorted(v.changes))
            if v.outcome not in ("same", "equal", "refused", "refused both") or "expected shape" in v.message:
                continue
            if used[key, v.outcome] >= 1 or kinds[v.outcome] >= per_type // 3:
                continue
            used[key, v.outcome] += 1
            kinds[v.outcome] += 1
            case = {"type": t, "folder": FOLDERS[t],
                    "set": {**changes_of_type(t), **{k: x for k, x in v.changes.items() if x is not values.ABSENT}},
                    "remove": [k for k, x in v.changes.items() if x is values.ABSENT]}
            if v.outcome == "same":
                case["expect"] = "same"
            elif v.outcome == "equal":
                case["logits"] = v.logits
            else:
                case["expect"] = "refused"
            out.append(case)
    return "[\n" + ",\n".join(json.dumps(c) for c in out) + "\n]\n"


def run_type(model_type, gpt, count, seed):
    """Returns the variants of a model_type with their outcomes: all single changes, and random sets up to `count`."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(str(pathlib.Path(gpt).resolve()), pathlib.Path(scratch), [model_type])
        variants = list(singles(model_type))
        runner.run(variants)
        more = list(combinations(variants, count - len(variants), seed))
        (pathlib.Path(scratch) / "more").mkdir()
        runner.scratch = pathlib.Path(scratch) / "more"
        runner.run(more)
    return variants + more


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpt", required=True)
    parser.add_argument("--count", type=int, default=4900)
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--type", choices=FOLDERS, action="append")
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--cases", type=pathlib.Path)
    parser.add_argument("--all", type=pathlib.Path, help="write every variant with its outcome, a line each")
    args = parser.parse_args()
    types = args.type or list(FOLDERS)
    with concurrent.futures.ProcessPoolExecutor(2) as processes:
        of_types = processes.map(run_type, types, *([x] * len(types) for x in (args.gpt, args.count // len(types), args.seed)))
        variants = [v for of_type in of_types for v in of_type]
    print("\n".join(summary(variants)))
    bugs = [v for v in variants if v.outcome.startswith("BUG")]
    for v in bugs:
        print(f"{v.outcome}: {v.type}: {v.label()}: {v.message or v.theirs}")
    if args.all:
        args.all.write_text("".join(f"{v.outcome} | {v.type} | {v.label()} | {v.message} | {v.theirs}\n" for v in variants))
    if args.table:
        args.table.write_text(table(variants))
    if args.cases:
        args.cases.write_text(cases(variants))
    return 1 if bugs else 0


if __name__ == "__main__":
    sys.exit(main())
