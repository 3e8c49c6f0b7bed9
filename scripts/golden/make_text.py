#!/usr/bin/env python3
"""Writes tests/data/{split.jsonl,bpe.tokenizer.json,bpe.jsonl}: results of regex engines and tokenizers for unusual texts.

    pip install tokenizers==0.23.3 regex unicodedata2==16.0.0
    scripts/golden/make_text.py TEXT        TEXT: a file to train the small BPE on
"""

import json
import pathlib
import random
import re
import sys

import regex
import unicodedata2
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "tests/data"
ODD = " \n\r\t'' ''aAbBzZsSdDmMtTlLvVeErR019.,/!?-_\u017f\u212a\u3000\u00a0\u0085\u200b\u0301中文かな\u02b0\u01c5é"
FIXED = ["Hello, world! It's 2026.", "we'LL don'T I'\u017f ok", "  two  spaces\n\n\tand tab \n", "12345 6 78",
         "foo\r\n\r\n  bar  ", "   ", "\n \n x", "HTTPServer getURLs iPhone XMLhttp", "中文AB日本語", "A\u0301bc \u0301d",
         " \u00a0x\u3000y\u2028z", "//path/to\n/x", "'s's 'S", "a\u200bb", "e\u0301E\u0301", "Ǆǅǆ ʰAʰ", "١٢٣٤ Ⅷ ½",
         "👍🏽 ok👩‍👩‍👧", "\u0085a \u001c b"]


def patterns():
    """Returns each pattern of split.cpp in the form of its publisher."""
    found = {}
    for name, pattern in re.findall(r'\{SplitPattern::(\w+),\s*R"\((.*)\)"\}', (ROOT / "src/text/split.cpp").read_text()):
        found.setdefault(name, pattern)
    return found


def texts(count):
    rnd = random.Random(5)
    by_category = {}
    for code in range(0x110000):
        if not 0xD800 <= code < 0xE000 and unicodedata2.category(chr(code)) != "Cn":
            by_category.setdefault(unicodedata2.category(chr(code)), []).append(chr(code))
    categories = sorted(by_category)

    def character():
        return rnd.choice(ODD) if rnd.random() < 0.75 else rnd.choice(by_category[rnd.choice(categories)])

    return FIXED + ["".join(character() for _ in range(rnd.randrange(3, 20))) for _ in range(count - len(FIXED))]


def write(name, rows):
    (TARGET / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def split_rows(all_texts):
    for name, pattern in patterns().items():
        for text in all_texts:
            pieces = [match.group() for match in regex.finditer(pattern, text)]
            if "$" not in pattern:  # $ is the end of a line in one engine and the end of the text in the others
                split = pre_tokenizers.Split(Regex(pattern), "isolated")
                assert pieces == [piece for piece, _ in split.pre_tokenize_str(text)], (name, text)
            yield {"pattern": name, "pieces": pieces}


def small_bpe(corpus):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(patterns()["llama3"]), "isolated"), byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([corpus], trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<|bos|>", "<|end|>"], initial_alphabet=byte_level.alphabet(),
        show_progress=False))
    return tokenizer


def main():
    corpus = pathlib.Path(sys.argv[1]).read_text()[:60000]
    all_texts = texts(60)
    TARGET.mkdir(exist_ok=True)
    write("split.jsonl", split_rows(all_texts))
    tokenizer = small_bpe(corpus)
    tokenizer.save(str(TARGET / "bpe.tokenizer.json"), pretty=False)
    samples = [*all_texts, corpus[:400], "the the " * 30, "<|bos|>the<|end|><|en"]
    write("bpe.jsonl", ({"text": text, "special": "<|" in text, "ids": tokenizer.encode(text).ids} for text in samples))


main()
