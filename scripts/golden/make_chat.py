#!/usr/bin/env python3
"""Writes tests/data/chat.tokenizer.json, chat.jsonl, chat_options.jsonl and responses.jsonl: conversations as encoded by transformers.

    pip install transformers==5.23.0 tokenizers==0.23.3
    scripts/golden/make_chat.py

The templates are those of src/text/chat_formats.cpp. The tokenizer is the small BPE of tests/data with the special tokens
of all formats. A response (responses.jsonl) is defined as in TRL. It starts at the first id of the conversation that
differs from the prompt rendered with add_generation_prompt, but here it ends with its end token.
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


# Templates that keep, trim or rewrite the content. They read texts, lists of parts, or both.
PREFIX = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
SUFFIX = "{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
PARTS = "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}"
OPTION_TEMPLATES = {
    "plain": PREFIX + "{{ m.content }}" + SUFFIX,
    "blank": "{{ '<s>' }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content + ' </s>' }}{% endif %}{% endfor %}",
    "trim": PREFIX + "{{ m.content|trim }}{{ ' ' }}" + SUFFIX,
    "newline": PREFIX + "{{ m.content.strip() + '\\n' }}" + SUFFIX,
    "think": PREFIX + "{{ m.content.split('</think>')[-1].lstrip('\\n') }}" + SUFFIX,
    "upper": PREFIX + "{{ m.content|upper }}" + SUFFIX,
    "drop": PREFIX + "{{ m.content if m.role == 'user' else '' }}" + SUFFIX,
    "both": PREFIX + "{% if m.content is string %}{{ m.content }}{% else %}" + PARTS + "{% endif %}" + SUFFIX,
    "parts": PREFIX + PARTS + SUFFIX,
}
SAID = ["Par", "Par ", " Par", "Par\n", "", "a <|im_end|> b", "<think>x</think>\n\nPar", "Hello, world! \n"]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
NAMED = {"default": OPTION_TEMPLATES["plain"], "tool_use": "{{ tools|length }}" + OPTION_TEMPLATES["trim"], "rag": "no"}


def part_list(text):
    half = len(text) // 2
    return [{"type": "text", "text": text[:half]}, {"type": "text", "text": text[half:]}]


def option_rows(fast):
    def ids_of(messages, **options):
        try:
            return fast.apply_chat_template(messages, return_dict=False, **options)
        except Exception:  # pylint: disable=broad-except
            return None

    def ids_of_parts(name, messages, **options):
        """Converts the content to the kind that the template reads. Parts are joined with newlines."""
        joined = lambda c: "\n".join(part["text"] for part in c)
        if name not in ("both", "parts"):
            messages = [m | {"content": m["content"] if isinstance(m["content"], str) else joined(m["content"])} for m in messages]
        if name == "parts":
            messages = [m | {"content": [{"type": "text", "text": m["content"]}] if isinstance(m["content"], str) else m["content"]} for m in messages]
        return ids_of(messages, **options)

    for name, jinja in OPTION_TEMPLATES.items():
        fast.chat_template = jinja
        for said in SAID:
            for content in (said, part_list(said)):
                messages = [{"role": "user", "content": part_list("Hi there")}, {"role": "assistant", "content": content}]
                for more in ({"continue_final_message": True}, {}):
                    # gpt never encodes special tokens in user text, so texts with "<|" cannot be compared. The template
                    # "upper" changes all parts, but the word "start" contains an unchanged part.
                    if name == "upper" and more and content != said:
                        continue
                    if "<|" not in said and (more or name != "drop"):
                        yield {"templates": name, "conversation": {"messages": messages}, "continue": bool(more),
                               "ids": ids_of_parts(name, messages, **more)}
    fast.chat_template = NAMED
    messages = [{"role": "user", "content": " Hi "}]
    for tools in (None, TOOLS, []):
        yield {"templates": "named", "conversation": {"messages": messages, "tools": tools}, "continue": False, "ids": ids_of(messages, tools=tools)}


def chatml(head="", content="m.content", tail="", turn="", asked=""):
    return ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{{ '" + turn + head + "' + " + content
            + " + '" + tail + "<|im_end|>\\n' }}{% else %}{{ m.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n" + asked + "' }}{% endif %}")


# Templates by their effect on a response, and their end tokens.
RESPONSE_TEMPLATES = {
    "plain": (chatml(), "<|im_end|>"),
    "trims": (chatml(content="(m.content | trim)"), "<|im_end|>"),
    "line end": (chatml(content="m.content.strip()", tail="\\n"), "<|im_end|>"),
    "think block": (chatml(head="<think>\\n\\n</think>\\n\\n"), "<|im_end|>"),
    "prompt thinks": (chatml(turn="<think>\\n", head="no</think>", asked="<think>\\n"), "<|im_end|>"),
    "prompt alone thinks": (chatml(asked="<think>\\n"), "<|im_end|>"),
    "spaces": ("{{ '<s>' }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}{% else %}"
               "{{ ' ' + m.content + ' </s>' }}{% endif %}{% endfor %}", "</s>"),
    "space in front": ("{{ '<s>' }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST] ' }}{% else %}"
                       "{{ m.content | trim + '</s>' }}{% endif %}{% endfor %}", "</s>"),
}
RESPONSE_FILES = {"qwen2_5": "<|im_end|>", "qwen3": "<|im_end|>", "qwen3_training": "<|im_end|>", "style_llama3_1": "<|eot_id|>",
                  "style_mistral": "</s>", "zephyr": "</s>"}


def responses(tokenizer):
    templates = dict(RESPONSE_TEMPLATES)
    for name, end in RESPONSE_FILES.items():
        templates[name] = ((DATA / f"chat_templates/{name}.jinja").read_text(), end)
    for name, (jinja, end) in templates.items():
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token=end, chat_template=jinja)
        yield {"template": name, "jinja": jinja if name in RESPONSE_TEMPLATES else None}
        for turns in (1, 3):
            for response in ("yes", " two  spaces ", "\n\nlines\n", "12345\t"):
                messages = []
                for turn in range(turns):
                    messages += [{"role": "user", "content": f"Question {turn}?"}, {"role": "assistant", "content": f" Answer {turn}.\n"}]
                messages[-1]["content"] = response
                prompt = fast.apply_chat_template(messages[:-1], add_generation_prompt=True, return_dict=False)
                ids = fast.apply_chat_template(messages, return_dict=False)
                begin = next((i for i, (x, y) in enumerate(zip(prompt, ids)) if x != y), min(len(prompt), len(ids)))
                ids = ids[:ids.index(fast.eos_token_id, begin) + 1]
                yield {"messages": messages, "begin": begin, "ids": ids}


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
    unique = {json.dumps(row): None for row in rows}  # variants of a template may produce the same row
    (DATA / "chat.jsonl").write_text("".join(row + "\n" for row in unique))
    print(len(unique), "conversations")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<|im_end|>")
    templates = {name: {"default": jinja} for name, jinja in OPTION_TEMPLATES.items()} | {"named": NAMED}
    options = [json.dumps(row) for row in [templates, *option_rows(fast)]]
    (DATA / "chat_options.jsonl").write_text("".join(row + "\n" for row in options))
    print(len(options) - 1, "conversations with options")
    rows = list(responses(tokenizer))
    (DATA / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(sum("ids" in row for row in rows), "responses")


if __name__ == "__main__":
    main()
