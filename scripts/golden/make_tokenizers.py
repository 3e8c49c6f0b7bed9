#!/usr/bin/env python3
"""Writes one small tokenizer of each family and its ids to tests/data: spm.*, gpt1.*, ranks.*. Also writes the results of
pre-tokenizers of well-known models for unusual texts: pre_tokenizers.jsonl.

    pip install sentencepiece==0.2.3 tokenizers==0.23.3 tiktoken==0.14.0
    scripts/golden/make_tokenizers.py TEXT        TEXT: a file to train them on
"""

import base64
import io
import json
import pathlib
import random
import sys

import sentencepiece
import tiktoken
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TARGET = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/data"
NANOCHAT = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
            r"|\s+(?!\S)|\s+")
FIXED = ["", " ", "   ", "Hello, world!", "  two  blanks and one ", "\n\nlines\r\n\tand tab", "we'll DON'T it's", "1234567",
         "caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m \u0130\u0131 \u03a3\u03c2 \u00df", "\u4e2d\u6587AB\u65e5\u672c\u8a9e", "\ud55c\uae00",
         "\u2581a\u2581\u2581b \u2581", "<s>the</s><unk><0x0A>", "\U0001f44d\U0001f3fd ok \U0001f600", "\u0000a\u0007\ufffd\u200bb\u00adc\ue000",
         "\u2028x\u2029\u3000y\u00a0z\u0085", "\u0958 \u0344 \uf900 \ufb1d", "a" * 70, "(the)[king]'s-and.", "\u200dx\u0301\u0323y"]


def texts(corpus):
    rnd = random.Random(7)
    found = list(FIXED)
    for _ in range(24):
        at = rnd.randrange(len(corpus))
        found.append(corpus[at:at + rnd.choice([5, 40, 160])])
    for _ in range(36):
        odd = [chr(rnd.choice([rnd.randrange(0x20, 0x7F), rnd.randrange(0xA0, 0x600), rnd.randrange(0x900, 0xD000),
                               rnd.randrange(0x1F300, 0x1F700)])) for _ in range(rnd.randrange(1, 12))]
        found.append("".join(rnd.choice(["the", " ", "  ", "", "\n", c]) + c for c in odd))
    return found


def write(name, rows):
    (TARGET / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def spm(corpus, all_texts):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus.split("\n")), model_writer=model, model_type="bpe", vocab_size=600,
        normalization_rule_name="identity", remove_extra_whitespaces=False, byte_fallback=True,
        allow_whitespace_only_pieces=True, user_defined_symbols=["<tool>"], minloglevel=2)
    (TARGET / "spm.model").write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    for text in [*all_texts, "a <tool>b<tool>  <tool"]:
        ids = processor.encode(text)
        yield {"text": text, "ids": ids, "decoded": processor.decode(ids)}


def gpt1(corpus, all_texts):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    tokenizer.train_from_iterator([corpus], trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False))
    tokenizer.save(str(TARGET / "gpt1.tokenizer.json"), pretty=False)
    for special in (False, True):
        tokenizer.encode_special_tokens = not special
        for text in all_texts:
            if special and "<unk>" not in text:
                continue
            ids = tokenizer.encode(text).ids
            decoded = tokenizer.decode(ids, skip_special_tokens=False)
            yield {"text": text, "special": special, "ids": ids, "decoded": decoded}


def ranks(corpus, all_texts):
    """Returns an arbitrary set of tokens, with ranks in order of length and frequency. Some tokens have parts that are
    not tokens."""
    counts = {}
    words = corpus.encode().split(b" ")
    for word in words[:8000]:
        for size in range(2, 7):
            for at in range(len(word) - size + 1):
                counts[word[at:at + size]] = counts.get(word[at:at + size], 0) + 1
    best = sorted(counts, key=lambda t: (-counts[t] * len(t), t))[:300]
    tokens = {bytes([b]): b for b in range(256)} | {t: 256 + i for i, t in enumerate(best)}
    (TARGET / "ranks.nanochat.tiktoken").write_text(
        "".join(f"{base64.b64encode(t).decode()} {i}\n" for t, i in tokens.items()))
    encoding = tiktoken.Encoding("ranks", pat_str=NANOCHAT, mergeable_ranks=tokens, special_tokens={})
    for text in all_texts:
        yield {"text": text, "ids": encoding.encode(text, disallowed_special=())}


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def digits(individual):
    return {"type": "Digits", "individual_digits": individual}


def known_pre_tokenizers():
    punctuation = {"type": "Punctuation", "behavior": "Contiguous"}
    return {
        "starcoder": [digits(True), byte_level(True)],
        "falcon": [punctuation, byte_level(True), digits(False), split("[0-9][0-9][0-9]")],
        "deepseek-coder": [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
                           digits(True), byte_level(False)],
        "deepseek-v3": [split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                        split(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
                              r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), byte_level(False)],
        "tekken": [split(r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
                         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
                         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), byte_level(False)],
        "bloom": [split(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"), byte_level(False)],
        "removed": [split(r"\s+", "Removed"), byte_level(True)],
        "inverted": [split(r"\p{L}+", "Removed", True), byte_level(False)],
        "previous": [split(r"\p{P}", "MergedWithPrevious"), byte_level(False)],
        "next": [split(" ", "MergedWithNext", kind="String"), byte_level(False)],
        "contiguous": [split(r"[\p{P}\s]", "Contiguous"), byte_level(False)],
        "lines": [split(r"^\s+|\S+$|(?<=[a-z])(?=[A-Z])\p{L}+|\p{Han}+|\P{L}"), byte_level(False)],
    }


def pre_tokenizer_rows(all_texts):
    new_letters = "\u1c89\ua7cb a\U00010d50\U00010d70 \U00011bf0\u180e"  # new letters of Unicode 16, a former space
    for name, steps in known_pre_tokenizers().items():
        pre_tokenizer = {"type": "Sequence", "pretokenizers": steps}
        tokenizer = Tokenizer(models.BPE())
        config = json.loads(tokenizer.to_str())
        config["pre_tokenizer"] = pre_tokenizer
        tokenizer = Tokenizer.from_str(json.dumps(config))
        cases = [[text, [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]]
                 for text in [*all_texts[:len(FIXED)], *all_texts[len(FIXED)::4], new_letters]]
        yield {"name": name, "pre_tokenizer": pre_tokenizer, "cases": cases}


def main():
    corpus = pathlib.Path(sys.argv[1]).read_text()[:60000]
    all_texts = texts(corpus)
    write("spm.jsonl", spm(corpus, all_texts))
    write("gpt1.jsonl", gpt1(corpus, all_texts))
    write("ranks.jsonl", ranks(corpus, all_texts))
    write("pre_tokenizers.jsonl", pre_tokenizer_rows(all_texts))


main()
