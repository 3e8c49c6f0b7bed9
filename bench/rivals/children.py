"""The processes that `compare` starts: each leads a session, so that it ends with all that it started in turn."""

import contextlib
import os
import signal
import subprocess
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
running = []


class RowFailed(Exception):
    """Why a row has no figures, or no more of them."""


class Stopped(BaseException):
    """A signal asked for the end."""

    def __init__(self, number, _):
        self.number = signal.Signals(number)


def stop(number, frame):
    for other in SIGNALS:  # what follows is short, and not to be disturbed
        signal.signal(other, signal.SIG_IGN)
    raise Stopped(number, frame)


def unblock():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def start(command, **options):
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # none may come before the process is noted
        process = subprocess.Popen([str(word) for word in command], text=True, start_new_session=True, preexec_fn=unblock,
                                   **options)
        running.append(process)
    finally:
        unblock()
    return process


def run(command, capture=True, **options):
    """As subprocess.run; without `capture` all output goes to standard error."""
    out, err = (subprocess.PIPE, subprocess.PIPE) if capture else (sys.stderr, None)
    process = start(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, **options)
    stdout, stderr = process.communicate()
    running.remove(process)
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def run_or_fail(command, **options):
    done = run(command, **options)
    if done.returncode != 0:
        raise RowFailed(f"{' '.join(map(str, command))}: status {done.returncode}\n{(done.stderr or '')[-4000:]}".strip())
    return done


def end(process):
    """Ends its whole session, by force after two seconds."""
    running.remove(process)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_all():
    for process in list(running):
        end(process)


@contextlib.contextmanager
def stoppable():
    """Within it a signal raises Stopped; after it no process is left. What is ignored (nohup) stays so."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        yield
    finally:
        end_all()
        for number in SIGNALS:
            if signal.getsignal(number) == stop:
                signal.signal(number, signal.SIG_DFL)
