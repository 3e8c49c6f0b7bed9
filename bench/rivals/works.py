"""What is compared: the shapes of both sides."""

import dataclasses

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Training:
    """PyTorch's shape, and the same as flags of `gpt bench`. One pair takes `repeat` timed steps of each side."""
    name: str
    flags: tuple
    shape: dict
    repeat: int
    dtypes: tuple = ("fp32", "bf16")


@dataclasses.dataclass(frozen=True)
class Inference:
    """A mode of `gpt bench` on a Llama shape; without `rival` only our share of the memory bandwidth is measured."""
    name: str
    mode: str
    preset: str
    dtypes: tuple
    rival: bool = True
    repeat: int = 3


@dataclasses.dataclass(frozen=True)
class Text:
    """Work on the documents of `text_corpus`: encoding them with GPT-2's vocabulary, or learning `vocab_size` tokens."""
    name: str
    rival: str
    vocab_size: int = 0
    threads: int = 0  # of both sides; 0: as given
    dtypes: tuple = ("",)


TRAININGS = (
    Training("train-mini-gpt", ("mini-gpt", "--batch-size", "16"),
             dict(vocab=256, ctx=256, width=384, layers=6, heads=6, batch=16, attention_bias=False, mlp_bias=True,
                  norm_bias=True, gelu="none"), repeat=5),
    Training("train-gpt2", ("gpt2", "--batch-size", "4", "--n-ctx", "256"),
             dict(vocab=50257, ctx=256, width=768, layers=12, heads=12, batch=4, attention_bias=True, mlp_bias=True,
                  norm_bias=True, gelu="tanh"), repeat=3),
    Training("train-small", ("nanogpt-cpu", "--vocab-size", "65", "--batch-size", "12"),
             dict(vocab=65, ctx=64, width=128, layers=4, heads=4, batch=12, attention_bias=False, mlp_bias=False,
                  norm_bias=False, gelu="none"), repeat=40),
)
INFERENCES = (
    Inference("decode", "decode", "llama-small", ("q8_0", "q4_0", "bf16")),
    Inference("prefill", "prefill", "llama-small", ("q8_0", "q4_0", "bf16")),
    Inference("batch", "batch", "llama-small", ("q8_0", "q4_0", "bf16")),
    Inference("decode-1b", "decode", "llama-1b", ("q8_0", "q4_0"), rival=False),
)
TEXTS = (
    Text("encode", "tiktoken", threads=1),
    Text("encode-threads", "tiktoken"),
    Text("train-bpe-32k", "rustbpe", vocab_size=32768),
    Text("train-bpe-64k", "rustbpe", vocab_size=65536),
)
WORKS = {work.name: work for work in TRAININGS + INFERENCES + TEXTS}

# GPT-4's pattern as rustbpe's regular expressions spell it; ours is --pattern gpt4.
GPT4_PATTERN = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
                r"|\s+(?!\S)|\s+")

LLAMA_SMALL = dict(vocab=50257, ctx=1024, width=768, layers=12, heads=12, kv_heads=12, d_ff=2048)
ROWS, SEQUENCES, TOKENS = 512, 16, 64

# ik_llama.cpp over llama-cpp-python 0.3.36 on the same files and machine, lowest and highest (tokens/s of each). The
# batch was measured with ik_llama.cpp alone: its quotient is over one sequence of llama-cpp-python.
IK_QUOTIENTS = {
    ("decode", "q8_0"): (172 / 116, 263 / 116),
    ("decode", "q4_0"): (277 / 154, 277 / 154),
    ("decode", "bf16"): (101 / 105, 101 / 105),
    ("prefill", "q8_0"): (1510 / 720, 1720 / 720),
    ("prefill", "bf16"): (1440 / 872, 1440 / 872),
    ("batch", "q8_0"): (506 / 116, 506 / 116),
}
