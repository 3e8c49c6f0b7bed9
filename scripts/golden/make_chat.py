#!/usr/bin/env python3
"""Writes tests/data/chat.tokenizer.json and chat.jsonl: what transformers makes of conversations.

    pip install transformers==5.23.0 tokenizers==0.23.3
    scripts/golden/make_chat.py

The templates are those of src/text/chat_formats.cpp; the tokenizer is the small BPE of tests/data with the special
tokens of all formats.
"""

import json
import pathlib
import re

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests/data"
SPECIAL = ["<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>", "<|im_start|>",
           "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<s>", "</s>"]
TOKENS = {"llama3": ("<|begin_of_text|>", "<|eot_id|>"), "llama2": ("<s>", "</s>")}
CONTENTS = ["Hello, world!", "  two  spaces\n\n\tand tab \n", "", "\u00a0\u3000x\u2028", "line\nline\r\n", "e\u0301 中文 👍🏽",
            "[INST] no [/INST] <<SYS>>", "it's 12345"]


def conversations():
    for system in (None, "You are brief.", " \n "):
        for turns in range(1, 5):
            messages = [] if system is None else [{"role": "system", "content": system}]
            for i in range(turns):
                messages.append({"role": "assistant" if i % 2 else "user",
                                 "content": CONTENTS[(turns * 3 + i + len(messages)) % len(CONTENTS)]})
            yield messages


def main():
    tokenizer = Tokenizer.from_file(str(DATA / "bpe.tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    (DATA / "chat.tokenizer.json").write_text(tokenizer.to_str())
    source = (ROOT / "src/text/chat_formats.cpp").read_text()
    rows = []
    for name, jinja in re.findall(r'\{ChatFormat::(\w+),\s*"[^{]*\{[^}]*\},\s*R"\((.*?)\)"\}', source, re.S):
        bos, eos = TOKENS.get(name, ("<|bos|>", "<|im_end|>"))
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, eos_token=eos, chat_template=jinja)
        for messages in conversations():
            for generate in (False, True):
                ids = fast.apply_chat_template(messages, add_generation_prompt=generate, return_dict=False)
                rows.append({"format": name, "messages": messages, "generate": generate, "ids": ids})
    unique = {json.dumps(row): None for row in rows}  # variants of a template write the same
    (DATA / "chat.jsonl").write_text("".join(row + "\n" for row in unique))
    print(len(unique), "conversations")


if __name__ == "__main__":
    main()
