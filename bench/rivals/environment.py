"""Python environments for the other programs: PyTorch, llama-cpp-python, the text libraries (tiktoken, fastokens, rustbpe), and gguf."""

import functools
import os
import pathlib
import shutil
import sys

import children

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "gpt-rivals"

# Packages of each environment, and the module that shows whether a package is installed.
NEEDS = {
    "PYTHON_TORCH": {"torch": "torch", "numpy": "numpy"},
    "PYTHON_LLAMA": {"llama-cpp-python": "llama_cpp", "numpy": "numpy"},
    "PYTHON_GGUF": {"gguf": "gguf", "numpy": "numpy"},
    "PYTHON_TEXT": {"tiktoken": "tiktoken", "fastokens": "fastokens", "rustbpe": "rustbpe"},
}
ALL = {package: module for need in NEEDS.values() for package, module in need.items()}


def note(text):
    print(text, file=sys.stderr, flush=True)


def check_named(variables):
    """Exits unless the interpreters named by environment variables exist and have their packages."""
    for variable in filter(os.environ.get, variables):
        named = os.environ[variable]
        if not shutil.which(named):
            sys.exit(f"compare: {variable}={named}: no such program; expected a Python that has {', '.join(NEEDS[variable])}")
        if packages := missing(named, NEEDS[variable]):
            sys.exit(f"compare: {variable}={named} lacks {', '.join(packages)}")


def missing(python, need):
    """Returns the packages of `need` that the interpreter does not have."""
    check = "import importlib.util, sys; print(*[m for m in sys.argv[1:] if importlib.util.find_spec(m) is None])"
    found = children.run_or_fail([python, "-c", check, *need.values()]).stdout
    return [package for package, module in need.items() if module in found.split()]


def own_python(need):
    """Returns the interpreter of the virtual environment in CACHE. Creates the environment and installs missing packages first."""
    python = CACHE / "venv" / "bin" / "python"
    if not python.with_name("pip").exists():  # pip is installed last
        note(f"making a virtual environment in {CACHE / 'venv'}")
        if children.run([sys.executable, "-m", "venv", CACHE / "venv"], capture=False).returncode != 0:
            raise children.RowFailed("cannot make a virtual environment; on Debian and Ubuntu install python3-venv")
    packages = missing(python, need)
    if packages:
        note(f"installing {', '.join(packages)}")
        children.run_or_fail([python, "-m", "pip", "install", "--quiet", *packages], capture=False)
    return str(python)


@functools.cache
def python_for(variable):
    """Returns the interpreter that the environment variable names, else that of own_python."""
    return os.environ.get(variable) or own_python(NEEDS[variable])
