"""The Python environments of the rivals: PyTorch's, llama-cpp-python's, that of tiktoken, fastokens and rustbpe, and the one that writes files."""

import os
import pathlib
import subprocess
import sys

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "gpt-rivals"

# What each environment needs: package, and the module that shows it is there.
NEEDS = {
    "PYTHON_TORCH": {"torch": "torch", "numpy": "numpy"},
    "PYTHON_LLAMA": {"llama-cpp-python": "llama_cpp", "numpy": "numpy"},
    "PYTHON_GGUF": {"gguf": "gguf", "numpy": "numpy"},
    "PYTHON_TEXT": {"tiktoken": "tiktoken", "fastokens": "fastokens", "rustbpe": "rustbpe"},
}
ALL = {package: module for need in NEEDS.values() for package, module in need.items()}


class RivalEnded(Exception):
    """The other side's process ended before it had measured."""


def note(text):
    print(text, file=sys.stderr, flush=True)


def missing(python, need):
    """The packages of `need` that the interpreter does not find."""
    check = "import importlib.util, sys; print(*[m for m in sys.argv[1:] if importlib.util.find_spec(m) is None])"
    found = subprocess.run([python, "-c", check, *need.values()], check=True, capture_output=True, text=True).stdout
    return [package for package, module in need.items() if module in found.split()]


def own_python(need):
    """The interpreter of our own virtual environment, made and filled first where that is needed."""
    python = CACHE / "venv" / "bin" / "python"
    if not python.exists():
        note(f"making a virtual environment in {CACHE / 'venv'}")
        try:
            subprocess.run([sys.executable, "-m", "venv", CACHE / "venv"], check=True, stdout=sys.stderr)
        except subprocess.CalledProcessError:
            sys.exit("compare: cannot make a virtual environment; on Debian and Ubuntu install python3-venv")
    packages = missing(python, need)
    if packages:
        note(f"installing {', '.join(packages)}")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True, stdout=sys.stderr)
    return str(python)


def python_for(variable):
    """The interpreter that the variable names, else our own."""
    named = os.environ.get(variable)
    if not named:
        return own_python(NEEDS[variable])
    packages = missing(named, NEEDS[variable])
    if packages:
        sys.exit(f"compare: {variable}={named} lacks {', '.join(packages)}")
    return named
