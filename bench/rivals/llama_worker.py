#!/usr/bin/env python3
"""Inference speed of llama-cpp-python on one model file, measured again for every line on standard input.

    llama_worker.py '{"shape": {"vocab": 50257, "width": 768, ...}, "dtype": "q8_0", "threads": 2, ...}'

Calls llama_decode through the low-level interface: decode, one sequence token by token from an empty cache; prefill,
one prompt with the logits of its last token; batch, many sequences in one call. The model has random weights and is
written first, if it is not there, all matrices in one type. Prints a JSON line when it is ready, and one for every
measurement. `compare` starts it.
"""

import json
import os
import statistics
import sys
import time

import gguf
import llama_cpp
import numpy as np


def matrices(shape):
    """Names and [out,in] of every matrix."""
    width, d_ff = shape["width"], shape["d_ff"]
    kv = width // shape["heads"] * shape["kv_heads"]
    yield "token_embd", shape["vocab"], width
    yield "output", shape["vocab"], width
    for layer in range(shape["layers"]):
        for name, rows, cols in (("attn_q", width, width), ("attn_k", kv, width), ("attn_v", kv, width),
                                 ("attn_output", width, width), ("ffn_gate", d_ff, width), ("ffn_up", d_ff, width),
                                 ("ffn_down", width, d_ff)):
            yield f"blk.{layer}.{name}", rows, cols


def write_model(path, shape, dtype):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(shape["ctx"])
    writer.add_embedding_length(shape["width"])
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(shape["d_ff"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["kv_heads"])
    writer.add_rope_dimension_count(shape["width"] // shape["heads"])
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(shape["vocab"])
    writer.add_tokenizer_model("none")
    random = np.random.default_rng(1)
    kind = gguf.GGMLQuantizationType[dtype.upper()]
    for name, rows, cols in matrices(shape):
        values = random.standard_normal((rows, cols), dtype=np.float32) * np.float32(0.02)
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    norms = [f"blk.{layer}.{name}" for layer in range(shape["layers"]) for name in ("attn_norm", "ffn_norm")]
    for name in [*norms, "output_norm"]:
        writer.add_tensor(f"{name}.weight", np.ones(shape["width"], dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def model_file(config):
    path = os.path.join(config["cache"], f"{config['name']}-{config['dtype']}.gguf")
    if not os.path.exists(path):
        os.makedirs(config["cache"], exist_ok=True)
        partial = f"{path}.{os.getpid()}"
        write_model(partial, config["shape"], config["dtype"])
        os.replace(partial, path)
    return path


class Bench:
    def __init__(self, config):
        self.config = config
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, None)
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(model_file(config).encode(), params)
        if not self.model:
            sys.exit("llama.cpp does not load the model that was written for it")
        self.contexts = {}
        self.ids = np.random.default_rng(2).integers(0, config["shape"]["vocab"], 1 << 16).tolist()

    def context(self, sequences, tokens):
        """One per shape, with its batch."""
        key = sequences, tokens
        if key not in self.contexts:
            params = llama_cpp.llama_context_default_params()
            params.n_seq_max = sequences
            params.n_ctx = sequences * max(tokens, 256)
            params.n_batch = params.n_ubatch = max(512, sequences)
            params.n_threads = params.n_threads_batch = self.config["threads"]
            context = llama_cpp.llama_init_from_model(self.model, params)
            self.contexts[key] = context, llama_cpp.llama_batch_init(max(sequences, tokens), 0, 1)
        return self.contexts[key]

    def append(self, context, batch, first, tokens, sequences):
        """`tokens` tokens from position `first` to every sequence, with the logits of the last one."""
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

    def run(self, sequences, tokens, step):
        """Tokens per second of one run from an empty cache."""
        context, batch = self.context(sequences, tokens)
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        start = time.perf_counter()
        for first in range(0, tokens, step):
            self.append(context, batch, first, step, sequences)
        return sequences * tokens / (time.perf_counter() - start)

    def median(self, *shape):
        return statistics.median([self.run(*shape) for _ in range(self.config["repeat"] + 1)][1:])

    def measure(self, mode):
        c = self.config
        if mode == "prefill":
            return {"tokens_per_second": self.median(1, c["rows"], c["rows"])}
        single = self.median(1, c["tokens"], 1)
        if mode == "decode":
            return {"tokens_per_second": single}
        return {"tokens_per_second": self.median(c["sequences"], c["tokens"], 1), "single": single}


def main():
    bench = Bench(json.loads(sys.argv[1]))
    print(json.dumps({"ready": f"llama-cpp-python {llama_cpp.__version__}"}), flush=True)
    for line in sys.stdin:
        print(json.dumps(bench.measure(line.strip())), flush=True)


if __name__ == "__main__":
    main()
