"""Formats the results of `compare` as JSON summaries and as a table."""

import dataclasses
import pathlib
import platform
import statistics
import textwrap

import load
import works

UNITS = {"tokens_per_second": "tokens/s", "megabytes_per_second": "MB/s"}
WIDTH = 120


@dataclasses.dataclass
class Row:
    work: object
    dtype: str
    wanted: int  # number of pairs
    unit: str = "tokens_per_second"
    rival: str = None
    pairs: list = dataclasses.field(default_factory=list)

    def name(self):
        return f"{self.work.name} {self.dtype}".strip()


def cpu_model():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def disturbed(pairs):
    """Returns the CPU shares of other processes in those pairs in which that share is too large."""
    return [pair["others"] for pair in pairs if (pair["others"] or 0) > load.DISTURBED]


def summary(row, machine):
    pairs = row.pairs
    result = {"what": row.work.name, "dtype": row.dtype, "rival": row.rival, "unit": UNITS[row.unit], "pairs": pairs,
              "pairs_wanted": row.wanted, "disturbed": len(disturbed(pairs)), "machine": machine}
    for side in ("ours", "theirs"):
        if side in pairs[0]:
            result[side] = spread([pair[side][row.unit] for pair in pairs])
    if "ratio" in pairs[0]:
        result["ratio"] = spread([pair["ratio"] for pair in pairs])
    for figure in ("share_of_rate", "share_of_memory", "peak_bytes", "planned_bytes"):
        if pairs[0]["ours"].get(figure) is not None:
            result[figure] = spread([pair["ours"][figure] for pair in pairs])
    return result


def name_of(result):
    return f"{result['what']} {result['dtype']}".strip()


def memory_of(result):
    """Formats the peak memory of gpt bench and its estimate, in MiB."""
    return " of ".join(f"{result[key]['max'] / works.MIB:,.0f}" for key in ("peak_bytes", "planned_bytes") if key in result)


def cells(result):
    def median(key, form):
        return form(result[key]["median"]) if key in result else ""

    def speed(value):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"

    def range_of(ratios):
        middle, least, most = (f"{ratios[key]:.{2 if ratios[key] < 10 else 1}f}" for key in ("median", "min", "max"))
        return f"{middle} ({least} to {most})"

    ratio = range_of(result["ratio"]) if "ratio" in result else ""
    done, wanted = len(result["pairs"]), result["pairs_wanted"]
    pairs = (str(done) if done == wanted else f"{done} of {wanted}") + ("*" if result["disturbed"] else "")
    return [name_of(result), result["unit"], median("ours", speed), median("theirs", speed), ratio,
            median("share_of_rate", "{:.2f}".format), median("share_of_memory", "{:.2f}".format), memory_of(result), pairs]


def rivals(results):
    """Returns a line for every rival program with the rows in which it was measured."""
    rows = {}
    for result in results:
        if result["rival"]:
            rows.setdefault(result["rival"], []).append(name_of(result))
    return [f"{', '.join(names)}: against {rival}" for rival, names in rows.items()]


def disturbances(results):
    found = [f"{name_of(result)} (up to {100 * max(disturbed(result['pairs'])):.0f} % in {result['disturbed']} of {len(result['pairs'])})"
             for result in results if result["disturbed"]]
    return [f"* Others took more than {100 * load.DISTURBED:.0f} % of the CPUs during pairs, which inflates ratios: "
            f"{', '.join(found)}"] if found else []


def table(results):
    """Prints a Markdown table of the results."""
    rows = [["work", "unit", "ours", "theirs", "ratio", "of limit", "of memory", "peak of plan, MiB", "pairs"], *map(cells, results)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    rows.insert(1, ["-" * width for width in widths])
    facts = results[0]["machine"]
    print(f"{facts['cpu']}, {facts['threads']} thread{'s' * (facts['threads'] > 1)}, {facts['isa']}, {facts['gpt']}\n")
    for row in rows:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
    for line in rivals(results) + disturbances(results):
        print("\n" + textwrap.fill(line, WIDTH, break_on_hyphens=False))
