#!/usr/bin/env python3
"""Writes one small tokenizer of each family and its ids into tests/data: spm.*, gpt1.*, ranks.*

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
    """Any set of tokens will do: ranks in order of length and frequency, some of whose parts are no tokens."""
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


def main():
    corpus = pathlib.Path(sys.argv[1]).read_text()[:60000]
    all_texts = texts(corpus)
    write("spm.jsonl", spm(corpus, all_texts))
    write("gpt1.jsonl", gpt1(corpus, all_texts))
    write("ranks.jsonl", ranks(corpus, all_texts))


main()
