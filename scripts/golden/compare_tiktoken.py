#!/usr/bin/env python3
"""Compares the ids of gpt with those of tiktoken on random Unicode characters, for every pattern of split.cpp.

    pip install tiktoken==0.14.0
    scripts/golden/compare_tiktoken.py VOCAB [--characters N] [--command "build/release/gpt tokenizer encode --jsonl --tokenizer"]

VOCAB is a folder with vocab.json of GPT-2. The command gets a tiktoken file as its last argument. It reads texts as
lines {"text": ...} and must print lines {"ids": [...]}.
"""

import argparse
import base64
import json
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile

import tiktoken

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMMAND = f"{ROOT}/build/release/gpt tokenizer encode --jsonl --tokenizer"
ODD = " \n\r\t'' ''sdmtLLveRE019.,/!?-_\u017f\u212a\u3000\u00a0\u0085\u200b\u0301"


def patterns():
    found = {}
    for name, pattern in re.findall(r'\{SplitPattern::(\w+),\s*R"\((.*)\)"\}', (ROOT / "src/text/split.cpp").read_text()):
        found.setdefault(name, pattern)
    return found


def ranks_of(folder):
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    stand_in = {byte: chr(byte) for byte in keep}
    for byte in range(256):
        stand_in.setdefault(byte, chr(256 + len(stand_in) - len(keep)))
    byte_of = {c: byte for byte, c in stand_in.items()}
    vocab = json.loads((pathlib.Path(folder) / "vocab.json").read_text())
    return {bytes(byte_of[c] for c in token): rank for token, rank in vocab.items() if token != "<|endoftext|>"}


def random_texts(characters, rnd):
    """Yields texts. Half of the characters are from all of Unicode, a quarter from its first scripts, and a quarter are
    unusual."""
    def character():
        kind = rnd.random()
        if kind < 0.25:
            return rnd.choice(ODD)
        code = rnd.randrange(0x20, 0x3000 if kind < 0.5 else 0x110000)
        return chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd"

    while characters > 0:
        size = min(characters, rnd.randrange(1, 200))
        characters -= size
        yield "".join(character() for _ in range(size))


def ours(command, file, texts):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    done = subprocess.run([*shlex.split(command), file], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line)["ids"] for line in done.stdout.decode().split("\n") if line]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("vocab")
    parser.add_argument("--characters", type=int, default=10_000_000)
    parser.add_argument("--command", default=COMMAND)
    args = parser.parse_args()
    ranks, different = ranks_of(args.vocab), 0
    ranks.pop(max(ranks, key=ranks.get))  # the file name then determines how text is split, not the vocabulary size
    for name, pattern in patterns().items():
        encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        rnd, texts, ids, bad = random.Random(name), 0, 0, []
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/x.{name}.tiktoken"
            pathlib.Path(file).write_text("".join(f"{base64.b64encode(t).decode()} {r}\n" for t, r in ranks.items()))
            for done in range(0, args.characters, 1_000_000):
                part = list(random_texts(min(1_000_000, args.characters - done), rnd))
                expected = [encoding.encode_ordinary(text) for text in part]
                found = ours(args.command, file, part)
                bad += [text for text, a, b in zip(part, found, expected, strict=True) if a != b]
                texts, ids = texts + len(part), ids + sum(map(len, expected))
        print(f"{name}: {args.characters} characters in {texts} texts, {ids} ids, {len(bad)} texts differ", flush=True)
        if bad:
            print("  for example", ascii(min(bad, key=len)))
        different += len(bad)
    sys.exit(different > 0)


main()
