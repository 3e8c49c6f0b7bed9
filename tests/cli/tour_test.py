#!/usr/bin/env python3
"""Runs the tours of docs/tutorial.md: tour_test.py GPT [--whole]

Every indented line below "## A quick tour", and with --whole also below "## A longer tour", is a command for bash. The
commands run in order in a new folder that stands for the repository. Each command must succeed and print something. The
files after -o, --html and --svg must exist afterwards.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
QUICK, LONGER = "## A quick tour", "## A longer tour"
LIMIT_S = 900  # time limit of a command; none takes a tenth of it on an idle machine
MADE = re.compile(r"(?:-o|--html|--svg) (\S+)")
SILENT = re.compile(r"^mkdir ")


def commands(page, title):
    """Returns the indented lines of a section."""
    start = page.index(title)
    end = page.find("\n## ", start + 1)
    return [line.strip() for line in page[start:end].splitlines() if line.startswith("    ")]


def prepare(folder, gpt):
    """Prepares a folder that looks like the repository. Returns the environment in which `gpt` is found."""
    (folder / "tests").symlink_to(ROOT / "tests")
    (folder / "examples").symlink_to(ROOT / "examples")
    programs = folder / ".bin"
    programs.mkdir()
    (programs / "gpt").symlink_to(Path(gpt).resolve())
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPT_")}
    environment.update(PATH=f"{programs}:{environment.get('PATH', '')}", NO_COLOR="1")
    return environment


def run(command, where, environment):
    """Returns the status, the output, and the folder in which the next command runs."""
    script = f"{command}\nstatus=$?; pwd >&3; exit $status"
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as pipe:
        shell = subprocess.Popen(["bash", "-c", f"exec 3>&{write_end}\n{script}"], cwd=where, env=environment,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, errors="replace", pass_fds=[write_end], start_new_session=True)
        os.close(write_end)
        try:
            output, _ = shell.communicate(timeout=LIMIT_S)
        except BaseException:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
            raise
        return shell.returncode, output, pipe.read().strip() or where


def problem(command, status, output, where):
    """Returns the problem of a finished command, or ""."""
    if status != 0:
        return f"status {status}"
    if not output.strip() and not SILENT.match(command):
        return "no output"
    words = " ".join(shlex.split(command, comments=True))
    for name in MADE.findall(words):
        made = Path(where, name)
        if not made.exists() or (made.is_file() and made.stat().st_size == 0):
            return f"{name} is not there"
    return ""


def main():
    gpt, *flags = sys.argv[1:]
    if flags not in ([], ["--whole"]):
        sys.exit(__doc__)
    page = (ROOT / "docs/tutorial.md").read_text()
    lines = commands(page, QUICK) + (commands(page, LONGER) if flags else [])
    if len(lines) < 20:
        sys.exit(f"tour_test: docs/tutorial.md has only {len(lines)} commands; is the tour gone?")
    with tempfile.TemporaryDirectory() as folder:
        environment = prepare(Path(folder), gpt)
        where, begin = folder, time.monotonic()
        for line in lines:
            start = time.monotonic()
            status, output, where = run(line, where, environment)
            print(f"{time.monotonic() - start:6.1f} s  {line}", flush=True)
            wrong = problem(line, status, output, where)
            if wrong:
                sys.exit(f"tour_test: {wrong}: {line}\n{output[-3000:]}")
    print(f"tour_test: {len(lines)} commands in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
