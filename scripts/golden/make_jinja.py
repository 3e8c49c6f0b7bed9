#!/usr/bin/env python3
"""Writes tests/data/jinja.json: the output of Jinja for templates, with the settings of transformers.

    pip install transformers==5.23.0 jinja2==3.1.6
    scripts/golden/make_jinja.py

The clock is set to 12:30 on 1 January 2025. The file contains contexts by name, templates, and for each case a context,
a template and the resulting text. The text is null if Jinja or the template fails.
"""

import datetime
import json
import pathlib

from transformers.utils import chat_template_utils

import jinja_cases
import jinja_chat_cases
import jinja_product

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def strftime_then(format):
    return datetime.datetime(2025, 1, 1, 12, 30).strftime(format)


def rendered(template, context):
    try:
        compiled = chat_template_utils._cached_compile_jinja_template(template)
        compiled.globals["strftime_now"] = strftime_then
        return compiled.render(**json.loads(json.dumps(context)))
    except Exception:
        return None


def language_cases():
    for line in jinja_cases.EXPRESSIONS.strip().split("\n"):
        yield from ((f"{{{{ {part} }}}}") for part in parts_of(line))
    yield from (f"{{{{ {line} }}}}" for line in jinja_cases.FAILING.strip().split("\n"))
    yield from jinja_cases.MALFORMED
    yield from jinja_cases.TEMPLATES


def product_cases():
    """Returns pairs of template and text. Successful expressions of a group share templates of 25; each failing one is
    alone."""
    works = {}
    for group, expression in dict.fromkeys(jinja_product.expressions()):
        for template in (f"{{{{ {expression} }}}}", f"{{{{ ({expression})|list }}}}"):
            text = rendered(template, jinja_cases.CONTEXT)
            if text is None or not (" at 0x" in text or text.startswith(("range(", "<class"))):
                break
        else:
            continue
        if text is None:
            yield template, None
        else:
            works.setdefault(group, []).append(template)
    for group in works.values():
        for at in range(0, len(group), 25):
            template = "\n".join(group[at:at + 25])
            yield template, rendered(template, jinja_cases.CONTEXT)
    for template in dict.fromkeys(jinja_product.templates()):
        yield template, rendered(template, jinja_cases.CONTEXT)


def parts_of(line):
    """Yields the expressions of a line, which are separated by commas outside of brackets and quotes."""
    part, depth, quote = "", 0, ""
    for i, c in enumerate(line):
        if quote:
            quote = "" if c == quote and line[i - 1] != "\\" else quote
        elif c in "'\"":
            quote = c
        depth += 0 if quote else (c in "([{") - (c in ")]}")
        if c == "," and depth == 0 and not quote:
            yield part.strip()
            part = ""
        else:
            part += c
    yield part.strip()


def main():
    contexts = {"language": jinja_cases.CONTEXT, **jinja_chat_cases.contexts()}
    cases = [["language", template, rendered(template, jinja_cases.CONTEXT)] for template in language_cases()]
    cases += (["language", template, text] for template, text in product_cases())
    for template in jinja_chat_cases.TEMPLATES.values():
        for name, context in jinja_chat_cases.contexts().items():
            cases.append([name, template, rendered(template, context)])
    templates = list(dict.fromkeys(template for _, template, _ in cases))
    rows = [[context, templates.index(template), output] for context, template, output in cases]
    with open(ROOT / "tests/data/jinja.json", "w", encoding="utf-8") as out:
        out.write('{"contexts": ' + json.dumps(contexts) + ',\n"templates": [\n')
        out.write(",\n".join(json.dumps(t) for t in templates) + '],\n"cases": [\n')
        out.write(",\n".join(json.dumps(row) for row in rows) + "]}\n")
    print(len(rows), "cases,", sum(row[2] is None for row in rows), "of them fail")


if __name__ == "__main__":
    main()
