"""Compares tokenizers with tiktoken, fastokens and rustbpe. Used by `compare`."""

import json
import pathlib
import sys
import tempfile
import time

import children
import environment
import text_corpus
import works
from environment import note


def corpus(args):
    """Returns the file of documents: --documents, or a file that is collected once."""
    if args.documents:
        return pathlib.Path(args.documents).resolve()
    path = environment.CACHE / "documents"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        note(f"gathering text: {text_corpus.write_corpus(path)}")
    return path


def encode_worker(args):
    return args.gpt.resolve().parent / "bench/text/encode_worker"


def refuse(args, chosen):
    """Exits before any measurement if files for these rows are missing."""
    if args.documents and not pathlib.Path(args.documents).is_file():
        sys.exit(f"compare: --documents {args.documents}: no such file")
    if all(work.vocab_size for work in chosen):
        return
    for name in ("vocab.json", "merges.txt"):
        if not (pathlib.Path(args.vocab) / name).exists():
            sys.exit(f"compare: --vocab {args.vocab}: no {name} of GPT-2 in there; scripts/get-data fetches it")
    if not encode_worker(args).exists():
        sys.exit(f"compare: {encode_worker(args)} is missing; build it")


def our_trainer(args, work, documents):
    """Returns a function that measures `gpt tokenizer train`, from the start of the program to the written file."""
    data = pathlib.Path(documents).read_bytes()
    folder = tempfile.TemporaryDirectory()
    lines = pathlib.Path(folder.name) / "documents.jsonl"
    with open(lines, "w") as out:
        out.writelines(json.dumps({"text": text.decode()}, ensure_ascii=False) + "\n"
                       for text in data.split(b"\0")[:-1])
    megabytes = (len(data) - data.count(b"\0")) / 1e6
    command = [args.gpt, "tokenizer", "train", "--data", lines, "--vocab-size", work.vocab_size, "--no-special",
               "--pattern", "gpt4", "--threads", args.threads, "--out", folder.name + "/out", "--force"]

    def measure():
        start = time.perf_counter()
        children.run_or_fail(command)
        seconds = time.perf_counter() - start
        size = len(json.loads(pathlib.Path(folder.name + "/out/tokenizer.json").read_text())["model"]["vocab"])
        return {"megabytes_per_second": megabytes / seconds, "seconds": seconds, "vocab_size": size}

    measure.folder = folder  # keeps the folder while the function exists
    return measure


def sides(args, work, worker):
    """Returns functions that measure gpt and the rival, and the rival's worker. Both functions return the same facts about their results."""
    documents, threads = str(corpus(args)), work.threads or args.threads
    config = {"rival": work.rival, "documents": documents, "threads": threads}
    request = "fresh" if work.fresh else ""
    if not work.vocab_size:
        config["vocab"] = str(pathlib.Path(args.vocab).resolve())
        own = worker([encode_worker(args), config["vocab"], documents, threads])

        def ours():
            return own.measure(request)
    else:
        config.update(vocab_size=work.vocab_size, pattern=works.GPT4_PATTERN)
        ours = our_trainer(args, work, documents)
    python = environment.python_for("PYTHON_TEXT")
    rival = worker([python, "text_worker.py", json.dumps(config)])
    return ours, lambda: rival.measure(request), rival


def check(work, pair):
    """Raises RowFailed unless both sides have the same results."""
    for fact in ("ids", "sum", "vocab_size"):
        if fact in pair["theirs"] and pair["ours"][fact] != pair["theirs"][fact]:
            raise children.RowFailed(f"{fact} is {pair['ours'][fact]} here and {pair['theirs'][fact]} there")
