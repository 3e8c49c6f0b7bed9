#!/usr/bin/env python3
"""Writes tests/data/added_tokens.jsonl, spm_options.jsonl and folder_tokens.jsonl. They contain random cases of added tokens
in tokenizers, of SentencePiece models with various options, and of folders with files that add tokens.

    pip install tokenizers==0.23.3 transformers==5.24.0 sentencepiece==0.2.3 protobuf
    scripts/golden/make_added_tokens.py
"""

import io
import json
import os
import pathlib
import random
import tempfile

import sentencepiece
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel

os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import AutoTokenizer  # noqa: E402
from transformers.utils import logging  # noqa: E402

TARGET = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/data"
PARTS = ["a", "b", "c", "A", "<", ">", " ", "  ", "\n", "\u00e9", "e\u0301", "\u4e2d", "ab", "<a>", "_", "1", "."]
MERGES = ["a b", "\u0120 a", "< a", "b c", "\u0120 b"]
SPM_MERGES = [("a", "b"), ("\u2581", "a"), ("\u2581", "\u2581"), ("b", "c"), ("\u2581", "ab")]


def random_text(rnd, most, parts=PARTS):
    return "".join(rnd.choice(parts) for _ in range(rnd.randrange(1, most)))


def random_added(rnd, ascii_only):
    tokens = {}
    for _ in range(rnd.randrange(1, 7)):
        text = random_text(rnd, 4)
        if ascii_only and not text.isascii():
            continue
        tokens[text] = AddedToken(text, special=rnd.random() < 0.4, normalized=rnd.random() < 0.4, lstrip=rnd.random() < 0.3,
                                  rstrip=rnd.random() < 0.4, single_word=rnd.random() < 0.3)
    return list(tokens.values())


def byte_level(rnd, _=False):
    found = ByteLevel(add_prefix_space=False).pre_tokenize_str("".join(PARTS))
    letters = sorted(set("".join(piece for piece, _ in found)))
    vocab = {c: i for i, c in enumerate(letters)} | {m.replace(" ", ""): len(letters) + i for i, m in enumerate(MERGES)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(" ")) for m in MERGES]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if rnd.random() < 0.5:
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def spm_like(rnd, more=False):
    letters = ["<unk>", "<s>", *(f"<0x{i:02X}>" for i in range(256)), "\u2581", "a", "b", "c", "A", "<", ">", "_", "1"]
    vocab = {p: i for i, p in enumerate([*letters, *(left + right for left, right in SPM_MERGES)])}
    bytes_too = rnd.random() < 0.3
    if not bytes_too and not (more and rnd.random() < 0.5):
        vocab = {p: i for i, p in enumerate(p for p in vocab if not p.startswith("<0x"))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=SPM_MERGES, byte_fallback=bytes_too, unk_token="<unk>", fuse_unk=True))
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    kind = rnd.choice(["prepend", "replace", "first", "always", "never"])
    if kind in ("prepend", "replace"):
        first = [normalizers.Prepend("\u2581")] if kind == "prepend" else []
        tokenizer.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", "\u2581")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=kind, split=rnd.random() < 0.5)
    if kind in ("prepend", "first", "always"):
        steps.append(decoders.Strip(" ", 1, 0))
    if kind in ("first", "always") and not bytes_too and rnd.random() < 0.5:
        tokenizer.decoder = decoders.Metaspace(prepend_scheme=kind)
    else:
        if more and rnd.random() < 0.3:
            del steps[1]
        tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens([AddedToken(p, special=True, normalized=False) for p in ("<unk>", "<s>")])
    return tokenizer


def gpt1(*_):
    letters = ["<unk>", "a", "b", "c", "<", ">", "_", "1", ".", "e", "a</w>", "b</w>", "c</w>", "<</w>", "></w>", "_</w>", "1</w>", ".</w>",
               "e</w>", "\u4e2d</w>", "ab", "ab</w>"]
    tokenizer = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(letters)}, merges=[("a", "b"), ("a", "b</w>")], unk_token="<unk>",
                                     end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    tokenizer.add_special_tokens([AddedToken("<unk>", special=True, normalized=False)])
    return tokenizer


def added_rows():
    rnd = random.Random(46)
    for i in range(132):
        more = i >= 88  # the last rows have special tokens of single characters, and bytes that only a decoder knows
        make = (byte_level, spm_like, spm_like, gpt1)[i % 4]
        tokenizer = make(rnd, more)
        added = random_added(rnd, make is byte_level)
        for token in added:  # merges do not create special tokens
            is_character = more and make is spm_like and len(token.content) == 1
            token.special = token.special and (is_character or tokenizer.token_to_id(token.content) is None)
        tokenizer.add_tokens(added)
        cases = []
        for _ in range(20):
            text = random_text(rnd, 10)
            if added and rnd.random() < 0.8:
                text = "".join(rnd.choice([rnd.choice(added).content, text, " "]) for _ in range(rnd.randrange(2, 6)))
            encoded = []
            for special in (False, True):
                tokenizer.encode_special_tokens = not special
                encoded.append(tokenizer.encode(text, add_special_tokens=False).ids)
            ids = rnd.sample(encoded[1], len(encoded[1]))
            if more and tokenizer.token_to_id("<0x41>") is not None:
                ids += [tokenizer.token_to_id("<0x41>"), tokenizer.token_to_id("<0x0A>")]
            decoded = tokenizer.decode(ids, skip_special_tokens=False)
            keep = make is not gpt1 and "\ufffd" not in decoded
            cases.append([text, encoded[0], encoded[1] if encoded[1] != encoded[0] else None, ids if keep else None, decoded if keep else None])
        yield {"tokenizer": json.loads(tokenizer.to_str()), "cases": cases}


def spm_row(rnd, options, user, parts):
    corpus = ["a ab abc  a b", "the <a> cat", "  two blanks", "\u4e2d\u6587 e\u0301", "<a>b c_1."] * 20
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, model_type="bpe", vocab_size=320 if options["byte_fallback"] else 48,
        normalization_rule_name="identity", allow_whitespace_only_pieces=True, user_defined_symbols=user, minloglevel=2,
        character_coverage=1.0, hard_vocab_limit=False, **options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    control = [processor.bos_id(), processor.eos_id()]
    pieces = [processor.piece_to_id(piece) for piece in ("\u2581", "a", *user[1:])]
    cases = []
    for _ in range(30):
        text = random_text(rnd, 10, parts)
        ids = [rnd.randrange(processor.vocab_size()) if rnd.random() < 0.4 else rnd.choice([0, *pieces]) for _ in range(rnd.randrange(1, 8))]
        ids = [n for n in ids if n not in control]
        decoded = processor.decode(ids)
        cases.append([text, processor.encode(text), ids, decoded if "\ufffd" not in decoded else None])
    return {"model": model.getvalue().hex(), "json": len(user) == 1, "cases": cases}


def spm_rows():
    rnd = random.Random(47)
    for i in range(24):
        options = {"remove_extra_whitespaces": bool(i & 1), "add_dummy_prefix": bool(i & 2), "byte_fallback": bool(i & 4)}
        if i & 8:
            options["unk_surface"] = rnd.choice(["", "?", " <?> ", "\u2047"])
        # The last rows have user-defined tokens with spaces, which the normalizer keeps.
        user = ["<tool>"] if i < 16 else ["<tool>", "  ", *rnd.sample([" a", "b  c", "\u2581\u2581", "c ", "ab", "   "], 3)]
        yield spm_row(rnd, options, user, PARTS if i < 16 else [*PARTS, *user, " ", "  "])


def token_object(rnd, text, with_type=False):
    token = {"content": text, "lstrip": rnd.random() < 0.3, "rstrip": rnd.random() < 0.3, "normalized": rnd.random() < 0.3, "single_word": rnd.random() < 0.2,
             "special": rnd.random() < 0.6}
    return {"__type": "AddedToken", **token} if with_type else token


def random_files(rnd, size):
    """Returns the files next to a vocabulary of a given size, with a few tokens in some of the places that files allow.
    """
    texts = rnd.sample(["<|role|>", "<x>", "<pad>", "[INST]", "ab", "<|end|>", "  ", "<s>", "\u00e9<", "a b"], rnd.randrange(1, 6))
    config, files = {"tokenizer_class": "PreTrainedTokenizerFast"}, {}
    if rnd.random() < 0.6:
        config["added_tokens_decoder"] = {str(size + i): token_object(rnd, text) for i, text in enumerate(texts[:3])}
    for name in rnd.sample(["bos_token", "eos_token", "pad_token", "unk_token", "cls_token", "image_token"], rnd.randrange(0, 4)):
        text = rnd.choice(texts)
        config[name] = text if rnd.random() < 0.6 else token_object(rnd, text, True)
    if rnd.random() < 0.5:
        config[rnd.choice(["additional_special_tokens", "extra_special_tokens"])] = rnd.sample(texts, rnd.randrange(1, len(texts) + 1))
    elif rnd.random() < 0.3:
        config["extra_special_tokens"] = {"video_token": rnd.choice(texts), "audio_token": "<audio>"}
    if rnd.random() < 0.4:
        files["added_tokens.json"] = {text: size + i for i, text in enumerate(texts[::-1][:3])}
    if rnd.random() < 0.4:
        text = rnd.choice(texts)
        plain = {key: value for key, value in token_object(rnd, text).items() if key != "special"}
        files["special_tokens_map.json"] = {"sep_token": plain, "mask_token": "<mask>"}
        if rnd.random() < 0.5:
            files["special_tokens_map.json"]["additional_special_tokens"] = ["<|more|>", text]
    if rnd.random() < 0.8 or not files:
        files["tokenizer_config.json"] = config
    return files


def add_settings(rnd, base, files):
    """Adds settings of tokenizer classes, and tokens in places that few folders use."""
    config = files.get("tokenizer_config.json", {})
    classes = {"json": ["PreTrainedTokenizerFast", None], "vocab": ["GPT2Tokenizer", "GPT2TokenizerFast", None],
               "spm": ["PreTrainedTokenizerFast", None]}[base]
    config["tokenizer_class"] = rnd.choice(classes)
    if config["tokenizer_class"] is None:
        del config["tokenizer_class"]
    for key in ("add_bos_token", "add_eos_token"):
        if rnd.random() < 0.3:
            config[key] = rnd.random() < 0.7
    if rnd.random() < 0.3:
        config["model_specific_special_tokens"] = {"image_token": "<img>", "video_token": "<x>"}
    if rnd.random() < 0.1:
        config["bos_token"] = None
    special = files.get("special_tokens_map.json", {})
    if rnd.random() < 0.3:
        special["image_token"] = rnd.choice(["<|image|>", "<x>"])
    if rnd.random() < 0.2:
        special["extra_special_tokens"] = ["<|extra|>"] if rnd.random() < 0.5 else {"audio_token": "<audio>"}


def folder_rows():
    rnd = random.Random(48)
    logging.set_verbosity_error()
    json_file = (TARGET / "bpe.tokenizer.json").read_text()
    model = json.loads(json_file)["model"]
    merges = "#version: 0.2\n" + "".join((m if isinstance(m, str) else " ".join(m)) + "\n" for m in model["merges"])
    for i in range(180):
        base = ("json", "vocab", "spm")[i % 3]
        more = i >= 90  # the second half has more settings
        with tempfile.TemporaryDirectory() as folder:
            write = lambda name, text: pathlib.Path(folder, name).write_text(text)
            files = random_files(rnd, 600 if base == "spm" else len(model["vocab"]))
            end_of_text = {"<|endoftext|>": len(model["vocab"])} if not more or rnd.random() < 0.3 else {}
            if more:
                add_settings(rnd, base, files)
            if base == "json":
                write("tokenizer.json", json_file)
            elif base == "vocab":
                vocab = model["vocab"] | end_of_text
                if not more:
                    files.get("tokenizer_config.json", {})["tokenizer_class"] = "GPT2Tokenizer"
                decoder = files.get("tokenizer_config.json", {}).get("added_tokens_decoder")
                if decoder and end_of_text:
                    files["tokenizer_config.json"]["added_tokens_decoder"] = {str(int(n) + 1): t for n, t in decoder.items()}
                write("vocab.json", json.dumps(vocab))
                write("merges.txt", merges)
            else:
                pathlib.Path(folder, "tokenizer.model").write_bytes((TARGET / "spm.model").read_bytes())
            # transformers uses different rules for normalized named tokens of a SentencePiece model.
            named = [value for content in files.values() for key, value in content.items() if key.endswith("_token")]
            if base == "spm" and any(isinstance(value, dict) and value.get("normalized") for value in named):
                continue
            for name, content in files.items():
                write(name, json.dumps(content))
            files["config.json"] = {"model_type": "gpt2" if base == "vocab" else "llama"}
            write("config.json", json.dumps(files["config.json"]))
            try:
                tokenizer = AutoTokenizer.from_pretrained(folder)
            except Exception as error:  # pylint: disable=broad-except
                print(base, "is not read:", repr(error)[:120], files)
                continue
            added = [[n, t.content, t.special, t.lstrip, t.rstrip, t.single_word, t.normalized] for n, t in tokenizer.added_tokens_decoder.items()]
            texts = ["".join(rnd.choice([rnd.choice(added)[1], " ", "a", "b c", "<x", "\n"]) for _ in range(7)) for _ in range(6)]
            yield {"base": base, "files": files, "vocab": end_of_text, "size": len(tokenizer), "added": added, "ends": tokenizer.encode(""),
                   "cases": [[text, tokenizer.encode(text, add_special_tokens=False)] for text in texts]}


def write(name, rows):
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    (TARGET / name).write_text(text)
    print(name, len(text.splitlines()), "rows,", len(text), "bytes")


if __name__ == "__main__":
    write("added_tokens.jsonl", added_rows())
    write("spm_options.jsonl", spm_rows())
    write("folder_tokens.jsonl", folder_rows())
