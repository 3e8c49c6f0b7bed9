"""Collects text on this machine for measuring tokenizers, without duplicate documents."""

import hashlib
import os
import pathlib

TOPS = ("/usr/share", "/usr/include", "/usr/lib", "/usr/local", "/opt")
KINDS = {
    "Python": (".py",),
    "C headers and sources": (".h", ".hpp", ".hh", ".inc", ".c", ".cc", ".cpp"),
    "documents": (".txt", ".md", ".rst", ".html", ".pod", ".pm", ".json", ".cmake", ".sh", "copyright"),
}
KIND_BYTES = 30_000_000


def names():
    """Returns file names by kind, in an order that does not depend on their folders."""
    found = {kind: [] for kind in KINDS}
    for top in TOPS:
        for folder, _, files in os.walk(top):
            for name in files:
                for kind, ends in KINDS.items():
                    if name.endswith(ends):
                        found[kind].append(os.path.join(folder, name))
    for files in found.values():
        files.sort(key=lambda path: hashlib.md5(path.encode()).digest())
    return found


def document(path):
    """Returns the bytes of a file if it is UTF-8 text of suitable size, else None."""
    try:
        if os.path.islink(path) or not 200 <= os.path.getsize(path) <= 400_000:
            return None
        data = pathlib.Path(path).read_bytes()
        data.decode()
    except (OSError, UnicodeDecodeError):
        return None
    return None if b"\0" in data else data


def write_documents(path):
    seen, sizes = set(), {}
    with open(path, "wb") as out:
        for kind, files in names().items():
            sizes[kind] = 0
            for name in files:
                data = document(name) if sizes[kind] < KIND_BYTES else None
                if data is None or (digest := hashlib.md5(data).digest()) in seen:
                    continue
                seen.add(digest)
                sizes[kind] += len(data)
                out.write(data + b"\0")
    return sizes


def write_corpus(path):
    """Writes documents to a file, each terminated by a zero byte. Returns the number of bytes by kind."""
    partial = pathlib.Path(f"{path}.{os.getpid()}")
    try:
        sizes = write_documents(partial)
        partial.rename(path)
    finally:  # also after a signal
        partial.unlink(missing_ok=True)
    return sizes
