#!/usr/bin/env python3
"""Measures the speed of tiktoken, fastokens or rustbpe on a file of documents, once for every line of standard input.

    text_worker.py '{"rival": "tiktoken", "documents": FILE, "vocab": FOLDER, "threads": 1}'
    text_worker.py '{"rival": "fastokens", "documents": FILE, "vocab": FOLDER, "threads": 2}'
    text_worker.py '{"rival": "rustbpe", "documents": FILE, "vocab_size": 32768, "pattern": "...", "threads": 2}'

Each document in the file is terminated by a zero byte. The documents are loaded as strings before a measurement starts.
tiktoken and fastokens encode them with GPT-2's vocabulary to lists of ids, one document at a time, or all in one call with
several threads. For a line "fresh", they use a newly created tokenizer. rustbpe trains merges on the documents. `sum` is the
checksum of bench/text/encode_worker.cpp. Prints a JSON line when it is ready, and one for every measurement. Started by
`compare`.
"""

import functools
import json
import os
import pathlib
import sys
import time

SPECIAL = "<|endoftext|>"


PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


class Tiktoken:
    def __init__(self, folder, threads):
        import tiktoken
        self.about = f"tiktoken {tiktoken.__version__}"
        keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
        byte_of = {chr(byte): byte for byte in keep}
        rest = [byte for byte in range(256) if byte not in keep]
        byte_of.update({chr(256 + i): byte for i, byte in enumerate(rest)})
        vocab = json.loads((folder / "vocab.json").read_text())
        special = {SPECIAL: vocab.pop(SPECIAL)}
        ranks = {bytes(byte_of[c] for c in token): rank for token, rank in vocab.items()}
        self.encoding = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special)
        self.threads = threads

    def encode(self, texts):
        if self.threads > 1:
            return self.encoding.encode_ordinary_batch(texts, num_threads=self.threads)
        return [self.encoding.encode_ordinary(text) for text in texts]


class Fastokens:
    def __init__(self, folder, threads):
        import fastokens
        import importlib.metadata
        self.about = f"fastokens {importlib.metadata.version('fastokens')}"
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        merges = (folder / "merges.txt").read_text().splitlines()
        model = {"type": "BPE", "vocab": json.loads((folder / "vocab.json").read_text()),
                 "merges": [line for line in merges if not line.startswith("#version")]}
        self.tokenizer = fastokens.Tokenizer.from_json_str(json.dumps(
            {"version": "1.0", "added_tokens": [], "pre_tokenizer": byte_level, "decoder": byte_level, "model": model}))
        self.threads = threads

    def encode(self, texts):
        if self.threads > 1:
            return [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]
        return [self.tokenizer.encode(text).ids for text in texts]


def sum_of(ids):
    return functools.reduce(lambda h, i: (h * 31 + i + 1) % (2**61 - 1), (i for text in ids for i in text), 0)


class Encode:
    def __init__(self, config, texts):
        kind = {"tiktoken": Tiktoken, "fastokens": Fastokens}[config["rival"]]
        self.make = lambda: kind(pathlib.Path(config["vocab"]), config["threads"])
        self.tokenizer, self.texts = self.make(), texts
        self.about = self.tokenizer.about

    def measure(self, fresh):
        if fresh:
            self.tokenizer = self.make()
        start = time.perf_counter()
        ids = self.tokenizer.encode(self.texts)
        seconds = time.perf_counter() - start
        return seconds, {"ids": sum(map(len, ids)), "sum": sum_of(ids)}


class Train:
    def __init__(self, config, texts):
        import importlib.metadata
        import rustbpe
        self.about = f"rustbpe {importlib.metadata.version('rustbpe')}"
        self.make, self.config, self.texts = rustbpe.Tokenizer, config, texts

    def measure(self, _):
        tokenizer = self.make()
        start = time.perf_counter()
        tokenizer.train_from_iterator(iter(self.texts), self.config["vocab_size"], pattern=self.config["pattern"])
        return time.perf_counter() - start, {"vocab_size": tokenizer.vocab_size}


def main():
    config = json.loads(sys.argv[1])
    for variable in ("RAYON_NUM_THREADS", "FASTOKENS_BPE_THREADS"):  # read before the first parallel work
        os.environ[variable] = str(config["threads"])
    data = pathlib.Path(config["documents"]).read_bytes()
    texts = [text.decode() for text in data.split(b"\0")[:-1]]
    megabytes = (len(data) - len(texts)) / 1e6
    work = (Train if config["rival"] == "rustbpe" else Encode)(config, texts)
    print(json.dumps({"ready": work.about, "documents": len(texts)}), flush=True)
    for line in sys.stdin:
        seconds, more = work.measure(line.strip() == "fresh")
        print(json.dumps({"megabytes_per_second": megabytes / seconds, "seconds": seconds, **more}), flush=True)


if __name__ == "__main__":
    main()
