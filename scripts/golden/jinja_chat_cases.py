"""Chat templates for make_jinja.py: published templates of models with free licenses, and templates in a similar style.
"""

import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/data/chat_templates"
TEMPLATES = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.jinja"))}

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a place, \"now\" <b>&amp;",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "A city: 東京"},
        "unit": {"type": "string", "enum": ["C", "F"], "description": "of temperatures"},
        "days": {"type": "array", "items": {"type": "integer"}}}, "required": ["place"]},
    "return": {"type": "object", "properties": {"temp": {"type": "number"}}}}}
SIMPLE = {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, number="call00001"):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def context(messages, tools=None, generate=False, **more):
    return {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": generate,
            "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", **more}


def contexts():
    user, assistant = {"role": "user", "content": " What is 2 + 2?\n"}, {"role": "assistant", "content": "  It's <b>4</b>. "}
    system = {"role": "system", "content": "You are \"brief\".\n"}
    again, answer = {"role": "user", "content": "中文 👍🏽\n\n<|im_end|>"}, {"role": "assistant", "content": "é\ttab"}
    thought = {"role": "assistant", "content": "<think>\nhm, two\n</think>\n\nFour", "reasoning_content": None}
    reasoned = {"role": "assistant", "content": "Four", "reasoning_content": "two and\ntwo", "thinking": "t"}
    called = {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"place": "Köln", "days": [1, 2], "x": 1.5})]}
    twice = {"role": "assistant", "content": "Let me look.", "tool_calls": [
        call("now", {}), call("get_weather", {"place": "a \"b\"", "deep": {"k": [True, None]}}, "call00002")]}
    textual = {"role": "assistant", "content": None, "tool_calls": [call("get_weather", "{\"place\": \"Bonn\"}")]}
    result = {"role": "tool", "name": "get_weather", "content": "{\"temp\": 21.5}", "tool_call_id": "call00001"}
    other = {"role": "tool", "name": "now", "content": "noon", "tool_call_id": "call00002"}
    parts = {"role": "user", "content": [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]}
    return {
        "turn": context([user], generate=True),
        "turn and answer": context([user, assistant]),
        "system": context([system, user, assistant, again], generate=True),
        "system, whole": context([system, user, assistant, again, answer]),
        "system only": context([system], generate=True),
        "two users": context([user, again], generate=True),
        "no messages": context([]),
        "odd role": context([{"role": "narrator", "content": "x"}, user], generate=True),
        "parts": context([parts, assistant, user], generate=True),
        "thought": context([user, thought, again, reasoned, user], generate=True),
        "reasoned": context([system, user, reasoned]),
        "no thinking": context([user], generate=True, enable_thinking=False),
        "tools": context([system, user], [WEATHER, SIMPLE], True),
        "tools, no system": context([user], [WEATHER], True),
        "tool call": context([user, called], [WEATHER]),
        "tool result": context([system, user, called, result], [WEATHER], True),
        "tools, whole": context([user, called, result, assistant, again, twice, other, result, answer], [WEATHER, SIMPLE]),
        "textual arguments": context([user, textual, result], [WEATHER], True),
        "empty tools": context([user, answer], [], True),
    }
