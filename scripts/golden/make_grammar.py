#!/usr/bin/env python3
"""Writes tests/data/grammar: numbers, number ranges, regular expressions and formats with the results of Python programs.

    pip install pydantic==2.14.4 rfc3986-validator==0.1.1 rfc3987==1.3.8 fqdn==1.6.0 isoduration==20.11.0
    scripts/golden/make_grammar.py

- numbers.jsonl: JSON texts and json.dumps(json.loads(text))
- ranges.jsonl: schemas of numbers, with matching and other texts according to exact arithmetic
- regex.jsonl: patterns with texts and the results of re.fullmatch and re.search; patterns that re refuses have no texts
- pydantic.jsonl: the JSON schema of a model with many types, and a value as JSON
- formats.jsonl: texts that result from small changes of valid ones, and whether they are valid
"""
import datetime
import enum
import fractions
import ipaddress
import json
import pathlib
import random
import re
import struct
import typing
import uuid
import warnings

import fqdn
import isoduration
import pydantic
import rfc3987
from rfc3986_validator import validate_rfc3986

TARGET = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/data/grammar"
rnd = random.Random(11)
warnings.simplefilter("ignore")


def write(name, rows):
    with open(TARGET / name, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=True) + "\n")


# ---- numbers -------------------------------------------------------------------------------------------

EDGES = [0, 1, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64, 10**18, 10**19, 10**22, 10**299]


def integers():
    for edge in EDGES:
        yield from (str(edge), str(-edge))
    for _ in range(150):
        yield str(rnd.choice((-1, 1)) * rnd.randrange(10 ** rnd.choice((3, 10, 18, 19, 20, 21, 25, 40, 100, 300))))


def reals():
    yield from ("0.0", "-0.0", "-0", "1e22", "1E22", "1e-7", "1e16", "1e15", "123456789012345680.0", "5e-324", "1.7976931348623157e308",
                "0.1", "0.30000000000000004", "1e-5", "1e-4", "9007199254740993.0", "100000000000000000000.0", "1.0", "1.50", "0e10")
    for _ in range(150):
        value = struct.unpack("<d", rnd.randbytes(8))[0]
        if value == value and abs(value) != float("inf"):
            yield rnd.choice((repr(value), f"{value:.3e}", f"{value:.25e}"))
        yield repr(rnd.uniform(-1000, 1000))
        yield repr(round(rnd.uniform(0, 10 ** rnd.randrange(1, 18)), rnd.randrange(4)))


def numbers():
    for text in [*integers(), *reals()]:
        yield {"text": text, "python": json.dumps(json.loads(text))}


def value_of(text):
    return fractions.Fraction(text)


def ranges():
    def bound():
        return rnd.choice((str(rnd.choice(EDGES) * rnd.choice((-1, 1)) % 10**30), str(rnd.randrange(-200, 200)),
                           f"{rnd.uniform(-20, 20):.{rnd.randrange(1, 6)}f}", f"{rnd.randrange(1, 99)}e-{rnd.randrange(3, 9)}"))

    def near(text):
        value = value_of(text)
        step = rnd.choice((1, 10, fractions.Fraction(1, 10), fractions.Fraction(1, 10**6), 0))
        value += step * rnd.randrange(-3, 4)
        digits = rnd.randrange(0, 9)
        scaled = round(value * 10**digits)
        sign = "-" if scaled < 0 else ""
        whole, part = divmod(abs(scaled), 10**digits)
        plain = f"{sign}{whole}" + (f".{part:0{digits}d}" if digits else "")
        return rnd.choice((plain, plain, repr(float(plain))))

    for _ in range(150):
        integer = rnd.random() < 0.4
        limits = {}
        for low, high in ((rnd.choice(("minimum", "exclusiveMinimum")), rnd.choice(("maximum", "exclusiveMaximum"))),):
            a, b = sorted((bound(), bound()), key=value_of)
            if integer and rnd.random() < 0.7:
                a, b = str(int(value_of(a))), str(int(value_of(b)))
            if rnd.random() < 0.8:
                limits[low] = a
            if rnd.random() < 0.8:
                limits[high] = b
        texts = {near(x) for x in [*limits.values(), "0", "1"] for _ in range(12)} | {str(rnd.choice(EDGES)) for _ in range(4)}

        def fits(text):
            value = value_of(text)
            return ((not integer or re.fullmatch(r"-?\d+", text)) and ("minimum" not in limits or value >= value_of(limits["minimum"]))
                    and ("maximum" not in limits or value <= value_of(limits["maximum"]))
                    and ("exclusiveMinimum" not in limits or value > value_of(limits["exclusiveMinimum"]))
                    and ("exclusiveMaximum" not in limits or value < value_of(limits["exclusiveMaximum"])))

        # Negative zeros and zeros with an exponent are excluded, because they have the same value as other texts.
        texts = sorted(t for t in texts if not (value_of(t) == 0 and ("-" in t or "e" in t)))
        schema = '{"type":"%s"%s}' % ("integer" if integer else "number", "".join(f',"{k}":{v}' for k, v in limits.items()))
        if any(fits(t) for t in texts):
            yield {"schema": schema, "fit": [t for t in texts if fits(t)], "others": [t for t in texts if not fits(t)]}


# ---- regular expressions -------------------------------------------------------------------------------

ATOMS = ["a", "b", "ab", ".", "[ab]", "[^a]", "[a-c]", "[0-9]", "\\d", "\\w", "\\.", "\\{", "\\]", "{", "}", "]", "-", ",", "1", "(a|b)", "(?:ab)",
         "(?P<n>b)", "{a}", "[]", "[]a]", "[^]a]", "[a-]", "[-a]", "[a{]", "[}]", "[[a]", "[[:a:]]", "[a&&b]", "[{,2}]", "é"]
QUANTIFIERS = ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{2,}", "{,2}", "{,}", "{", "{2", "{2,", "{2,a}", "{a}", "{}", "}", "]", "{1}?"]


def patterns():
    seen = set()
    while len(seen) < 500:
        pattern = "".join(rnd.choice(ATOMS) + rnd.choice(QUANTIFIERS) for _ in range(rnd.randrange(1, 4)))
        if rnd.random() < 0.2:
            pattern += "|" + rnd.choice(ATOMS)
        if rnd.random() < 0.2:
            pattern = "^" * rnd.randrange(2) + pattern + "$" * rnd.randrange(2)
        seen.add(pattern)
    for pattern in sorted(seen):
        try:
            compiled = re.compile(pattern, re.ASCII)
        except re.error:
            yield {"pattern": pattern}
            continue
        pool = "ab1{},]-[é:&"
        texts = {"", "a", "aa", "b", "ab", "a{", "a}", "a]", "{a}", "a{,2}", "a{2}"}
        texts |= {pattern.replace("\\", ""), *("".join(rnd.choices(pool, k=rnd.randrange(1, 5))) for _ in range(8))}
        texts |= {re.sub(r"\\(.)", r"\1", piece) for piece in re.split(r"[()|^$]", pattern)}
        texts = sorted(texts)
        yield {"pattern": pattern, "texts": texts, "whole": "".join("01"[bool(compiled.fullmatch(t))] for t in texts),
               "part": "".join("01"[bool(compiled.search(t))] for t in texts)}


# ---- formats -------------------------------------------------------------------------------------------

def is_date(text):
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    try:  # Python lacks year 0, whose calendar equals that of year 400
        return bool(datetime.date.fromisoformat("0400" + text[4:] if text.startswith("0000") else text))
    except ValueError:
        return False


def is_time(text):
    found = re.fullmatch(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?([Zz]|[+-]([0-9]{2}):([0-9]{2}))", text)
    if not found:
        return False
    hour, minute, second = map(int, found.groups()[:3])
    offset_hour, offset_minute = int(found[6] or 0), int(found[7] or 0)
    if hour > 23 or minute > 59 or offset_hour > 23 or offset_minute > 59:
        return False
    offset = (-1 if found[5][0] == "-" else 1) * (60 * offset_hour + offset_minute)
    return second < 60 or (second == 60 and (60 * hour + minute - offset) % 1440 == 1439)


def is_date_time(text):
    if not (is_date(text[:10]) and text[10:11] in ("T", "t") and is_time(text[11:])):
        return False
    return text[17:19] != "60"  # leap seconds are in the examples below


def is_duration(text):
    if not re.fullmatch(r"P[0-9YMDWTHS]*", text):  # the grammar in RFC 3339 has no fractions and no signs
        return False
    date, _, time = text[1:].partition("T")
    units = "".join(re.findall(r"[0-9]+([A-Z])", text))
    if "".join(re.findall(r"[0-9]+[A-Z]", text)) != date + time or not units or text.endswith("T"):
        return False
    try:
        isoduration.parse_duration(text)
    except Exception:
        return False
    # isoduration accepts missing units between two others, but the RFC does not
    of_date, of_time = re.sub(r"[0-9]", "", date), re.sub(r"[0-9]", "", time)
    return of_date in ("W", "Y", "YM", "YMD", "M", "MD", "D", "") and of_time in ("H", "HM", "HMS", "M", "MS", "S", "") and not (
        of_date == "W" and time)


def is_ipv4(text):
    try:
        return bool(ipaddress.IPv4Address(text)) or True
    except ValueError:
        return False


def is_ipv6(text):
    try:
        return "%" not in text and (bool(ipaddress.IPv6Address(text)) or True)
    except ValueError:
        return False


def is_hostname(text):
    return text.isascii() and not text.endswith(".") and "_" not in text and fqdn.FQDN(text, min_labels=1).is_valid


def is_local(text):
    atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
    return len(text) <= 64 and bool(re.fullmatch(rf'{atom}(\.{atom})*|"([ !\x23-\x5b\x5d-\x7e]|\\[ -~])*"', text))


def is_email(text):
    local, at, domain = text.rpartition("@")
    if not at or not is_local(local) or len(text) > 254:
        return False
    if domain.startswith("[IPv6:") and domain.endswith("]"):
        return is_ipv6(domain[6:-1])
    if domain.startswith("[") and domain.endswith("]"):
        return is_ipv4(domain[1:-1])
    return is_hostname(domain)


def is_uri(text):
    return bool(validate_rfc3986(text, rule="URI")) and brackets_hold_an_address(text)


def is_uri_reference(text):
    return bool(validate_rfc3986(text, rule="URI_reference")) and brackets_hold_an_address(text)


def brackets_hold_an_address(text):
    found = re.search(r"\[([^]]*)\]", text)
    return not found or found[1].lower().startswith("v") or is_ipv6(found[1])


def is_iri(text):
    return bool(rfc3987.match(text, "IRI")) and brackets_hold_an_address(text)


def is_json_pointer(text):
    return text == "" or (text[0] == "/" and not re.search(r"~(?![01])", text))


def is_uri_template(text):
    parts = re.split(r"\{([^{}]*)\}", text)
    literals, expressions = "".join(parts[::2]), parts[1::2]
    if re.search(r"%(?![0-9A-Fa-f]{2})", "\n".join(parts[::2])) or any(c in "\"'<>\\^`{|}" or ord(c) < 0x21 for c in literals):
        return False
    name = r"(?:\w|%[0-9A-Fa-f]{2})(?:\.?(?:\w|%[0-9A-Fa-f]{2}))*"
    return all(re.fullmatch(rf"[+#./;?&]?{name}(?::[1-9]\d{{0,3}}|\*)?(?:,{name}(?::[1-9]\d{{0,3}}|\*)?)*", e, re.ASCII) for e in expressions)


def is_uuid(text):
    return bool(re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text))


FORMATS = {
    "date": (is_date, ["2024-02-29", "2000-02-29", "2100-02-28", "1999-12-31", "0001-01-01", "2023-04-30"], "0123456789-"),
    "time": (is_time, ["12:30:00Z", "23:59:59.123456789+05:30", "00:00:00-00:00", "23:59:60Z", "01:29:60+01:30", "15:59:60-08:00"], "0123456789:.+-Zz"),
    "date-time": (is_date_time, ["2024-02-29T23:59:59Z", "1996-12-19t16:39:57-08:00", "1937-01-01T12:00:27.87+00:20"], "0123456789-:.TtZz+ "),
    "duration": (is_duration, ["P3M", "PT1H30M", "P1Y2M10DT2H30M", "P3W", "PT36H", "P4DT12H30M5S", "PT1M", "PT0S"], "0123456789PTYMDWHS."),
    "ipv4": (is_ipv4, ["127.0.0.1", "255.255.255.255", "0.0.0.0", "192.168.10.250"], "0123456789."),
    "ipv6": (is_ipv6, ["::", "::1", "1::", "2001:db8::8a2e:370:7334", "1:2:3:4:5:6:7:8", "::ffff:192.168.0.1", "1:2:3:4:5:6:7::", "64:ff9b::1.2.3.4",
                       "fe80::1:2:3", "1:2:3:4:5:6:1.2.3.4"], "0123456789abcdefF:."),
    "hostname": (is_hostname, ["a.example.org", "my-host", "a1.b2-c3.d", "1a", "a" * 63 + ".b", ".".join(["a" * 62] * 4), "xn--nxasmq6b.example"], "ab1-._A"),
    "email": (is_email, ["a.b@example.com", "a+b_c@x-y.co.uk", '"joe bloggs"@example.com', "joe@[127.0.0.1]", "joe@[IPv6:2001:db8::1]", "o'x@a.b",
                         "a" * 64 + "@x.org", '"a\\"b"@c.d'], "ab.@\"\\-_ []1"),
    "uri": (is_uri, ["mailto:a@b.org", "https://e.org/a%20b", "http://[::1]:8080/x?y=z#w", "https://user:pw@h:80", "urn:isbn:0451450523",
                     "ftp://ftp.is.co.za/rfc/rfc1808.txt", "tel:+1-816-555-1212", "ldap://[2001:db8::7]/c=GB?objectClass?one", "http://[v1.a:b]/",
                     "http://1.2.3.4/;a=b,c", "file:///etc/x", "a:"], "ab1:/?#[]@!$&'()*+,;=%.-_~ \\^\"<>{}|`é"),
    "uri-reference": (is_uri_reference, ["../a/b?c#d", "", "#x", "//h/p", "/a", "a/b:c", "mailto:x", "?q", "http://h/x", ";x", "a%20b"], "ab1:/?#[]@%. é"),
    "iri": (is_iri, ["http://ƒøø.ßår/?∂éœ=πîx#πîüx", "https://e.org/a%20b", "urn:x:é", "http://[::1]/é"], "ab:/?#@%é中 \U0001F600"),
    "uri-template": (is_uri_template, ["http://e.org/d/{term:1}/{term}", "{?q,lang}", "{+path}/here", "{/var*}", "a%20{x.y}"], "ab1{},:*?+/#%. "),
    "json-pointer": (is_json_pointer, ["", "/foo/bar~0/baz~1/%a", "/", "/a//b", "/é"], "a/~01 é"),
    "uuid": (is_uuid, ["123e4567-e89b-12d3-a456-426614174000"], "0aFg-"),
}
# Examples from RFC 3339 (5.8 and errata), the JSON Schema test suite and IERS Bulletin C.
MORE = {
    "date-time": (["1985-04-12T23:20:50.52Z", "1990-12-31T23:59:60Z", "1990-12-31T15:59:60-08:00", "2017-01-01T05:29:60+05:30",
                   "1998-12-31T15:59:60.123-08:00", "2012-07-01T08:59:60+09:00", "2016-12-31T23:59:60+00:00"],
                  ["1990-12-30T23:59:60Z", "1998-12-31T23:58:60Z", "1998-12-31T22:59:60Z", "1998-12-31T23:59:61Z", "2017-12-31T23:59:60Z",
                   "2016-12-31T05:29:60+05:30"]),
    "date": (["0000-02-29"], ["0100-02-29", "2024-2-29", "2024-02-29Z"]),
    "duration": (["P1Y", "P1YT1S"], ["PT1H30S", "P1Y2D", "P1W2D", "P", "PT", "P1D1Y", "P1.5D", "-P1D", "P2WT1H"]),
    "uuid4": (["f47ac10b-58cc-4372-a567-0e02b2c3d479"], ["f47ac10b-58cc-1372-a567-0e02b2c3d479", "f47ac10b-58cc-4372-c567-0e02b2c3d479"]),
    "email": (["a@b"], ["a@b@c", "a@-b.c", "@b.c", "a..b@c.d", "joe@[127.0.0.300]"]),
}


def changed(text, alphabet):
    for _ in range(rnd.choice((0, 1, 1, 1, 2, 3))):
        at = rnd.randrange(len(text) + 1)
        text = text[:at] + rnd.choice((rnd.choice(alphabet), "")) + text[at + rnd.randrange(2):]
    return text


def formats():
    for name, (valid, seeds, alphabet) in FORMATS.items():
        texts = {*seeds, *(changed(rnd.choice(seeds), alphabet) for _ in range(400))}
        # The validators and the RFCs disagree about an address in brackets that elides one group.
        yield {"format": name, "valid": sorted(t for t in texts if valid(t)), "invalid": sorted(t for t in texts if not valid(t))}
    for name, (valid, invalid) in MORE.items():
        yield {"format": name, "valid": valid, "invalid": invalid}


# ---- pydantic ------------------------------------------------------------------------------------------

class Colour(str, enum.Enum):
    red = "red"
    blue = "blue"


class First(pydantic.BaseModel):
    kind: typing.Literal["first"] = "first"
    x: int


class Second(pydantic.BaseModel):
    kind: typing.Literal["second"] = "second"
    y: float = 0


class Everything(pydantic.BaseModel):
    url: pydantic.HttpUrl
    link: typing.Optional[pydantic.AnyUrl] = None
    colours: set[Colour]
    flags: frozenset[bool]
    counts: dict[typing.Literal["x", "y"], int]
    either: typing.Union[First, Second] = pydantic.Field(discriminator="kind")
    word: typing.Annotated[str, pydantic.Field(pattern=r"^[a-z]{2,}\d*$", max_length=12, min_length=3)]
    day: datetime.date
    at: datetime.datetime
    time: datetime.time
    lasting: datetime.timedelta
    id: uuid.UUID
    random_id: pydantic.UUID4
    weight: pydantic.PositiveFloat
    big: typing.Annotated[int, pydantic.Field(ge=0, le=2**64)]
    constant: typing.Literal[12345678901234567890123]
    address: ipaddress.IPv6Address
    password: pydantic.SecretStr


def schemas():
    value = Everything(url="https://example.com/a?b=c", colours={"blue"}, flags={True}, counts={"y": 3}, either={"kind": "first", "x": -1}, word="abc12",
                       day="2024-02-29", at="1990-12-31T15:59:59.123Z", time="01:02:03Z", lasting="P1DT2H", id="123e4567-e89b-12d3-a456-426614174000",
                       random_id="f47ac10b-58cc-4372-a567-0e02b2c3d479", weight=1e-7, big=2**63, constant=12345678901234567890123, address="::1", password="x")
    yield {"schema": json.dumps(Everything.model_json_schema()), "value": json.dumps(json.loads(value.model_dump_json()))}


TARGET.mkdir(exist_ok=True)
write("numbers.jsonl", numbers())
write("ranges.jsonl", ranges())
write("regex.jsonl", patterns())
write("formats.jsonl", formats())
write("pydantic.jsonl", schemas())
