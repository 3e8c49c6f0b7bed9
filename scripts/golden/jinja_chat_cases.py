"""Chat templates of make_jinja.py."""

TEMPLATES = {}


def contexts():
    return {}
