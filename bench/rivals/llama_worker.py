#!/usr/bin/env python3
"""Measures the inference speed of llama-cpp-python on one model file, once for every line of standard input.

    llama_worker.py '{"model": "llama-small-q8_0.gguf", "vocab": 50257, "threads": 2, "depth": 0, ...}'

Calls llama_decode through the low-level interface. decode: one sequence, token by token, after `depth` cached tokens.
prefill: one prompt, with the logits of its last token. batch: many sequences per call. Prints a JSON line when it is
ready, and one for every measurement. Started by `compare`.
"""

import json
import statistics
import sys
import time

import llama_cpp
import numpy as np

import works

BATCH = 512  # maximum tokens of a prompt per call


class Bench:
    def __init__(self, config):
        self.config = config
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, None)
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(config["model"].encode(), params)
        if not self.model:
            sys.exit("llama.cpp does not load the model that was written for it")
        self.contexts = {}
        self.ids = np.random.default_rng(2).integers(0, config["vocab"], 1 << 16).tolist()

    def context(self, sequences, tokens):
        """Returns the context and batch for a shape, creating them on first use."""
        key = sequences, tokens
        if key not in self.contexts:
            params = llama_cpp.llama_context_default_params()
            params.n_seq_max = sequences
            params.n_ctx = sequences * max(tokens, 256)
            params.n_batch = params.n_ubatch = max(BATCH, sequences)
            params.n_threads = params.n_threads_batch = self.config["threads"]
            context = llama_cpp.llama_init_from_model(self.model, params)
            self.contexts[key] = context, llama_cpp.llama_batch_init(max(sequences, BATCH), 0, 1)
        return self.contexts[key]

    def append(self, context, batch, first, tokens, sequences):
        """Appends `tokens` tokens from position `first` to every sequence, and computes the logits of the last one."""
        n = 0
        for sequence in range(sequences):
            for i in range(tokens):
                batch.token[n] = self.ids[(sequence * 997 + first + i) % len(self.ids)]
                batch.pos[n] = first + i
                batch.n_seq_id[n] = 1
                batch.seq_id[n][0] = sequence
                batch.logits[n] = i == tokens - 1
                n += 1
        batch.n_tokens = n
        if llama_cpp.llama_decode(context, batch) != 0:
            sys.exit("llama_decode failed")
        llama_cpp.llama_synchronize(context)

    def fill(self, context, batch, depth, sequences):
        """Fills the cache with `depth` tokens of every sequence. Keeps cached tokens of the previous run."""
        memory = llama_cpp.llama_get_memory(context)
        for sequence in range(sequences):
            llama_cpp.llama_memory_seq_rm(memory, sequence, depth, -1)
        for first in range(llama_cpp.llama_memory_seq_pos_max(memory, 0) + 1, depth, BATCH):
            self.append(context, batch, first, min(BATCH, depth - first), sequences)

    def run(self, sequences, tokens, step):
        """Returns the tokens per second of one run after the cached tokens."""
        depth = self.config["depth"]
        context, batch = self.context(sequences, depth + tokens)
        self.fill(context, batch, depth, sequences)
        start = time.perf_counter()
        for first in range(depth, depth + tokens, step):
            self.append(context, batch, first, min(step, depth + tokens - first), sequences)
        return sequences * tokens / (time.perf_counter() - start)

    def median(self, sequences, tokens, step):
        self.run(sequences, BATCH if tokens > works.LONG else tokens, step)  # warm-up, as in gpt bench
        return statistics.median([self.run(sequences, tokens, step) for _ in range(self.config["repeat"])])

    def measure(self, mode):
        c = self.config
        if mode == "prefill":
            return {"tokens_per_second": self.median(1, c["rows"], BATCH)}
        return {"tokens_per_second": self.median(c["sequences"] if mode == "batch" else 1, c["tokens"], 1)}


def main():
    bench = Bench(json.loads(sys.argv[1]))
    print(json.dumps({"ready": f"llama-cpp-python {llama_cpp.__version__}"}), flush=True)
    for line in sys.stdin:
        print(json.dumps(bench.measure(line.strip())), flush=True)


if __name__ == "__main__":
    main()
