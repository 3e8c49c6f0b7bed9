"""Starts the child processes of `compare`. Each is a session leader, so that its own child processes can be ended with it."""

import contextlib
import os
import signal
import subprocess
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
running = []


class RowFailed(Exception):
    """The reason why a row has no results or no further results."""


class Stopped(BaseException):
    """Raised when a signal asks the program to end."""

    def __init__(self, number, _):
        self.number = signal.Signals(number)


def stop(number, frame):
    for other in SIGNALS:  # the cleanup is short and must not be interrupted
        signal.signal(other, signal.SIG_IGN)
    raise Stopped(number, frame)


def unblock():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def start(command, **options):
    try:
        # No signal may arrive before the process is in `running`.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        process = subprocess.Popen([str(word) for word in command], text=True, start_new_session=True, preexec_fn=unblock,
                                   **options)
        running.append(process)
    finally:
        unblock()
    return process


def run(command, capture=True, **options):
    """Runs a command like subprocess.run. Without `capture`, all output goes to standard error."""
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
    """Ends a process and its whole session with SIGTERM, and with SIGKILL after two seconds."""
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
    """Context in which signals raise Stopped. Ends all child processes on exit. Ignored signals (nohup) stay ignored."""
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
