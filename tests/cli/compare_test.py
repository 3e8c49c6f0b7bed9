#!/usr/bin/env python3
"""Tests bench/rivals/compare with fake programs that only claim speeds: compare_test.py SCRIPT"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = sys.argv[1]

# Both fake programs append a line to calls.log. The fake gpt claims 300 tokens/s. The fake rival claims 100, then 200,
# or fails or hangs for some models.
OURS = """#!/usr/bin/env python3
import json, sys
if sys.argv[1] == "--version": sys.exit(print("gpt, a test"))
open("{folder}/calls.log", "a").write("ours\\n")
print(json.dumps({{"model": {{"parameters": 7}}, "workloads": [
    {{"tokens_per_second": {{"median": 300}}, "share_of_rate": 0.5, "share_of_memory": 0.25,
     "memory_bytes": {{"measured": 3 << 20, "predicted": 4 << 20}}}}]}}))
"""
RIVAL = """#!/usr/bin/env python3
import pathlib, sys, time
folder = pathlib.Path("{folder}")
with open(folder / "calls.log", "a") as log: log.write("theirs\\n")
model = sys.argv[sys.argv.index("-m") + 1]
if "q5_k" in model: sys.exit("a fault")
if "q6_k" in model:
    (folder / "waiting").touch()
    time.sleep(600)
count = (folder / "calls.log").read_text().count("theirs")
print('[{{"avg_ts": %d}}]' % (100 if count == 1 else 200))
"""


def expect(what, good, seen):
    if not good:
        sys.exit(f"compare_test: {what}\n{seen}")


class Rivals:
    def __init__(self, folder):
        self.folder = Path(folder)
        for name, text in {"gpt": OURS, "llama-bench": RIVAL, "llama-batched-bench": RIVAL}.items():
            (self.folder / name).write_text(text.format(folder=folder))
            (self.folder / name).chmod(0o755)
        files = self.folder / "gpt-rivals"
        files.mkdir()
        for dtype in ("q8_0", "q6_k", "q5_k", "q4_0"):  # so that none is created
            (files / f"llama-1b-{dtype}.gguf").touch()
        self.environment = {**os.environ, "XDG_CACHE_HOME": folder}

    def start(self, *words):
        (self.folder / "calls.log").unlink(missing_ok=True)
        return subprocess.Popen([SCRIPT, "--gpt", self.folder / "gpt", *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment)

    def run(self, *words):
        """Returns exit status, standard output and standard error."""
        process = self.start(*words)
        out, err = process.communicate()
        return process.returncode, out, err

    def of_files(self, *dtypes):
        return ["decode-file", "--ik", str(self.folder), *(word for dtype in dtypes for word in ("--dtype", dtype))]


def check_pairs(rivals):
    status, out, err = rivals.run(*rivals.of_files("q8_0"), "--pairs", "3", "--json")
    expect("three pairs end well", status == 0, err)
    (row,) = json.loads(out)
    expect("a ratio for every pair", [pair["ratio"] for pair in row["pairs"]] == [3, 1.5, 1.5], out)
    expect("their median and spread", row["ratio"] == {"median": 1.5, "min": 1.5, "max": 3}, out)
    calls = (rivals.folder / "calls.log").read_text().split()
    expect("each side is first in turn", calls == ["ours", "theirs", "theirs", "ours", "ours", "theirs"], calls)


def check_table(rivals):
    status, out, err = rivals.run(*rivals.of_files("q5_k", "q4_0"), "--pairs", "1")
    expect("a row that fails is said at the end", status == 1 and "failed: decode-file q5_k" in err and "a fault" in err, err)
    cells = [cell.strip(" *") for line in out.splitlines() if line.startswith("| decode-file q4_0") for cell in line.split("|")]
    expect("and does not keep the next one from being measured", cells[3:] == ["300.0", "200.0", "1.50 (1.50 to 1.50)", "0.50", "0.25",
                                                                          "3 of 4", "1", ""], out)


def check_interrupt(rivals):
    process = rivals.start(*rivals.of_files("q8_0", "q6_k"), "--pairs", "1")
    while not (rivals.folder / "waiting").exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    expect("an interrupt is the status", process.returncode == 130 and "SIGINT" in err, err)
    expect("and what was measured is shown", "| decode-file q8_0" in out and "q6_k" not in out, out)


def check_refusals(rivals):
    for words, part in [(["decode-flie"], "did you mean decode-file"), (["decode", "--dtype", "q9"], "invalid choice"),
                        (["encode", "--dtype", "bf16"], "text has no types"), (["decode", "--isa", "avx2"], "only training"),
                        (["decode", "--pairs", "0"], "--pairs: expected 1 or more"),
                        (["decode", "--ik", "/nowhere"], "llama-bench is not there"),
                        (["decode", "--gpt", "/nowhere"], "expected our program gpt")]:
        status, out, err = rivals.run(*words)
        expect(f"{words} is refused", status != 0 and part in err and not out, err)
        expect("before anything runs", not (rivals.folder / "calls.log").exists(), words)


def main():
    with tempfile.TemporaryDirectory() as folder:
        rivals = Rivals(folder)
        for check in (check_pairs, check_table, check_interrupt, check_refusals):
            check(rivals)
        status, out, _ = rivals.run("--help")
        expect("the help fits a terminal", status == 0 and max(map(len, out.splitlines())) <= 80, out)


main()
