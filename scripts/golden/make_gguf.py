#!/usr/bin/env python3
"""Creates tests/data/quants.gguf and the corpus of the GGUF fuzzer with the reference package.   make_gguf.py ROOT

Versions: gguf 0.19.0, numpy 2.
For every quantized type T that kernels support, quants.gguf has a tensor "T.blocks" of random bytes with finite scales,
and an fp32 tensor "T.values" with the same quantization blocks dequantized by gguf.quants.
"""
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

TYPES = [T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL]
SCALES = {T.Q4_1: [0, 2], T.Q5_1: [0, 2], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208]}  # fp16 scales; default [0]


def random_blocks(rng, dtype, rows, elements):
    size, stride = gguf.GGML_QUANT_SIZES[dtype]
    blocks = rng.integers(0, 256, (rows, elements // size, stride), dtype=np.uint8)
    for at in SCALES.get(dtype, [0]):
        scale = rng.normal(size=blocks.shape[:2]).astype(np.float16)
        blocks[..., at : at + 2] = scale[..., None].view(np.uint8)
    return blocks.reshape(rows, -1)


def write_quants(path, rows, elements):
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "quants")
    for dtype in TYPES:
        blocks = random_blocks(rng, dtype, rows, elements)
        writer.add_tensor(f"{dtype.name}.blocks", blocks, raw_dtype=dtype)
        writer.add_tensor(f"{dtype.name}.values", gguf.quants.dequantize(blocks, dtype).astype(np.float32))
    finish(writer)


def write_small(path, alignment=None):
    writer = gguf.GGUFWriter(path, "llama")
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_context_length(8)
    writer.add_token_list(["<s>", "a", "b"])
    writer.add_token_scores([0.0, -1.0, -2.0])
    writer.add_token_types([3, 1, 1])
    writer.add_bos_token_id(0)
    writer.add_bool("general.flag", True)
    writer.add_float64("general.number", 0.5)
    writer.add_tensor("token_embd.weight", np.arange(12, dtype=np.float32).reshape(3, 4))
    writer.add_tensor("output.weight", np.zeros((2, 34), dtype=np.uint8), raw_dtype=T.Q8_0)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    root = Path(sys.argv[1])
    write_quants(root / "tests/data/quants.gguf", 2, 512)
    write_small(root / "fuzz/corpus/gguf/small")
    write_small(root / "fuzz/corpus/gguf/aligned", 64)
    if len(sys.argv) > 2:  # a larger file, for extensive comparisons
        write_quants(sys.argv[2], 2000, 1024)
