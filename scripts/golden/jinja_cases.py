"""Templates for make_jinja.py: single expressions and statements of Jinja."""

CONTEXT = {
    "s": "Hello, World", "blank": "  a b\t\n", "u": "Ünïcode ß 中文 👍🏽 e\u0301", "empty": "", "quote": "it's \"q\"\n\\",
    "n": 7, "m": -3, "z": 0, "f": 2.5, "big": 1e20, "small": 1e-7, "t": True, "no": False, "nil": None,
    "l": [3, 1, 2], "words": ["banana", "Apple", "cherry", "apple"], "nested": [[1, 2], [3, [4]]], "none_list": [],
    "d": {"b": 1, "a": [1, 2.0, None, True], "items": "own", "x y": "z"},
    "rows": [{"name": "b", "n": 2, "in": {"k": "p"}}, {"name": "A", "n": 1, "in": {"k": "q"}}, {"name": "c", "n": 2}],
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": " U "},
                 {"role": "assistant", "content": "A"}],
}

EXPRESSIONS = r"""
1 + 2 * 3 - 4
(1 + 2) * 3
7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 % -3, 7.5 // 2, -7.5 % 2, 7 / 2, 6 / 3
2 ** 3 ** 2, -2 ** 2, 2 ** -1, 2 ** 0.5
n / 2, n // 2, n % 2, -n, +n, - -n
1.0, 1e3, 1e16, 123456789012345680.0, 0.1 + 0.2, 1e-5, 12_345, 1.5e-3
big, small, big * 10, small / 10, f
1 / 3, 2 / 3, 100000 / 3
true + 1, true == 1, 1 == 1.0, none == false, "1" == 1, [1] == (1,), [1, 2] == [1, 2.0]
1 < 2 < 3, 1 < 3 < 2, 3 > 2 >= 2, "a" < "b", "a" < "B", [1, 2] < [1, 3], (1,) < (1, 2)
not true, not none, not "", not [0], not 0.0, not {}
true and 0, 1 and "x", "" or "y", none or 0, not 1 == 2
"a" if t else "b", "a" if no else "b", ("a" if no), "a" if no else "b" if no else "c"
1 in l, 9 in l, "ell" in s, "z" not in s, "b" in d, 1 in d, not 1 in l, 3 not in [1]
s ~ n ~ f ~ t ~ nil ~ l ~ d, 1 ~ 2 + 3, "a" ~ "b" * 2
"x" * 3, [1] * 2, 2 * "ab", "x" * -1
s + "!" + u, l + [4], (1,) + (2,)
l, (), (1,), (1, 2), [], {}, {"a": 1, 'b': [none, true]}, {1: 2, none: 3, true: 4, 1.5: 5}
[s, quote, "\t\x01\x7f é \u2028 \xa0 \u200b"], nested, d
'a\'b', "a\"b", 'tab\there', '\x41\u00e9\U0001F600\101', 'unknown\q', "new\nline", 'a' 'b' "c"
l[0], l[-1], l[5], l[1:], l[:-1], l[::2], l[::-1], l[5:], l[-2:], l[1:2], l[2:0:-1], l[:], l[-9:9], l[True]
s[0], s[-1], s[99], s[1:4], s[::-1], s[:-3], s[::3], u[0], u[8:10], u[-1], u[::-1], u[::2]
(1, 2, 3)[1], (1, 2, 3)[::2], "abc"[1], [1, 2].0, l.0, [[1]].0.0
d.b, d["b"], d.a[1], d["a"][-1], d["items"], d.missing, d["missing"], d['x y']
d.items()|list, d.keys()|list, d.values()|list, d.get("b"), d.get("q"), d.get("q", 5), d.get("b", 5), d|length
missing, missing is defined, s is defined, d.q is defined, d.b is defined, missing is undefined
n is odd, n is even, n is divisibleby 7, n is divisibleby(2), s is string, n is string, n is number, t is number
t is boolean, n is boolean, n is integer, f is float, f is integer, t is integer, nil is none, no is none
l is sequence, s is sequence, d is sequence, d is mapping, l is mapping, l is iterable, n is iterable, missing is iterable
"a" is lower, "A" is upper, "aB" is lower, "1" is upper, t is true, no is false, 1 is true, n is eq 7, n is ne(7)
n is gt 3, n is ge 7, n is lt 3, n is le 7, n is greaterthan 3, n is equalto 7, n == 7 is true, 2 is in l, s is sameas s
nil is sameas none, 1 is sameas true, range is callable, s is callable, "upper" is filter, "odd" is test, "x" is filter
n is not odd, n is not none, not n is odd, missing is not defined and true, missing is defined or 3, n is in [7] and t
-n|abs, -3|abs, (-3)|abs, f|abs, 2.5|round, 3.5|round, 2.675|round(2), 2.4|round(0, "ceil"), 2.6|round(method="floor")
1234.567|round(-2), 15|round(-1), 7|round, "3"|int + 1, "x"|int, "x"|int(9), "3.9"|int, 3.9|int, -3.9|int, true|int, " 4 "|int
"1_000"|int, none|int, "1e3"|int, "2.5"|float, "x"|float, "x"|float(1.5), 3|float, "inf"|int(5)
s|upper, s|lower, "hello wORLD foo-bar (baz)"|title, "hELLO wORLD"|capitalize, u|upper, u|lower, "ab cd's x1y"|title
blank|trim, "xxaxx"|trim("x"), blank|trim|length, s|length, u|length, l|count, "  x "|trim ~ "|"
s|replace("o", "0"), s|replace("o", "0", 1), "aaa"|replace("a", "b", 2), "ab"|replace("", "-"), 12321|replace(2, "x")
l|join, l|join(", "), words|join("|"), rows|join("+", attribute="name"), [1, none, true, "a"]|join("-"), s|join(".")
l|first, l|last, s|first, s|last, [] | first, [] | last, d|first, missing|first
l|sort, words|sort, words|sort(case_sensitive=true), l|sort(reverse=true), rows[:2]|sort(attribute="n,name"), rows|map(attribute="in.k.z", default="none")|join(",")
rows|sort(attribute="name")|map(attribute="name")|list, rows|sort(attribute="n", reverse=true)|map(attribute="name")|join
l|sum, rows|sum(attribute="n"), [1.5, 2]|sum, []|sum, []|sum(start=3), l|sum(start=10)
l|min, l|max, words|min, words|max, words|max(case_sensitive=true), rows|max(attribute="n"), []|max
words|unique|list, [1, 1.0, true, 2]|unique|list, words|unique(case_sensitive=true)|list, rows|unique(attribute="n")|list|length
l|map("string")|list, words|map("upper")|join(","), words|map("replace", "a", "x")|list, rows|map(attribute="in.k")|list
rows|map(attribute="in.k", default="none")|join(","), rows|map(attribute="zz", default=0)|sum, nested|map(attribute=0)|list
l|select("odd")|list, l|reject("odd")|list, [0, 1, "", "a"]|select|list, [0, 1]|reject|list, l|select("gt", 1)|list
rows|selectattr("n", "equalto", 2)|map(attribute="name")|list, rows|rejectattr("n", "eq", 2)|list, rows|selectattr("in")|list|length
rows|selectattr("in", "defined")|list|length, messages|selectattr("role", "equalto", "user")|list, rows|rejectattr("in")|list
messages|selectattr("role", "in", ["user", "system"])|map(attribute="content")|join("/"), messages|map(attribute="role")|list
l|list, s|list, d|list, l|reverse|list, s|reverse, (1, 2)|list, range(3)|list, range(1, 7, 2)|list, range(3, 0, -1)|list, range(0)|list
range(5)|sum, range(3)[1], range(3)|length, 2 in range(3), range(2, 4)|first
d|items|list, missing|items|list, {"b": 1, "A": 2}|dictsort, {"b": 1, "A": 2}|dictsort(true), {"b": 1, "A": 2}|dictsort(by="value")
{"b": 1, "a": 2}|dictsort(reverse=true), {"b": 1, "a": 2}|dictsort(false, "value", true)
missing|default("x"), missing|default, s|default("x"), ""|default("x"), ""|default("x", true), nil|default("x"), nil|d("x", true)
missing.a|default(1) if false else 2, d.q|default("none"), no|default("y", boolean=true)
l|tojson, d|tojson, u|tojson, quote|tojson, nil|tojson, t|tojson, f|tojson, big|tojson, small|tojson, {1: 2, none: [], true: {}}|tojson
d|tojson(indent=2), l|tojson(indent=4), {}|tojson(indent=2), nested|tojson(indent=1), u|tojson(ensure_ascii=true), "\x7f\x01/"|tojson
d|tojson(separators=(",", ":")), {"b": 1, "a": 2}|tojson(sort_keys=true), d|tojson(indent=2, separators=(" ,", "="))
"a\nb\n\nc"|indent, "a\nb"|indent(2), "a\nb"|indent(2, true), "a\n\nb"|indent(2, false, true), "a\nb\n"|indent(width=1), "a\nb"|indent("> ")
"abc"|center(9), "ab"|center(5), "%s-%s"|format(1, "x"), "%(a)s %(b)d"|format(a=1, b=2), "%05.1f|%-4s|%3d|%+d|%%"|format(2.25, "a", 5, 3)
"%s" % 5, "%s %s" % (1, "b"), "%d%%" % 50, "%r" % "x", "%.3f" % 1, "%x|" % 255 if false else "-", "%5s|" % "ab", "%.2s|" % "abc"
"a b c d e f"|truncate(8), "a b c d e f g h i j"|truncate(9, true), "abcdef"|truncate(3, true, "", 0), s|truncate(5, end="~")
[1, 2, 3, 4, 5]|batch(2)|list, [1, 2, 3]|batch(2, "x")|list, [1, 2, 3, 4, 5]|slice(2)|list, [1, 2, 3]|slice(2, 0)|list
"a b  c-d"|wordcount, u|wordcount, 5|string ~ 6, l|string, nil|string|length, f|string
rows|groupby("n")|length, rows|groupby("n")|map("first")|list, rows|groupby("n")|map("last")|map("length")|list
s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase(), u.upper(), "they're x1y".title()
blank.strip() ~ "|", blank.lstrip() ~ "|", blank.rstrip() ~ "|", "xyaxy".strip("xy"), "xya".lstrip("xy"), "axy".rstrip("yx"), "\u3000a\u2028".strip()
s.split(), s.split(","), s.split(", "), "a,b,,c".split(","), "a,b,c".split(",", 1), " a  b ".split(), " a  b c ".split(none, 1), "".split(), "".split(",")
"a b c".rsplit(" ", 1), "a-b-c".rsplit("-"), "abc".rsplit("x", 2), "a\nb\r\nc\n".splitlines(), "a\nb".splitlines(true), "".splitlines()
s.startswith("Hell"), s.endswith("x"), s.startswith(("x", "He")), s.startswith("World", 7), s.endswith("Hello", 0, 5), s.startswith("")
s.find("o"), s.find("o", 5), s.find("zz"), s.rfind("o"), u.find("中"), s.index("W"), s.count("l"), s.count("l", 5), "aaa".count("aa"), s.count("")
s.replace("l", "L"), s.replace("l", "L", 1), "abc".replace("", "-"), "abc".replace("", "-", 2), "-".join(["a", "b"]), "".join([]), ", ".join(d)
"a=b=c".partition("="), "a=b=c".rpartition("="), "abc".partition("x"), "abc".rpartition("x"), "abc".removeprefix("a"), "abc".removesuffix("c"), "abc".removeprefix("x")
"ab".ljust(4) ~ "|", "ab".rjust(4, "."), "ab".center(5, "*"), "abc".center(6, "*"), "abc".center(8), "7".zfill(3), "-7".zfill(4), "abc".zfill(2)
"12".isdigit(), "".isdigit(), "1a".isdigit(), "ab".isalpha(), "a1".isalnum(), " \t".isspace(), "AB1".isupper(), "ab1".islower(), "1".islower()
"{} {}".format(1, "b"), "{0}{1}{0}".format("a", "b"), "{x}-{{}}".format(x=5), "{}".format(none)
l.index(1), l.count(3), (1, 2, 1).count(1), l.copy(), d.copy()|length, [1, [1]].index([1])
dict(a=1, b="x"), dict([("a", 1)]), dict({"a": 1}, b=2), dict(), dict(a=1).a, namespace(a=1).a, namespace(a=1).q is defined, namespace({"x": 2}).x
s|upper|lower|title, (s|upper).lower(), s|upper ~ "x", "a" ~ s|upper, (l|map("string")|list)[0], l|map("string")|join("")|length
{"a": 1}["a"], [1, 2, 3][1:][0], "abc".upper()[0].lower(), ("a", "b")|join, ({"a": {"b": [5]}}).a.b[0], {"get": 1}["get"], {"get": 1}.get("get")
"a" in ["a"] and "b" not in ["a"], 1 if "x" in "xyz" else 0, (1 if t else 2) + 3, [x for_] if false else 1
loop is defined, raise_exception is defined, strftime_now is defined, true is defined, namespace is defined, self_x is defined
1 == 1 and 2 == 2 or 3 == 4, 1 == 2 or 2 == 2 and 3 == 4, not 1 == 1 or true, (not t) == no, none is none and none is not defined
"abc" > "abb", [] == [], {} == {}, {"a": 1} == {"a": 1.0}, {"a": 1, "b": 2} == {"b": 2, "a": 1}, (1, 2) != (1, 3), missing == missing2, missing == none
missing|length, missing|list, missing|join, missing ~ "x", missing|upper, missing|string|length, missing|tojson if false else 0, missing or "or"
"%.3d|%8.3d|%08.3d" % (-7, 7, 7), "%05d|%-05d|%+05d" % (7, 7, 7), "%08.2f|%-+8.2f|% f" % (1e400, 1e400, -1e400), "%.0d" % 0
"%s %(a)s" % {"a": 1}, "abc" % [1], "%%" % {}, "%%s" % missing, "{} {}{a}".format(1, 2, a=3), "{0}{a}{0}".format(1, a=3), "{01}".format(1, 2)
1e400, -1e400, 1.8e308, 1.7976931348623157e308, 1e-400, [1e400], 1e400 == 1e999, "1e400"|float, "-1e400"|float, "1e-400"|float, "1e400"|int
2147483648 * 2, 9007199254740993, 9223372036854775807, -9223372036854775807, 4611686018427387904 + 4611686018427387903
""" + "\n"

FAILING = r"""
missing.x
missing["x"]
missing()
missing + 1
1 + "a"
"a" + 1
l + 1
none + 1
d.q.r
1 / 0
1 // 0
1 % 0
"a" < 1
none < 1
[1] < [none]
l.q()
s.q()
s()
5()
5|length
none|length
none|list
raise_exception("no")
s|join(1, 2, 3)
"%d" % "x"
"%s %s" % 1
"%(a)s %s" % {"a": 1}
"%5%" % (1,)
"%(a)%" % {"a": 1}
"{} {a} {0}".format(1, a=2)
"{0} {}".format(1, 2)
1e400|int
"%s" % (1, 2)
"abc".index("x")
l.index(99)
range(100001)
range(1, 5, 0)
l[::0]
"a".split("")
{[1]: 2}
l.append(4)
d.update({})
d.pop("b")
l.sort()
missing|tojson
range(3)|tojson
(l|map("string"))|tojson
-"a"
"x"|round
[1, "a"]|sort
[1, "a"]|sum
["a", 1]|max
l|map("nothing")|list
l|select("nothing")|list
1 is in 5
5 in 5
none in "abc"
" ".join([1])
"a".join(5)
"abc".center()
s.upper(1)
s|upper(1)
d|dictsort(by="x")
5|dictsort
"{} {}".format(1)
"{a}".format(1)
namespace(1)
namespace(_a=1)
dict(5)
"abc"|truncate(2)
""" + "\n"

MALFORMED = ["{{", "{{ 1", "{{ }}", "{% if %}{% endif %}", "{% if x %}", "{% for x in %}{% endfor %}", "{% endfor %}", "{{ a b }}",
             "{{ 'a }}", "{# a", "{% raw %}a", "{% nothing %}", "{{ (1 }}", "{{ 1) }}", "{{ [1 }}", "{{ {'a' 1} }}", "{{ a. }}",
             "{{ a| }}", "{{ a is }}", "{% set x %}", "{% set 1 = 2 %}", "{% for 1 in l %}{% endfor %}", "{{ a ? b }}", "{{ $ }}",
             "{% for x in l %}{% endif %}", "{% if x %}{% else %}{% elif y %}{% endif %}", "{% break %}", "{{ 1 is odd is even }}",
             "{% macro m(a=1, b) %}{% endmacro %}", "{{ f(a=1, 2) }}", "{{ l[1:2:3:4] }}", "{{ 01 }}", "{% set true = 1 %}",
             "{% macro %}{% endmacro %}", "{% for x in l recursive x %}{% endfor %}", "{{ not }}", "{{ 1 + }}", "{{ == 1 }}",
             "{% set ns.x = 1 %}", "{% set s.x = 1 %}", "{% for a, b in l %}{% endfor %}", "{% set a, b = l %}", "{% if x %}{% endif x %}"]

# Statements, scopes and white space.
TEMPLATES = [
    "{% macro m(x) %}<{{ caller() }}{{ x }}>{% endmacro %}{% call m(1) %}body{{ n }}{% endcall %}", "{% macro m() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b=3) m() %}{{ a }}{{ b }}{% endcall %}",
    "{% macro m(a, b=2) %}{{ a }}{{ b }};{% endmacro %}{{ m(*[5, 6]) }}{{ m(*(1,)) }}{{ m(1, **{'b': 3}) }}{% set all = [m] %}{{ all[0](9) }}", "{{ '<a>'|safe }}{{ ('<'|safe) ~ '>' }}",
    "plain text\n", "a\n\n", "", "{{ s }}\n", "a {{ s }} b\n{{ n }}\n\nc",
    "{% if t %}yes{% endif %}", "{% if no %}a{% elif n > 3 %}b{% else %}c{% endif %}", "{% if no %}a{% elif no %}b{% else %}c{% endif %}",
    "{% if no %}{% endif %}x", "{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}"
    "{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.previtem is defined }};{% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in none_list %}a{% else %}none{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}", "{% for x in l if x > 9 %}{% else %}no{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }};{% endfor %}", "{% for c in s %}{{ c }}.{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3)), (4, (5, 6))] %}{{ a + b + c }} {% endfor %}", "{% for x in missing %}a{% else %}e{% endfor %}",
    "{% for x in l %}{% for y in l %}{{ loop.depth }}{{ x * y }} {% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% for y in l %}{% if y == 1 %}{% break %}{% endif %}{{ y }}{% endfor %};{% endfor %}",
    "{% for x in l|sort %}{{ x }}{% endfor %}{{ x }}", "{% for x in 'ab', 'cd' %}{{ x }}-{% endfor %}", "{% for x in rows|map(attribute='name') %}{{ loop.length }}{{ x }}{% endfor %}",
    "{% set g = l|map('string') %}{{ g|join }}|{{ g|join }}", "{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set x = 1, %}{{ x }}", "{% set x = 0 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=0, found=false) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.found }}",
    "{% if t %}{% set x = 5 %}{% endif %}{{ x }}", "{% set x %}a {{ n }} b{% endset %}[{{ x }}]", "{% set x | upper %}abc{% endset %}{{ x }}",
    "{% set x | replace('a', 'b') | upper | trim %} abc {% endset %}{{ x }}|", "{% set x %}{% endset %}{{ x|length }}",
    "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c='y') }}{{ m(b=1, a=0) }}{{ m() }}",
    "{% macro outer(x) %}{% for i in x %}{{ inner(i) }}{% endfor %}{% endmacro %}{% macro inner(i) %}<{{ i }}>{% endmacro %}{{ outer(l) }}",
    "{% macro down(n) %}{{ n }}{% if n > 0 %}{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(5) }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{{ s }}{% endmacro %}{% set x = 2 %}{{ m() }}", "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(m(1) ~ 'a')|upper }}",
    "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(4) }}", "{% macro m(a) %}{% set y = a %}{{ y }}{% endmacro %}{{ m(1) }}{{ y }}",
    "{% macro m() %}  x  {% endmacro %}[{{ m()|trim }}]{{ m is callable }}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}",
    "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}", "{% for x in l %}{% with y = x %}{{ y }}{% if y == 1 %}{% break %}{% endif %}{% endwith %}{% endfor %}",
    "{# comment #}a{# {{ b }} {% if %} #}b", "a\n{# c #}\nb", "  {# c #}  b", "a {#- c -#} b", "{% raw %}{{ x }} {% if %}{% endraw %}!", "a\n  {% raw %}\n  {{ x }}\n  {% endraw %}\nb",
    "a {%- raw -%} x {%- endraw -%} b", "{% raw -%}\n x {% endraw %}\n y",
    "a\n  {% if t %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if t %}\n  b\n  {%- endif %}\nc\n", "a\n  {% if t -%}\n  b\n  {% endif -%}\n  c\n", "a  {% if t %}  b  {% endif %}  c",
    "a\n  {%+ if t %}\n  b\n  {%+ endif %}\nc", "{% if t +%}\nb{% endif +%}\nc", "a\n  {{ n }}\n  {{- n }}\n  {{ n -}}\n  b", "a \u00a0\u2003\n{{- n -}}\u3000 \x0b b", "  {% if t %}x{% endif %}\n  {% set y = 1 %}\nz",
    "{{ n }}  {% if t %}\n{% endif %}|", "{{ n }}\n\n{% if t %}\n\n x\n{% endif %}\n\n|", "\n\n{% set x = 1 %}\n\n{{ x }}", "{%- set x = 1 -%}\n\n{{ x }}", "{{ n }}\t{%- if t %} x{% endif %}", "\t {% if t %}\t{% endif %}x",
    "a\r\nb\r{% if t %}\r\nc{% endif %}\r\n", "{{ 'a\r\nb' }}|", "{% for x in l %}\n{{ x }}\n{% endfor %}\n", "{% for x in l -%}\n{{ x }}\n{%- endfor %}\n", "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a': {}} }}", "{{ '}}' }}{{ \"%}\" }}{{ '{{' }}",
    "{%set x=1%}{{x}}{%if x==1%}y{%endif%}", "{{-n-}}", "{{ n-1 }}{{ n -1 }}{{ -1 }}", "{{\nn\n}}", "{% if\nt\n%}a{% endif %}", "{ { } } {a} % } {%% if t %}a{% endif %}" if False else "{ { } } {a} % }",
    "{% generation %}a{{ n }}{% endgeneration %}b", "{% for m in messages %}{{ m.role }}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}", "{% set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}{% for m in loop_messages %}{{ m['content'] | trim }}{% endfor %}",
    "{% for m in messages[::-1] %}{% set i = (messages|length - 1) - loop.index0 %}{{ i }}{{ m.role }}{% endfor %}", "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}x{% endif %}{% endfor %}",
    "{% set ns = namespace(last=none) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{{ ns.last }}", "{{ messages[-1]['content'].split('A')[-1].lstrip('\n') }}|",
    "{% if s is string and s|length > 3 and s[0:2] == 'He' %}ok{% endif %}", "{% if missing %}a{% else %}b{% endif %}", "{% if missing is defined and missing.x %}a{% else %}b{% endif %}", "{{ undefined_function if false else 'ok' }}",
    "{% set x = {'a': [1, 2]} %}{% for k, v in x|items %}{{ k }}{{ v }}{% endfor %}", "{% for k, v in d|dictsort %}{{ k }}{% endfor %}", "{% for a in rows %}{{ a['name'] }}{{ a.get('in', {}).get('k', '-') }}{% endfor %}",
    "{% for g in rows|groupby('n') %}{{ g[0] }}:{% for r in g[1] %}{{ r.name }}{% endfor %};{% endfor %}", "{% for n, list in rows|groupby('n') %}{{ n }}{{ list|length }}{% endfor %}",
    "{% set tool_call = {'name': 'f', 'arguments': {'x': 1}} %}{{ '{\"name\": \"' ~ tool_call.name ~ '\", \"arguments\": ' ~ tool_call.arguments|tojson ~ '}' }}",
    "{% set x = 'a' %}{% for i in range(3) %}{% set x = x ~ i %}{{ x }} {% endfor %}", "{% for i in range(3) %}{% if loop.first %}{% set y = 'f' %}{% endif %}{{ y }}{% endfor %}", "{{ strftime_now('') }}{{ strftime_now('%Y-%m-%d %H:%M, %d %b, %A %B') }}", "{{ 1 if t }}{{ 2 if no }}",
    "{% for x in l %}{% else %}{% endfor %}{{ loop }}", "{% macro a() %}{% for x in l %}{{ loop.depth }}{% endfor %}{% endmacro %}{% for y in l %}{{ a() }}{% endfor %}", "{{ [1,2,]|length }}{{ (1,)|length }}{{ {'a':1,}|length }}",
    "{% set f = namespace(n=none) %}{% set f.n = 'x' %}{% if f.n is not none %}{{ f.n }}{% endif %}", "{{ s[:5] + '...' if s|length > 5 else s }}", "{{ ('a' ~ 'b') * 2 }}{{ 'a' ~ ('b' * 2) }}", "{{ messages | map(attribute='role') | unique | list | length }}",
    "{% set content = messages[1].content if messages[1].content is string else messages[1].content[0].text %}{{ content }}", "{{ d.a[0:2] | tojson }} {{ d['a'] | length }}", "{% if 'a' in d and d.a is iterable and d.a is not mapping and d.a is not string %}seq{% endif %}",
]
