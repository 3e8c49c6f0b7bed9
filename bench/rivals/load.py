"""Measures the CPU time that other processes use during a measurement, according to Linux."""

import os
import pathlib
import resource
import time

import children

DISTURBED = 0.05  # share of the CPUs; other threads also wait for a delayed thread
CPUS = sorted(os.sched_getaffinity(0))
TICK = os.sysconf("SC_CLK_TCK")


def busy():
    """Returns the busy seconds of the CPUs in the affinity mask, including time stolen by other virtual machines."""
    lines = [line.split() for line in pathlib.Path("/proc/stat").read_text().splitlines()]
    times = {words[0]: list(map(int, words[1:9])) for words in lines if words[0].startswith("cpu")}
    return sum(sum(times[f"cpu{cpu}"]) - sum(times[f"cpu{cpu}"][3:5]) for cpu in CPUS) / TICK


def of_process(pid):
    """Returns the CPU seconds of a process and of its child processes that have ended."""
    try:
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, words[11:15])) / TICK


def own():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used) + sum(of_process(process.pid) for process in children.running)


class Watch:
    def __init__(self):
        self.before = self.look()

    def look(self):
        try:
            return time.monotonic(), busy() - own()
        except (OSError, KeyError):  # not Linux, or /proc is hidden
            return None

    def others(self):
        """Returns the share of CPU time that other processes have used since the start, or None if it is unknown."""
        after = self.look()
        if not self.before or not after:
            return None
        return max(0.0, after[1] - self.before[1]) / ((after[0] - self.before[0]) * len(CPUS))
