"""The workloads of `compare`, with the shapes for both sides."""

import dataclasses

MIB = 1 << 20
LONG = 8192  # runs with more tokens take minutes; a warm-up would not make them faster


@dataclasses.dataclass(frozen=True)
class Training:
    """A shape for PyTorch, and the same shape as flags of `gpt bench`. Each pair times `repeat` steps per side."""
    name: str
    flags: tuple
    shape: dict
    repeat: int
    dtypes: tuple = ("fp32", "bf16")
    minutes: int = 0  # per pair on two Zen 4 cores; 0: less than one
    named_only: bool = False  # excluded from "everything" because of its time or disk space

    def about(self):
        return f"a step of {self.shape['batch']} x {self.shape['ctx']} tokens, gpt bench {' '.join(self.flags)}"


@dataclasses.dataclass(frozen=True)
class Inference:
    """A mode of `gpt bench` on a Llama shape. Weights are random: each side has its own weights in its own layout, or both
    read the same GGUF file. Without `rival`, only the share of memory bandwidth of gpt is measured."""
    name: str
    mode: str
    shape: str
    dtypes: tuple
    from_file: bool = False
    depth: int = 0  # tokens in the KV cache before the measurement
    rows: int = 512
    tokens: int = 64
    sequences: int = 16
    rival: bool = True
    repeat: int = 3
    minutes: int = 0
    named_only: bool = False

    def about(self):
        what = {"decode": f"{self.tokens} tokens", "prefill": f"a prompt of {self.rows}",
                "batch": f"{self.sequences} sequences of {self.tokens} tokens"}[self.mode]
        behind = f" behind {self.depth} cached ones" if self.depth else ""
        return f"{model_of(self.shape) if self.from_file else self.shape}: {what}{behind}"


@dataclasses.dataclass(frozen=True)
class Text:
    """A workload on the documents of `text_corpus`: encode them with GPT-2's vocabulary, or train `vocab_size` tokens."""
    name: str
    rival: str
    vocab_size: int = 0
    threads: int = 0  # for both sides; 0: value of --threads
    fresh: bool = False  # use a newly created tokenizer for each measurement
    dtypes: tuple = ("",)
    minutes: int = 0
    named_only: bool = False

    def about(self):
        if self.vocab_size:
            return f"learning {self.vocab_size} tokens, {self.rival}"
        return f"{'one thread' if self.threads else 'all threads'}, {self.rival}{', first pass' if self.fresh else ''}"


TRAININGS = (
    Training("train-mini-gpt", ("mini-gpt", "--batch-size", "16"),
             dict(vocab=256, ctx=256, width=384, layers=6, heads=6, batch=16, attention_bias=False, mlp_bias=True,
                  norm_bias=True, gelu="none"), repeat=5),
    Training("train-gpt2", ("gpt2", "--batch-size", "4", "--n-ctx", "256"),
             dict(vocab=50257, ctx=256, width=768, layers=12, heads=12, batch=4, attention_bias=True, mlp_bias=True,
                  norm_bias=True, gelu="tanh"), repeat=3, minutes=1),
    Training("train-small", ("nanogpt-cpu", "--vocab-size", "65", "--batch-size", "12"),
             dict(vocab=65, ctx=64, width=128, layers=4, heads=4, batch=12, attention_bias=False, mlp_bias=False,
                  norm_bias=False, gelu="none"), repeat=40),
)
FILE_TYPES = ("q8_0", "q6_k", "q5_k", "q4_k_m", "q4_0", "iq4_nl")
INFERENCES = (
    Inference("decode", "decode", "llama-small", ("q8_0", "q4_0", "bf16")),
    Inference("prefill", "prefill", "llama-small", ("q8_0", "q4_0", "bf16")),
    Inference("batch", "batch", "llama-small", ("q8_0", "q4_0", "bf16")),
    Inference("batch-64", "batch", "llama-small", ("q8_0",), sequences=64),
    Inference("decode-1b", "decode", "llama-1b", ("q8_0", "q4_0"), rival=False),
    Inference("decode-file", "decode", "llama-1b", FILE_TYPES, from_file=True),
    Inference("prefill-file", "prefill", "llama-1b", FILE_TYPES, from_file=True, repeat=2),
    Inference("decode-file-3b", "decode", "llama-3b", ("q4_k_m",), from_file=True, named_only=True),
    Inference("decode-file-8b", "decode", "llama-8b", ("q4_k_m",), from_file=True, tokens=32, named_only=True),
    Inference("decode-4k", "decode", "llama-1b", ("q8_0",), from_file=True, depth=4096, tokens=32, repeat=2, minutes=2),
    Inference("decode-16k", "decode", "llama-1b", ("q8_0",), from_file=True, depth=16384, repeat=1, minutes=9,
              named_only=True),
    Inference("decode-32k", "decode", "llama-1b", ("q8_0",), from_file=True, depth=32768, repeat=1, minutes=19,
              named_only=True),
    Inference("prefill-32k", "prefill", "llama-1b", ("q8_0",), from_file=True, rows=32768, repeat=1, minutes=19,
              named_only=True),
)
TEXTS = (
    Text("encode", "tiktoken", threads=1),
    Text("encode-threads", "tiktoken"),
    Text("encode-fastokens", "fastokens", threads=1),
    Text("encode-fastokens-fresh", "fastokens", threads=1, fresh=True),
    Text("encode-fastokens-threads", "fastokens"),
    Text("encode-fastokens-threads-fresh", "fastokens", fresh=True),
    Text("train-bpe-32k", "rustbpe", vocab_size=32768),
    Text("train-bpe-64k", "rustbpe", vocab_size=65536),
)
WORKS = {work.name: work for work in TRAININGS + INFERENCES + TEXTS}

# GPT-4's pattern in the regular expression syntax of rustbpe. It corresponds to --pattern gpt4 of this
# project.
GPT4_PATTERN = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
                r"|\s+(?!\S)|\s+")

SHAPES = {
    "llama-small": dict(vocab=50257, ctx=1024, width=768, layers=12, heads=12, kv_heads=12, d_ff=2048),
    "llama-1b": dict(vocab=32000, ctx=65536, width=2048, layers=16, heads=32, kv_heads=8, d_ff=8192),
    "llama-3b": dict(vocab=32000, ctx=8192, width=3072, layers=28, heads=24, kv_heads=8, d_ff=8192),
    "llama-8b": dict(vocab=32000, ctx=8192, width=4096, layers=32, heads=32, kv_heads=8, d_ff=14336),
}


def model_of(name):
    """Describes the GGUF file of a shape. The gpt preset of the same name may have a different shape."""
    s = SHAPES[name]
    attention = 2 * s["width"] * s["width"] * (1 + s["kv_heads"] / s["heads"])
    parameters = s["layers"] * (attention + 3 * s["width"] * s["d_ff"]) + 2 * s["vocab"] * s["width"]
    return f"GGUF file of a {parameters / 1e9:.1f}B Llama, vocabulary {s['vocab']:,}"
