"""Generates templates for make_jinja.py: every filter, test and attribute of Jinja with every kind of value, |safe with
every operation, undefined names in nested statements, and macros with every kind of parameter.
"""

import itertools

from jinja2.filters import FILTERS
from jinja2.tests import TESTS

# gpt refuses these filters by name, see check_names.cpp. They format text for people or for HTML pages.
REFUSED = {"filesizeformat", "pprint", "random", "striptags", "urlencode", "urlize", "wordwrap", "xmlattr"}

VALUES = {
    "text": "s", "safe": "('a<b'|safe)", "no_text": "empty", "int": "n", "float": "f", "bool": "t", "none": "nil", "list": "l", "rows": "rows",
    "tuple": "(1, 2)", "dict": "d", "view": "range(3)", "generator": "(l|map('string'))", "undefined": "missing",
    "group": "(rows|groupby('n'))[0]", "namespace": "namespace(a=1)", "function": "range",
}
ARGUMENTS = {
    "attr": ["'list'", "'name'"], "batch": ["2", "2, 'x'"], "default": ["'x'", "'x', true"], "groupby": ["'n'", "'name', default='z'"], "format": ["1"],
    "indent": ["2, true"], "join": ["'<'", "', ', attribute='name'"], "map": ["'upper'", "attribute='name'"], "max": ["attribute='n'"],
    "reject": ["'odd'"], "rejectattr": ["'n'", "'n', '==', 2"], "replace": ["'a', '<'", "'l', 'L', 1"], "round": ["1"], "select": ["'>', 1", "'string'"],
    "selectattr": ["'n', 'eq', 1"], "slice": ["2"], "sort": ["attribute='n'", "reverse=true"], "sum": ["attribute='n'"], "tojson": ["indent=1"],
    "trim": ["'H'"], "truncate": ["3, true, '<', 0", "8"], "unique": ["attribute='n'"], "int": ["5"], "float": ["5"], "center": ["8"],
}
TEST_ARGUMENTS = {"divisibleby": "2", "in": "[1, 2, 'a', s]", "sameas": "nil"}
COMPARING = ("eq", "==", "equalto", "ne", "!=", "lt", "<", "lessthan", "le", "<=", "gt", ">", "greaterthan", "ge", ">=")
# Kinds of values that gpt does not convert to text.
UNWRITTEN = ("view", "generator", "namespace", "function")
WRITING = {"capitalize", "center", "d", "default", "e", "escape", "forceescape", "format", "indent", "lower", "replace", "safe", "string", "title",
           "tojson", "trim", "truncate", "upper", "wordcount"}
OBJECTS = {"loop": ["index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0", "previtem", "nextitem", "nothing",
                    "changed(x > 1)", "cycle(1, 2)", "nothing()"],
           "m": ["name", "arguments", "catch_kwargs", "catch_varargs", "caller", "explicit_caller", "nothing", "_func"],
           "g": ["grouper", "list", "count(1)", "index(2)", "nothing", "list|length", "list[0].name"]}
PARAMETERS = ["", "a", "a, b=2", "caller=none", "kwargs, a=1", "varargs=3", "name"]
BODIES = ["{{ a }}{{ b }}", "{{ caller is defined }}{{ a }}", "{{ kwargs }}{{ a }}", "{{ varargs }}{{ a }}", "{{ caller() }}", "{{ varargs }}{{ kwargs|length }}",
          "{% set kwargs = 1 %}{{ kwargs }}", "{% for kwargs in l %}{{ kwargs }}{% endfor %}{{ kwargs }}", "{{ varargs[0] }}{% set varargs = 1 %}{{ name }}"]
CALLS = ["m()", "m(1)", "m(1, 2)", "m(1, 2, 3)", "m(a=1)", "m(1, a=2)", "m(q=1)", "m(*[1, 2, 3])", "m(**{'a': 4, 'z': 5})", "m(1, caller=5)"]
WRAPPERS = [
    "{% if no %}X{% endif %}", "{% if t %}X{% endif %}", "{% if t %}{% else %}X{% endif %}", "{% if t %}{% elif n %}X{% endif %}",
    "{% for x in l %}X{% endfor %}", "{% for x in missing %}X{% endfor %}", "{% for x in l %}{% else %}X{% endfor %}", "{% set y %}X{% endset %}{{ y }}",
    "{% macro m() %}X{% endmacro %}", "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}X{% endcall %}", "{% with y = 1 %}X{% endwith %}",
    "{% generation %}X{% endgeneration %}"]
LEAVES = [
    "{{ s|nothing }}", "{{ s is nothing }}", "{{ s|urlize if no else 1 }}", "{{ (s|nothing) if no else 1 }}", "{{ 1 if s is nothing else 2 }}", "{{ no and s|nothing }}",
    "{% set z = s|nothing %}", "{% if s|nothing %}{% endif %}", "{% for x in s|nothing %}{% endfor %}", "{% for x in l if x is nothing %}{% endfor %}", "{% with z = s|nothing %}{% endwith %}",
    "{% set z | nothing %}{% endset %}", "{% macro k(a=s|nothing) %}{% endmacro %}", "{{ {'a': 1 if t else s|nothing} }}", "{{ s|default(s|nothing) }}"]
TEXTS = ["'x<'", "('y>'|safe)", "('\\'&\"'|e)", "('<&'|forceescape)"]
SAFE = ["A + B", "A ~ B", "A + B + A", "A * 2", "2 * A", "[A, B]", "{A: B}", "A == B", "A in B", "A is escaped", "('%s|%r|%5s' % (B, B, B))|string + A", "A % ()", "(A + '%s') % B",
        "(A + '%(k)s') % {'k': B}", "(A + '{}{k}').format(B, k=B)", "A.join([B, A])", "A.join([1, B])", "[A, B]|join(B)", "A.replace('<', B)", "A|replace('<', B)", "A.upper() + B",
        "A|upper + B", "A.split('<') + [B]", "A.partition('<')", "A[0] + B", "A[::-1] + B", "A[0:1] + B", "A|first + B", "A|list", "A|reverse + B", "A|trim + B", "A.strip('<') + B",
        "A|title + B", "A.title() + B", "A|center(5) + B", "A.center(5) + B", "A.ljust(5, '.') + B", "A|indent(1, true) + B", "A|truncate(2, true, B, 0) + B", "A|truncate(2, false, '', 0) + B",
        "A|string + B", "A|default(1) + B", "A|format(B) + B", "A|tojson + B", "A|e + B", "A|safe + B", "A|forceescape + B", "A|length", "A|wordcount", "A.removeprefix('x') + B", "A.zfill(6) + B",
        "A.splitlines() + [B]", "[A]|map('upper')|list", "[A, B]|sort", "[A, B]|unique|list", "[A, B]|max + B", "[A]|first + B", "A|int", "A.format() + B", "'%s' % A + B", "'{}'.format(A) + B", "A.capitalize() + B",
        "A.swapcase() + B", "A|lower + B", "A|capitalize + B", "[A, B]|sum(start='')", "A|attr('upper') is defined"]


def filters():
    for name in sorted(FILTERS.keys() - REFUSED):
        for kind, value in VALUES.items():
            if kind in UNWRITTEN and name in WRITING:
                continue
            for arguments in ["", *(f"({a})" for a in ARGUMENTS.get(name, []))]:
                yield f"{value}|{name}{arguments}"


def tests():
    for name in sorted(TESTS):
        for kind, value in VALUES.items():
            if kind in UNWRITTEN and name in ("lower", "upper", *COMPARING):
                continue
            if name in COMPARING:
                for other in ("7", "'a'", "l"):
                    yield f"{value} is {name}({other})" if name[0].isalpha() else f"[{value}]|select('{name}', {other})|list|length"
            else:
                yield f"{value} is {name}{'(' + TEST_ARGUMENTS[name] + ')' if name in TEST_ARGUMENTS else ''}"


def safe():
    for operation, a, b in itertools.product(SAFE, TEXTS, TEXTS):
        if "B" in operation or b == TEXTS[0]:
            yield operation.replace("A", a).replace("B", b)


def expressions():
    """Yields the expressions with their group. The successful expressions of a group share one template."""
    yield from (("filter", e) for e in filters())
    yield from (("test", e) for e in tests())
    yield from (("safe", e) for e in safe())


def templates():
    for attribute in OBJECTS["loop"]:
        yield f"{{% for x in l %}}{{{{ loop.{attribute} }}}};{{% endfor %}}"
    for attribute in OBJECTS["g"]:
        yield f"{{% for g in rows|groupby('n') %}}{{{{ g.{attribute} }}}};{{% endfor %}}"
    yield "{% for g in rows|groupby('n') %}{{ g['list']|length }}{{ g['grouper'] }}{{ g }}{{ g[::-1] }}{{ g == (1, 2) }}{{ g + (1,) }}{{ (g + (1,)).list }};{% endfor %}"
    yield "{{ rows|groupby('n')|map(attribute='list')|map('length')|list }}{{ rows|groupby('n')|selectattr('grouper', 'eq', 2)|list }}{{ rows|groupby('n')|tojson }}"
    yield "{% macro outer() %}{{ inner.name }}{% endmacro %}{% macro inner() %}{% endmacro %}{{ outer() }}{{ outer.name }}{{ [outer][0].name }}"
    yield "{% macro m() %}{{ caller.name }}{{ caller.arguments }}{{ caller.caller }}{{ caller(1, 2, q=3) }}{% endmacro %}{% call(a) m() %}{{ a }}{{ varargs }}{{ kwargs }}{% endcall %}"
    for parameters, body in itertools.product(PARAMETERS, BODIES):
        macro = f"{{% macro m({parameters}) %}}{body}{{% endmacro %}}"
        yield macro + "".join(f"{{{{ m.{attribute} }}}}," for attribute in OBJECTS["m"])
        yield from (f"{macro}{{{{ {call} }}}}" for call in CALLS)
        yield f"{macro}{{% call(z=1) m(5) %}}<{{{{ z }}}}>{{% endcall %}}"
    for leaf in LEAVES:
        yield leaf
        yield from (outer.replace("X", leaf) for outer in WRAPPERS)
    for leaf, outer, inner in itertools.product(LEAVES[:2], WRAPPERS, WRAPPERS):
        yield outer.replace("X", inner.replace("X", leaf))
