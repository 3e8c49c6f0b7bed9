#!/usr/bin/env python3
"""Writes a GGUF file of a Llama shape with random weights:   gguf_file.py PATH TYPES '{"vocab": 32000, "width": 2048, ...}'

TYPES is a GGUF dtype for all matrices (bf16, q8_0, q6_k, iq4_nl, ...), or q4_k_m, the mixture of llama.cpp: Q4_K, with Q6_K for
the output matrix and for half of the layers' attn_v and ffn_down. Quantization blocks contain random bits, with scales that keep
activations finite, because the speed only depends on sizes. Called by `compare`.
"""

import json
import sys

import gguf
import numpy as np

TYPE = gguf.GGMLQuantizationType
# Offsets of the fp16 scales in a quantization block, and the largest value that each scale is multiplied by.
SCALES = {TYPE.Q8_0: {0: 127}, TYPE.Q4_0: {0: 8}, TYPE.IQ4_NL: {0: 127}, TYPE.Q4_K: {0: 15 * 63, 2: 2 * 63},
          TYPE.Q5_K: {0: 31 * 63, 2: 63}, TYPE.Q6_K: {208: 32 * 127}}


def matrix(random, rows, cols, kind):
    if kind not in SCALES:
        return gguf.quants.quantize(random.standard_normal((rows, cols), dtype=np.float32) * np.float32(0.02), kind)
    values, size = gguf.GGML_QUANT_SIZES[kind]
    data = random.integers(0, 256, (rows, cols // values, size), dtype=np.uint8)
    for at, largest in SCALES[kind].items():
        data[:, :, at:at + 2] = np.frombuffer(np.float16(0.06 / largest).tobytes(), dtype=np.uint8)
    return data.reshape(rows, -1)


def is_wide(layer, layers):
    """True if q4_k_m uses six bits in this layer: the first and last eighth of the layers, and every third layer in between."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def matrices(shape, types):
    """Yields the name, shape [out,in] and dtype of every matrix."""
    mixed = types == "q4_k_m"
    plain = TYPE.Q4_K if mixed else TYPE[types.upper()]
    width, d_ff, layers = shape["width"], shape["d_ff"], shape["layers"]
    kv = width // shape["heads"] * shape["kv_heads"]
    yield "token_embd", shape["vocab"], width, plain
    yield "output", shape["vocab"], width, TYPE.Q6_K if mixed else plain
    for layer in range(layers):
        for name, rows, cols in (("attn_q", width, width), ("attn_k", kv, width), ("attn_v", kv, width), ("attn_output", width, width),
                                 ("ffn_gate", d_ff, width), ("ffn_up", d_ff, width), ("ffn_down", width, d_ff)):
            wide = mixed and name in ("attn_v", "ffn_down") and is_wide(layer, layers)
            yield f"blk.{layer}.{name}", rows, cols, TYPE.Q6_K if wide else plain


def write(path, types, shape):
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
    for name, rows, cols, kind in matrices(shape, types):
        writer.add_tensor(f"{name}.weight", matrix(random, rows, cols, kind), raw_dtype=kind)
    norms = [f"blk.{layer}.{name}" for layer in range(shape["layers"]) for name in ("attn_norm", "ffn_norm")]
    for name in [*norms, "output_norm"]:
        writer.add_tensor(f"{name}.weight", np.ones(shape["width"], dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
