#!/usr/bin/env python3
"""Writes tests/data/python: the results of Python, PyYAML and datasets for random texts.

    make_python_text.py tests/data/python

Python 3.11 (Unicode 14), PyYAML 6.0, datasets 5.2 with pyarrow 26. Each file is one JSON list:
  yaml.json       [text, value] for dumps of random strings in every style, and [text, null] if PyYAML fails
  regex.json      [pattern, [text, ...], [[findall, sub], ...]], or [pattern, [], null] if re.compile fails
  case.json       [text, lower, upper, title, capitalize, swapcase, Jinja's title]
  documents.json  [lines, rows], with datetimes as {"datetime": [str, repr]}
"""
import datetime
import json
import os
import random
import re
import sys
import tempfile
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.simplefilter("ignore")
R = random.Random(46)
OUT = sys.argv[1]


def write(name, rows):
    with open(f"{OUT}/{name}", "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows) + "\n]\n")


# -------------------------------------------------------------------------------------------------------- YAML
WORDS = ["a", "word", " ", "  ", "\n", "\n\n", "\n\n\n", "é", "😀", "'", '"', "\\", "#", ": ", "- ", "|", ">", "?", "!", "&",
         "*", "%", "{", "]", ",", "\t", "0", "12", "1.5", "yes", "null", "012", "1:30", "<<", "---", "..."]


def yaml_text():
    return "".join(R.choice(WORDS) for _ in range(R.choice([0, 1, 1, 2, 3, 5, 9])))


def block_scalar():
    head = R.choice(["a: ", "a:\n  b: ", "- ", "- - ", "a:\n- ", "a: &x "])
    style = R.choice(["|", ">", "|-", "|+", ">-", ">+", "|2", "|2-", "|2+", ">1", "|-2", "| # c", '"', "'"])
    body = "".join(R.choice(["text", "more words", "  deep", "\n", "\n  ", "\n    ", "\n\n", " ", "é", "''"])
                   for _ in range(R.randrange(9)))
    if style in "\"'":
        return head + style + body.replace("''", "''" if style == "'" else "\\n") + style + R.choice(["", "\n", "\nb: 2\n"])
    return head + style + "\n" + R.choice(["  ", "    "]) + body + R.choice(["", "\n", "\nb: 2\n", "\n\n\nz: 1\n", "\n# c\n"])


def yaml_cases():
    import yaml
    rows = [["fewshot_delimiter: \"\n\n  \"", {"fewshot_delimiter": "\n"}]]
    for width in (10, 80):
        for style in (None, "'", '"', "|", ">"):
            for flow in (False, True):
                for _ in range(12):
                    value = {"k": yaml_text(), "l": [yaml_text()]}
                    rows.append([yaml.safe_dump(value, default_style=style, default_flow_style=flow, width=width,
                                                allow_unicode=R.random() < .5), value])
    for delimiter in ("\n\n", "\n", "a\n\n", "\n\n\n ", " \n", "a\n \nb\n"):
        rows.append([yaml.safe_dump({"fewshot_delimiter": delimiter}), {"fewshot_delimiter": delimiter}])
    for _ in range(250):
        text = block_scalar()
        try:
            rows.append([text, yaml.safe_load(text)])
        except yaml.YAMLError:
            rows.append([text, None])
    return rows[1:]


# ------------------------------------------------------------------------------------------- regular expressions
ATOMS = ["a", "b", "A", "é", "É", "ß", "σ", "ς", "ı", "i", "I", "ſ", "s", "K", "1", "٣", "_", " ", "\\n", "\\d", "\\w", "\\s", "\\D",
         "\\W", "\\S", "\\b", "\\B", "^", "$", "\\A", "\\Z", ".", "-", "{", "}", "]", "{a", "a}", "a{", "\\.", "\\x41", "\\u00e9", "\\0",
         "\\101", "😀", "\\x1c"]
ODD = ["\\z", "\\e", "\\h", "\\R", "\\p{L}", "\\Q", "\\K", "\\G", "\\X", "\\400", "(?i)", "(?P>n)", "(?R)", "(*FAIL)", "[[:alpha:]]",
       "(?|a|b)", "\\g{1}", "\\1", "(?P=n)", "(?(1)a|b)", "(?#c)", "a**", "(?", "[", "[]", "[z-a]", "[a-\\d]"]
TEXTS = ["a", "b", "A", "ab", "é", "É", "ß", "ẞ", "σ", "ς", "Σ", "ı", "i", "I", "İ", "ſ", "s", "K", "1", "12", "٣", "²", "_", " ", "\n",
         "\t", "\x1c", "\x1f", "\x85", "\xa0", "\u2028", "-", "{", "}", "]", "[", ":", "a{", "😀", "$", "aa", "\u0301", "{,2}", "alpha:]"]


def char_class():
    members = ["a", "b", "é", "a-z", "A-Z", "0-9", "\\d", "\\w", "\\s", "\\W", "\\D", "\\S", "-", "[", "[:alpha:]", "\\]", "\\b", "\\n",
               "&&", "^", "$", "\\x1c-\\x1f", "ı", "ß-ÿ", "α-ω", "😀", "_", "k"]
    return "[" + ("^" if R.random() < .3 else "") + "".join(R.choice(members) for _ in range(R.randrange(1, 4))) + "]"


def atom(depth):
    chance = R.random()
    if chance < .03:
        return R.choice(ODD)
    if chance < .2:
        return char_class()
    if depth < 3 and chance < .45:
        return R.choice(["(", "(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?P<n>", "(?>", "(?i:", "(?s:", "(?m:", "(?a:",
                         "(?-i:", "(?x:", "(?(1)"]) + alternatives(depth + 1) + ")"
    return R.choice(ATOMS)


def quantifier():
    return R.choice(["*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "{,}", "{0}"]) + R.choice(["", "", "", "?", "+"])


def alternatives(depth):
    lengths = [0, 1, 1, 2, 2, 3] if depth else [1, 2, 3]
    return "|".join("".join(atom(depth) + (quantifier() if R.random() < .3 else "") for _ in range(R.choice(lengths)))
                    for _ in range(R.choice([1, 1, 2])))


def regex_cases():
    rows, failed = [], 0
    while len(rows) < 1100:
        flags = R.choice(["(?i)", "(?i)", "(?s)", "(?m)", "(?x)", "(?a)", "(?ai)"]) if R.random() < .3 else ""
        pattern = flags + alternatives(0)
        try:
            compiled = re.compile(pattern)
        except (re.error, OverflowError):
            failed += 1
            if failed <= 250:
                rows.append([pattern, [], None])
            continue
        texts = ["".join(R.choice(TEXTS) for _ in range(R.choice([0, 2, 6]))) for _ in range(3)]
        try:
            results = [[[[m] if isinstance(m, str) else list(m) for m in compiled.findall(t)], compiled.sub("", t)]
                       for t in texts]
        except SystemError:  # a bug of Python
            continue
        rows.append([pattern, texts, results])
    return rows


# -------------------------------------------------------------------------------------------------- letter case
def case_cases():
    from jinja2 import Environment
    title = Environment().from_string("{{ x|title }}")
    letters = ["a", "B", "ß", "ẞ", "İ", "ı", "Σ", "ΑΣ", "σ", "ς", "ŉ", "ǆ", "ǅ", "Ǆ", "ﬁ", "ﬅ", "ᾳ", "ᾼ", "ΐ", "ⅷ", "Ⅷ", "ⓐ", "Ⓐ", "ª", "ʰ", "ͅ",
               ".", "'", "’", ":", " ", "-", "(", "\u0301", "\xad", "1", "é", "É", "և", "ა", "Ა", "Ꭰ", "ꭰ", "𐐀", "𐐨", "日", "😀"]
    texts = letters + ["".join(R.choice(letters) for _ in range(R.randrange(2, 9))) for _ in range(250)]
    return [[t, t.lower(), t.upper(), t.title(), t.capitalize(), t.swapcase(), title.render(x=t)] for t in texts]


# ------------------------------------------------------------------------------------------------------ documents
SCALARS = [1, 2, -7, 0, 2.5, -0.5, 1e5, True, False, None, "x", "", "12", "true", "2024-01-02", "2024-02-29", "2023-02-29",
           "2024-01-02 03:04:05", "2024-01-02T03:04:05Z", "2024-01-02T23:30:00-01:30", "2024-01-02T03", "03:04:05", "2024-01",
           "2024-01-02 03:04:05.5", 2**53 + 1, 2**63 - 1, 2**63]


# Integers beyond 64 bits and negative zeros, which random columns do not contain.
NUMBERS = [["1" + "0" * 30], ["1" + "0" * 30, "2"], ["18446744073709551615"], ["18446744073709551616", "1.5"],
           ["-9223372036854775809", "0.5"], ["-9223372036854775809"], ["123456789012345678901234567890", "null"],
           ["[123456789012345678901234567890, 0.5]"], ['{"b": 123456789012345678901234567890}', '{"b": 0.5}'],
           ["-0.0"], ["-0.0", "1"], ["9007199254740993", "0.5"], ['"x"', "9223372036854775808"], ['"x"', "1e22"]]


def column():
    kind = R.randrange(9)
    values = R.choice([SCALARS, [1, 2, -3, None], [1, 2.5, None], ["2024-01-02", "2024-03-04 05:06:07", None],
                       ["2024-01-02", "x"], ["a", "b", None], [True, None]])

    def one():
        return R.choice(values)
    if kind < 4:
        return one
    if kind < 6:  # without nulls, because pyarrow 26 then reads lists of dates as texts or loses rows
        values = [v for v in values if v is not None]
        return lambda: R.choice([None, [], [one()], [one(), one()]])
    if kind < 8:
        keys = R.sample(["p", "q", "r"], 2)
        return lambda: None if R.random() < .1 else {k: one() for k in (keys if R.random() < .5 else keys[::-1])}
    return lambda: {k: one() for k in R.sample(["p", "q"], R.randrange(3))}


def plain(value):
    if isinstance(value, datetime.datetime):
        return {"datetime": [str(value), repr(value)]}
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list) else value


def document_cases():
    import datasets
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(60)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        numbers = [[f'{{"a": {value}}}' for value in values] for values in NUMBERS]
        while len(rows) < 220 + len(NUMBERS):
            columns = {name: column() for name in R.sample(["b", "a", "c"], R.choice([1, 1, 2]))}
            docs = [{name: make() for name, make in columns.items() if R.random() < .9} for _ in range(R.randrange(1, 5))]
            lines = numbers.pop(0) if len(rows) >= 220 else [json.dumps(doc) for doc in docs]
            path = f"{folder}/{len(rows)}-{R.random()}.jsonl"
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            try:
                read = datasets.load_dataset("json", data_files=path, split="train", cache_dir=f"{folder}/cache")
                rows.append([lines, [plain(row) for row in read]])
            except Exception:  # all rows are empty
                continue
    return rows


os.makedirs(OUT, exist_ok=True)
write("case.json", case_cases())
write("regex.json", regex_cases())
write("yaml.json", yaml_cases())
write("documents.json", document_cases())
