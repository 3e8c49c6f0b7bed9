#!/usr/bin/env python3
"""Tests that scripts/learn --check passes on current pages and fails on stale ones: learn_test.py SCRIPT GPT"""

import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT, GPT = sys.argv[1:]
SKIPPED = 77

PAGE = """# A page

<!-- run: gpt trace --demo mask | sed -n 4,5p -->

<!-- trained: gpt trace --demo norms | sed -n 4p -->

<!-- table: gpt info tiny --compare mini-gpt | head -4 -->

<!-- figure: gpt trace --demo rope --svg rope.svg -->

![rope](img/rope.svg)

[the next page](1-next.md)
"""


def learn(pages, *flags):
    """Returns exit status and output."""
    result = subprocess.run([SCRIPT, "--gpt", GPT, "--pages", str(pages), *flags], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    return result.returncode, result.stdout


def expect(what, good, output):
    if not good:
        sys.exit(f"learn_test: {what}\n{output}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder)
        page = pages / "README.md"
        page.write_text(PAGE)
        (pages / "1-next.md").write_text("# Nothing generated here\n")
        status, output = learn(pages)
        if status == SKIPPED:
            sys.exit(SKIPPED)
        expect("writing failed", status == 0, output)
        written = page.read_text()
        expect("a second run changed the page", learn(pages)[0] == 0 and page.read_text() == written, written)
        expect("current pages must pass", learn(pages, "--check")[0] == 0, learn(pages, "--check")[1])

        def stale(what, old, new, red=True):
            expect(f"the page has no {old}", old in written, written)
            page.write_text(written.replace(old, new, 1))
            status, output = learn(pages, "--check")
            expect(what, (status != 0) == red, output)
            expect("a check must not write", page.read_text() == written.replace(old, new, 1), output)
            page.write_text(written)

        stale("a changed whole number must be found", "sees 1 of 6", "sees 2 of 6")
        stale("a changed word must be found", "sees 2 of 6", "saw 2 of 6")
        stale("a missing line must be found", "  cat     1    1    .    .    .    .   sees 2 of 6\n", "")
        stale("trained numbers within 2 % are equal", "0.4784", "0.4790", red=False)
        stale("trained numbers 5 % off must be found", "0.4784", "0.5023")
        stale("a changed cell of a table must be found", "| n_ctx | 192", "| n_ctx | 193")
        stale("a block left out must be found", "```console\n$ gpt trace --demo mask", "```\n$ gpt trace --demo mask")
        stale("a dead link must be found", "(1-next.md)", "(2-gone.md)")
        picture = pages / "img" / "rope.svg"
        picture.write_text(picture.read_text().replace("distance", "interval", 1))
        expect("a stale picture must be found", learn(pages, "--check")[0] != 0, "")
    print("learn_test: passed")


if __name__ == "__main__":
    main()
