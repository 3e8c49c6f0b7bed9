#!/usr/bin/env python3
"""Speed of tiktoken or rustbpe on a file of documents, measured again for every line on standard input.

    text_worker.py '{"rival": "tiktoken", "documents": FILE, "vocab": FOLDER, "threads": 1}'
    text_worker.py '{"rival": "rustbpe", "documents": FILE, "vocab_size": 32768, "pattern": "...", "threads": 2}'

The documents, each ended by a zero byte, are in memory as strings before the clock starts. tiktoken encodes them with
GPT-2's vocabulary, one encode_ordinary after the other (with several threads: encode_ordinary_batch); rustbpe learns
merges from them. `sum` is that of bench/text/encode_worker.cpp. Prints a JSON line when it is ready, and one for every
measurement. `compare` starts it.
"""

import functools
import json
import os
import pathlib
import sys
import time

SPECIAL = "<|endoftext|>"


def gpt2(folder):
    import tiktoken
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(byte): byte for byte in keep}
    rest = [byte for byte in range(256) if byte not in keep]
    byte_of.update({chr(256 + i): byte for i, byte in enumerate(rest)})
    vocab = json.loads((pathlib.Path(folder) / "vocab.json").read_text())
    special = {SPECIAL: vocab.pop(SPECIAL)}
    ranks = {bytes(byte_of[c] for c in token): rank for token, rank in vocab.items()}
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    return tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def sum_of(ids):
    return functools.reduce(lambda h, i: (h * 31 + i + 1) % (2**61 - 1), (i for text in ids for i in text), 0)


class Encode:
    def __init__(self, config, texts):
        import tiktoken
        self.about = f"tiktoken {tiktoken.__version__}"
        self.encoding, self.texts, self.threads = gpt2(config["vocab"]), texts, config["threads"]
        self.sum = None

    def measure(self):
        start = time.perf_counter()
        if self.threads == 1:
            ids = [self.encoding.encode_ordinary(text) for text in self.texts]
        else:
            ids = self.encoding.encode_ordinary_batch(self.texts, num_threads=self.threads)
        seconds = time.perf_counter() - start
        self.sum = self.sum or sum_of(ids)
        return seconds, {"ids": sum(map(len, ids)), "sum": self.sum}


class Train:
    def __init__(self, config, texts):
        import importlib.metadata
        import rustbpe
        self.about = f"rustbpe {importlib.metadata.version('rustbpe')}"
        self.make, self.config, self.texts = rustbpe.Tokenizer, config, texts

    def measure(self):
        tokenizer = self.make()
        start = time.perf_counter()
        tokenizer.train_from_iterator(iter(self.texts), self.config["vocab_size"], pattern=self.config["pattern"])
        return time.perf_counter() - start, {"vocab_size": tokenizer.vocab_size}


def main():
    config = json.loads(sys.argv[1])
    os.environ["RAYON_NUM_THREADS"] = str(config["threads"])  # read when the first work is done in parallel
    data = pathlib.Path(config["documents"]).read_bytes()
    texts = [text.decode() for text in data.split(b"\0")[:-1]]
    megabytes = (len(data) - len(texts)) / 1e6
    work = {"tiktoken": Encode, "rustbpe": Train}[config["rival"]](config, texts)
    print(json.dumps({"ready": work.about, "documents": len(texts)}), flush=True)
    for _ in sys.stdin:
        seconds, more = work.measure()
        print(json.dumps({"megabytes_per_second": megabytes / seconds, "seconds": seconds, **more}), flush=True)


if __name__ == "__main__":
    main()
