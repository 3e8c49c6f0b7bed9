"""Measures the inference speed of ik_llama.cpp with its own benchmark programs."""

import json
import pathlib
import sys

import children
import works

PROGRAMS = ("llama-bench", "llama-batched-bench")


def check(folder):
    for name in PROGRAMS:
        if not (pathlib.Path(folder) / name).exists():
            sys.exit(f"compare: --ik {folder}: {name} is not there; expected the folder of ik_llama.cpp's programs")


def run(command, folder):
    # the programs write a log to their working folder
    return children.run_or_fail(command, cwd=folder)


class IkWorker:
    """Measures once per call. Every call starts a new process, because the programs load the model each time."""

    about = {"ready": "ik_llama.cpp"}

    def __init__(self, folder, config):
        self.folder, self.config = pathlib.Path(folder).resolve(), config

    def single(self, *what):
        c = self.config
        warm_up = 0 if max(c["rows"], c["depth"]) > works.LONG else 1
        out = run([self.folder / "llama-bench", "-m", c["model"], "-t", c["threads"], *what, "-r", c["repeat"], "-w", warm_up,
                   "-o", "json"], c["cache"]).stdout
        try:
            return json.loads(out[out.index("["):])[0]["avg_ts"]
        except (LookupError, ValueError):
            raise children.RowFailed(f"llama-bench gave no speed:\n{out[-4000:]}") from None

    def batch(self):
        """Returns the value of the column S_TG in the only row of the table."""
        c = self.config
        out = run([self.folder / "llama-batched-bench", "-m", c["model"], "-t", c["threads"], "-c",
                   c["sequences"] * max(c["tokens"] + 1, 128), "-npp", 1, "-ntg", c["tokens"], "-npl", c["sequences"]],
                  c["cache"])
        rows = [[cell.strip() for cell in line.strip("|").split("|")]
                for line in (out.stdout + out.stderr).splitlines() if line.startswith("|")]
        try:
            return float(rows[-1][rows[0].index("S_TG t/s")])
        except (LookupError, ValueError):
            raise children.RowFailed(f"llama-batched-bench gave no speed:\n{out.stderr[-4000:]}") from None

    def measure(self, mode):
        if mode == "prefill":
            return {"tokens_per_second": self.single("-p", self.config["rows"], "-n", 0)}
        if mode == "decode":
            return {"tokens_per_second": self.single("-p", 0, "-n", 0, "-gp", f"{self.config['depth']},{self.config['tokens']}")}
        return {"tokens_per_second": self.batch()}

    def close(self):
        pass
