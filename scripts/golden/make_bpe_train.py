#!/usr/bin/env python3
"""Writes tests/data/bpe_train.jsonl: merges that the trainer of Hugging Face learns from small texts with many ties.

    pip install tokenizers==0.23.3
    scripts/golden/make_bpe_train.py

One JSON object per line: pattern, vocab_size (bytes and merges), text, merges (in the byte-level alphabet).
"""

import json
import pathlib
import random
import re

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORDS = ("the sea was calm and the sailors sang of the land they had left behind while the wind turned north and "
         "nobody knew whether the old ship would reach the harbour before the storm").split()


def patterns():
    """Returns each pattern in split.cpp in the form that the trainer writes to a tokenizer.json."""
    source = (ROOT / "src/text/split.cpp").read_text()
    found = {}
    for name, pattern in re.findall(r'\{SplitPattern::(\w+),\s*R"\((.*)\)"\}', source):
        found.setdefault(name, pattern)
    return {name: found[key] for name, key in
            [("gpt2", "gpt2"), ("gpt4", "llama3"), ("nanochat", "nanochat"), ("o200k", "o200k")]}


def merges(text, pattern, vocab_size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return json.loads(tokenizer.to_str())["model"]["merges"]


def texts():
    rnd = random.Random(11)
    yield 400, " ".join(rnd.choice(WORDS) for _ in range(300))
    yield 330, " ".join("".join(rnd.choice("ab") for _ in range(rnd.randrange(1, 30))) for _ in range(60))
    yield 300, " ".join(rnd.choice("xy-=") * rnd.randrange(1, 60) for _ in range(40))
    yield 340, " ".join("".join(rnd.choice("aé中🙂ß") for _ in range(rnd.randrange(1, 9))) for _ in range(80))
    yield 360, "\n".join(f"{rnd.choice(WORDS).title()}{rnd.choice(WORDS).upper()} = {rnd.randrange(10**6)};//it's\t x"
                         for _ in range(60))
    yield 5000, "all merges of a short text, until no pair is left: abracadabra abracadabra"


def main():
    with open(ROOT / "tests/data/bpe_train.jsonl", "w", encoding="ascii") as out:
        for name, pattern in patterns().items():
            for vocab_size, text in texts():
                row = dict(pattern=name, vocab_size=vocab_size, text=text, merges=merges(text, pattern, vocab_size))
                out.write(json.dumps(row) + "\n")


main()
