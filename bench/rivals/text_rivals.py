"""Tokenizers against tiktoken, fastokens and rustbpe, as `compare` does them."""

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
    """The file of documents: the one given, else one gathered once."""
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
    """What is missing for these rows, before anything is measured."""
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
    """Learns merges with `gpt tokenizer train`: the whole program, from starting it to the written file."""
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

    measure.folder = folder  # stays as long as this
    return measure


def sides(args, work, worker):
    """What measures ours, what measures the rival, and the rival; both give the same facts about their results."""
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
    """Both sides must have done the same."""
    for fact in ("ids", "sum", "vocab_size"):
        if fact in pair["theirs"] and pair["ours"][fact] != pair["theirs"][fact]:
            raise children.RowFailed(f"{fact} is {pair['ours'][fact]} here and {pair['theirs'][fact]} there")
