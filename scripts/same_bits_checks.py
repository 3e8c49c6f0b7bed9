"""The checks of `same-bits`: small tasks for one gpt program, by kind. Needs no Python packages."""
import concurrent.futures
import hashlib
import http.client
import json
import os
import subprocess
from pathlib import Path

from gpt_server import GptServer

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
FAMILIES = sorted(p.parent.name for p in (TESTS / "golden/data").glob("*/golden.safetensors"))
DTYPES = ["fp32", "bf16", "fp16"]
WEIGHTS = ["fp32", "bf16", "fp16", "q8_0", "q4_0"]
CACHES = ["fp32", "bf16", "fp16", "int8", "q4_0"]
QUANTS = ["q8_0", "q6_k", "q5_k", "q4_k", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
PROMPT = "84,104,101,32,113,117,105,99,107"
STORY = ("Once upon a time there was a little fox who lived in a wood. Every day the fox went to the river, and every day the "
         "river was a little wider. ")
# Keys of measurements or machine properties, which may differ between two runs of the same program.
VARYING = {"seconds", "tok_per_s", "train_seconds", "eval_seconds", "sample_seconds", "save_seconds", "setup_seconds",
           "peak_bytes", "data_folder", "threads", "eval_tok_per_s", "draft_tokens", "accepted_tokens"}


class Failed(Exception):
    pass


class Gpt:
    """A program with an instruction set and a number of threads, which runs in its own folder."""

    def __init__(self, program, isa, threads, steps, folder):
        self.program, self.threads, self.steps, self.folder = str(program), threads, steps, Path(folder)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GPT_")}
        self.environment = {**environment, "GPT_ISA": isa}

    def __call__(self, *words):
        """Runs the program and returns its standard output."""
        words = merged(words)
        try:
            done = subprocess.run([self.program, *words], env=self.environment, cwd=self.folder, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, errors="replace", timeout=900)
        except subprocess.TimeoutExpired:
            raise Failed(f"gpt {' '.join(words)} took more than 15 minutes") from None
        if done.returncode != 0:
            notes = done.stderr.strip().splitlines()
            note = next((line for line in notes if line.startswith("gpt: ")), notes[-1] if notes else "no message")
            raise Failed(f"{note} (status {done.returncode} of gpt {' '.join(words)})")
        return done.stdout

    def compute(self, *words):
        return self(*words, f"--threads {self.threads}")

    def launch(self, processes, *words):
        return self("launch", "-n", processes, "--", *words, f"--threads {self.threads}")

    def json(self, *words):
        return json.loads(self.compute(*words, "--json"))

    # Returns the computed values of a run.
    def run(self, out):
        return {**self.files(out), "metrics": self.metrics(out)}

    def metrics(self, out):
        lines = (self.folder / out / "metrics.jsonl").read_text().splitlines()
        return [steady(json.loads(line)) for line in lines]

    def files(self, path):
        """Returns the hash of a file, or of all files in a folder whose content is deterministic."""
        path = self.folder / path
        if path.is_file():
            return {path.name: digest(path.read_bytes())}
        found = {}
        for file in sorted(path.rglob("*")):
            name = str(file.relative_to(path))
            if file.name in ("train_state.json", "tokenizer.json", "config.json", "adapter_config.json", "task.json"):
                object_ = steady(json.loads(file.read_text().replace(str(self.folder), "FOLDER")))
                found[name] = object_ if file.name == "train_state.json" else digest(json.dumps(object_).encode())
            elif file.suffix in (".safetensors", ".gguf", ".bin"):
                found[name] = digest(file.read_bytes())
        return {f"{path.name}/{name}": value for name, value in found.items()}

    def ids(self, model, *words):
        """Returns ids and log-probabilities of a greedy continuation."""
        return self.json("generate", model, "--ids", PROMPT, "--greedy --ignore-eos --max-tokens 16 --logprobs 1",
                         *words)["completions"]

    def loss(self, model, *words):
        return steady(self.json("eval", model, "tales:3000", *words))

    def train(self, out, *words):
        """Trains a model. Later words override the defaults."""
        self.compute("train", *SMALL, f"--steps {self.steps}", f"--eval-every {max(1, self.steps // 2)}", *words,
                     "--out", out)
        return self.run(out)


SMALL = ["--vocab-size 256 --tokenizer byte --data tales:60000 --batch-size 4 --micro-batch 2 --warmup 5 --lr 1e-3 "
         "--eval-batches 2 --log-every 1 --dropout 0.1"]
SHAPE = "--n-layer 2 --n-head 2 --n-embd 32 --n-ctx 32"
LLAMA = (SHAPE + " --n-head 4 --n-kv-head 2 --norm rms --position rope --act swiglu --qkv-bias false --out-bias false "
         "--mlp-bias false --tie-embeddings false")


def merged(words):
    """Returns the words of a command line. Texts that begin with -- are split. If a flag is repeated, the last one counts.
    """
    split = [word for part in map(str, words) for word in (part.split() if part.startswith("--") else [part] if part else [])]
    parts = [[]]
    for word in split:
        if word.startswith("--") and word != "--":
            parts = [p for p in parts if p[:1] != [word] or word in ("--prompt", "--adapter")] + [[word]]
        else:
            parts[-1].append(word)
    return [word for part in parts for word in part]


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def steady(value):
    """Removes keys that may vary."""
    if isinstance(value, dict):
        return {k: steady(v) for k, v in value.items() if k not in VARYING}
    return [steady(v) for v in value] if isinstance(value, list) else value


def write_lines(path, objects):
    path.write_text("".join(json.dumps(o) + "\n" for o in objects))


# Each function below adds checks of one kind with add(name, run). run(gpt) returns a dict of the values to compare.


def add_families(add):
    for family in FAMILIES:
        for dtype in DTYPES:
            add(f"{family} {dtype}", lambda gpt, family=family, dtype=dtype: of_family(gpt, family, dtype))


def of_family(gpt, family, dtype):
    shape = gpt.folder / "shape.json"
    shape.write_text(json.dumps(json.loads(gpt("info", TESTS / "golden/data" / family, "--json"))["config"]))
    result = gpt.train("run", "--config shape.json", f"--dtype {dtype}")
    if dtype == "fp32":
        result.update({f"ids {w}": gpt.ids("run", "--dtype", w) for w in WEIGHTS})
        result.update({f"ids, cache {c}": gpt.ids("run", "--kv-dtype", c) for c in CACHES[:4]})
    return result


TRAININGS = {
    "muon": "--optimizer muon",
    "muon-nanochat": "--optimizer muon-nanochat --ema 0.9",
    "muon, rms of adamw": "--optimizer muon --muon-adjust match_rms_adamw --clip-value 0.01",
    "muon, spectral": "--optimizer muon --muon-adjust spectral_unclamped --muon-momentum 0.9 --zero 1",
    "recompute": "--recompute",
    "recompute, accumulation": "--recompute --micro-batch 1 --batch-size 6",
    "shards": "--grad-shards 6 --batch-size 12 --micro-batch 1",
    "averages": "--ema 0.9",
    "groups": "--embedding-lr 2e-3 --head-lr 5e-4 --vector-lr 3e-3 --layer-decay 0.7 --weight-decay 0.2",
    "frozen": "--freeze wte.* *.attn.* --lr-scale *.mlp.*=0.5",
    "clipped values": "--clip-value 0.01 --clip-norm 0",
    "outliers": "--outlier-z 1 --schedule wsd",
    "epochs": "--sampling epoch",
    "samples": "--sample-every 3 --eval-train",
    "overflows": "--init-std 3 --lr 0.1 --clip-norm 0",
    "no layers": "--n-layer 0",
}
SWITCHES = {
    "window": LLAMA + " --sliding-window 7",
    "softcap": LLAMA + " --logit-softcap 15 --qk-norm --rope-sign -1 --rope-dtype bf16 --act relu2 --norm-affine false",
    "interleaved": LLAMA + " --rope-layout interleaved --embd-norm --head-bias",
    "post": SHAPE + " --norm-position post --act gelu --n-kv-head 1 --final-norm false",
    "wide heads": SHAPE + " --head-dim 24 --d-ff 72 --act relu --norm-bias false",
}


def add_training(add):
    for dtype in DTYPES:
        for name, flags in TRAININGS.items():
            for shape in (SHAPE, LLAMA) if name.startswith(("muon", "recompute")) else (SHAPE,):
                add(f"{name}{', llama' if shape is LLAMA else ''} {dtype}",
                    lambda gpt, flags=flags, shape=shape, dtype=dtype: gpt.train("run", shape, f"--dtype {dtype}", flags))
        for name, flags in SWITCHES.items():
            add(f"{name} {dtype}", lambda gpt, flags=flags, dtype=dtype: {
                **gpt.train("run", flags, f"--dtype {dtype}"), "ids": gpt.ids("run"),
                "slide": gpt.ids("run", "--context slide --max-tokens 40") if "rope" in flags else None})
        for name, flags in {"adamw": "--ema 0.9", "muon": "--optimizer muon --recompute"}.items():
            add(f"resumed {name} {dtype}", lambda gpt, flags=flags, dtype=dtype: resumed(gpt, f"{flags} --dtype {dtype}"))
        add(f"documents {dtype}", lambda gpt, dtype=dtype: of_documents(gpt, dtype))
    add("further", further)


def of_documents(gpt, dtype):
    tales = gpt("data", "tales", "--bytes 40000").split("\n")
    write_lines(gpt.folder / "documents.jsonl", [{"text": line} for line in tales if line])
    return gpt.train("run", SHAPE, f"--dtype {dtype} --pack-documents --data documents.jsonl --vocab-size 432 --tokenizer",
                     TESTS / "data/chat.tokenizer.json")


def resumed(gpt, flags):
    """Checks that a run in three parts equals an uninterrupted one."""
    whole = gpt.train("whole", SHAPE, flags)
    gpt.train("parts", SHAPE, flags, f"--stop-after {gpt.steps // 3}")
    gpt.compute("train", f"--resume --stop-after {gpt.steps // 2} --out parts")
    gpt.compute("train", "--resume --out parts")
    parts = gpt.run("parts")
    for name in ("last/model.safetensors", "last/train_state.safetensors"):
        if whole[f"whole/{name}"] != parts[f"parts/{name}"]:
            raise Failed(f"a resumed run has a different {name}")
    return {**whole, **parts}


def further(gpt):
    """Starts a second run from the weights of the first, and extends the first run."""
    first = gpt.train("first", SHAPE)
    gpt.compute("train", f"--init-from first --data tales:50000 --steps {gpt.steps} --warmup 2 --batch-size 4 --eval-every 0",
                "--out second")
    gpt.compute("train", f"--resume --steps {gpt.steps + 4} --out first")
    return {"first": first, **gpt.run("second"), "more": gpt.run("first")}


RANKS = {"exact, zero 0": "--zero 0", "exact, zero 1": "--zero 1", "exact, zero 2": "--zero 2 --ema 0.9",
         "exact, zero 3": "--zero 3 --sample-every 4", "exact, zero 3, recompute": "--zero 3 --recompute",
         "muon, zero 2": "--zero 2 --optimizer muon", "muon-nanochat, zero 3": "--zero 3 --optimizer muon-nanochat",
         "fast": "--reduce fast", "fast, zero 1": "--reduce fast --zero 1", "fast-bf16, zero 3": "--reduce fast-bf16 --zero 3 --micro-batch 2"}


def add_ranks(add):
    for dtype in DTYPES:
        for name, flags in RANKS.items():
            add(f"{name} {dtype}", lambda gpt, flags=flags, dtype=dtype: on_ranks(gpt, f"{flags} --dtype {dtype}"))
    add("resumed", resumed_ranks)
    add("chat", lambda gpt: tuned_on_ranks(gpt, "chat", "chat.jsonl", "--template chatml --zero 1"))
    add("dpo, lora", lambda gpt: tuned_on_ranks(gpt, "dpo", "dpo.jsonl", "--lora-rank 4"))
    add("classify", lambda gpt: tuned_on_ranks(gpt, "classify", "labels.jsonl", ""))
    add("evaluation", lambda gpt: {"loss": evaluated_by_ranks(gpt)})


def launched(gpt, processes, out, *words):
    gpt.launch(processes, "train", *SMALL, SHAPE, "--batch-size 6 --micro-batch 1", f"--steps {gpt.steps}",
               f"--eval-every {gpt.steps // 2}", *words, "--out", out)
    return gpt.run(out)


def on_ranks(gpt, flags):
    """Trains on three ranks. Exact sums must not depend on the number of ranks."""
    shards = "" if "fast" in flags else "--grad-shards 3 --micro-batch 2"
    result = launched(gpt, 3, "three", flags, *shards.split())
    if shards:
        one = gpt.train("one", SHAPE, flags, "--batch-size 6", shards)
        if one["one/last/model.safetensors"] != result["three/last/model.safetensors"]:
            raise Failed("one process and three have different weights")
    return result


def resumed_ranks(gpt):
    launched(gpt, 3, "run", "--grad-shards 6 --zero 1", f"--stop-after {gpt.steps // 3}")
    gpt.compute("train", f"--resume --stop-after {gpt.steps // 2} --out run")
    gpt.launch(2, "train", "--resume --zero 0 --out run")
    return gpt.run("run")


def tuned_on_ranks(gpt, task, data, flags):
    base_model(gpt)
    examples(gpt)
    gpt.launch(3, "finetune", "base", f"--task {task} --data {data} --steps 4 --batch-size 6 --eval-every 2", flags,
               "--out tuned")
    return gpt.run("tuned")


def evaluated_by_ranks(gpt):
    base_model(gpt)
    return steady(json.loads(gpt.launch(3, "eval", "base", "tales:6000", "--json")))


def base_model(gpt):
    """Trains a base model with its own tokenizer."""
    gpt.compute("train", "--data tales:30000 --tokenizer", TESTS / "data/bpe.tokenizer.json",
                "--n-layer 2 --n-head 2 --n-embd 32 --n-ctx 64 --steps 6 --warmup 0 --batch-size 4 --eval-every 0 --out base")


def examples(gpt):
    names = [chr(ord("a") + i % 4) for i in range(40)]
    write_lines(gpt.folder / "chat.jsonl", [{"messages": [{"role": "user", "content": f"Say {n}"},
                                                          {"role": "assistant", "content": n * (i % 5 + 1)}]}
                                            for i, n in enumerate(names)])
    write_lines(gpt.folder / "dpo.jsonl", [{"prompt": n, "chosen": f"yes {i}", "rejected": "no"} for i, n in enumerate(names)])
    write_lines(gpt.folder / "grpo.jsonl", [{"prompt": n, "answer": "e"} for n in names])
    write_lines(gpt.folder / "labels.jsonl", [{"text": f"the {n} {i}", "label": "one" if n in "ab" else "other"}
                                              for i, n in enumerate(names)])
    write_lines(gpt.folder / "similar.jsonl", [{"text1": f"a {n}", "text2": f"some {n} {i}", "label": i % 5}
                                               for i, n in enumerate(names)])
    write_lines(gpt.folder / "choose.jsonl", [{"context": f"After {n}", "choices": ["one", f"{n} {i}"], "label": i % 2}
                                              for i, n in enumerate(names)])


TUNINGS = {"chat": ("chat", "--template chatml"), "dpo": ("dpo", "--lr 1e-3"),
           "grpo": ("grpo", "--rollouts 4 --max-tokens 6 --batch-size 8 --reward regex"), "classify": ("labels", ""),
           "similar": ("similar", "--head-dropout 0"), "choose": ("choose", "")}


def add_finetune(add):
    for task, (data, flags) in TUNINGS.items():
        for dtype in DTYPES:
            add(f"{task} {dtype}", lambda gpt, task=task, data=data, flags=flags, dtype=dtype: tuned(
                gpt, "base", task, f"--data {data}.jsonl {flags} --dtype {dtype}"))
    for base in ["fp32", "bf16", "q8_0", "q4_0"]:
        for dtype in DTYPES:
            add(f"lora chat on {base}, {dtype}", lambda gpt, base=base, dtype=dtype: adapted(gpt, base, "chat", dtype))
    for task in ["dpo", "grpo"]:
        add(f"lora {task} on fp32, fp32", lambda gpt, task=task: adapted(gpt, "fp32", task, "fp32"))
    add("muon, recompute", lambda gpt: tuned(gpt, "base", "chat", "--data chat.jsonl --template chatml --optimizer muon --recompute "
                                             "--dropout 0.1"))


def tuned(gpt, base, task, flags, out="tuned"):
    """Fine-tunes in two parts: stops early and resumes."""
    if not (gpt.folder / "base").exists():
        base_model(gpt)
        examples(gpt)
    batch = "" if "--batch-size" in flags else "--batch-size 4"
    gpt.compute("finetune", base, f"--task {task}", flags, batch, "--steps 6 --eval-every 3 --log-every 1 --stop-after 4 --out", out)
    gpt.compute("finetune", "--resume --out", out)
    result = gpt.run(out)
    if task in ("classify", "similar", "choose"):
        result["labels"] = gpt.compute("classify", out, "--data", "labels.jsonl" if task == "classify" else f"{task}.jsonl")
    return result


def adapted(gpt, base, task, dtype):
    """Trains, uses, merges and converts an adapter for a base model of a stored dtype."""
    base_model(gpt)
    examples(gpt)
    data, flags = TUNINGS[task]
    if task == "chat":  # a chat format that the base already knows
        gpt.compute("finetune", "base", "--task chat --data chat.jsonl --template chatml --steps 1 --batch-size 4 --out", "talker")
    model = {"fp32": "talker" if task == "chat" else "base"}.get(base, f"{base}.gguf" if base.startswith("q") else base)
    if base != "fp32":
        gpt("convert", "talker", model, *(["--quant", base] if base.startswith("q") else ["--dtype", base]))
    flags = flags.replace("--template chatml", "")
    result = tuned(gpt, model, task, f"--data {data}.jsonl {flags} --dtype {dtype} --lora-rank 4 --lora-dropout 0.1 --rslora")
    result["ids"] = gpt.ids(model, "--adapter", "tuned")
    result["ids, scaled"] = gpt.ids(model, "--adapter", "tuned=0.5", "--adapter", "tuned=0.25")
    result["loss"] = gpt.loss(model, "--adapter", "tuned")
    if base == "fp32":
        gpt("convert", model, "merged", "--adapter", "tuned")
        gpt("convert", "tuned", "tuned.gguf", "--base", model)
        gpt("convert", "tuned.gguf", "peft", "--to", "peft", "--base", model)
        result.update({**gpt.files("merged"), **gpt.files("tuned.gguf"), **gpt.files("peft")})
    return result


SAMPLERS = {
    "plain": "--temperature 1 --top-k 0", "top-k": "--top-k 5", "top-p": "--top-k 0 --top-p 0.8",
    "top-p reaching": "--top-k 0 --top-p 0.8 --top-p-rule reaching", "min-p": "--top-k 0 --min-p 0.05",
    "penalties": "--presence-penalty 0.5 --frequency-penalty 0.3 --repetition-penalty 1.2",
    "bias": "--logit-bias 101=2,32=-inf", "n": "--n 5 --top-k 20", "beams": "--beams 4 --n 3 --length-penalty 0.8",
    "n-grams": "--speculate ngram --draft-tokens 5", "greedy n-grams": "--speculate ngram --greedy",
    "draft": "--draft model --draft-tokens 4", "regex": "--regex [a-z]{3,12}( [a-z]{3,12}){3}", "crop": "--context crop --max-tokens 150",
    "in place": "--dtype bf16 --in-place",
}


def add_inference(add):
    for weights in WEIGHTS:
        add(f"sampling {weights}", lambda gpt, weights=weights: sampled(gpt, f"--dtype {weights}"))
    for cache in CACHES:
        add(f"sampling, cache {cache}", lambda gpt, cache=cache: sampled(gpt, f"--kv-dtype {cache}"))
    for weights, cache in [("fp32", "fp32"), ("bf16", "bf16"), ("q8_0", "int8")]:
        add(f"server {weights}", lambda gpt, weights=weights, cache=cache: served(gpt, f"--dtype {weights} --kv-dtype {cache}"))
        add(f"small server {weights}", lambda gpt, weights=weights, cache=cache: served(
            gpt, f"--dtype {weights} --kv-dtype {cache} --step-rows 7 --sequences 5 --kv-memory 1e-6 --n-ctx 128"))
    add("server, n-grams", lambda gpt: served(gpt, "--speculate ngram"))
    for weights in WEIGHTS:
        add(f"evaluation {weights}", lambda gpt, weights=weights: evaluated(gpt, weights))
    for model in ["gpt2", "llama"]:
        add(f"tasks {model}", lambda gpt, model=model: tasks(gpt, TESTS / "data/tasks" / model))
    for family in FAMILIES:
        add(f"trace {family}", lambda gpt, family=family: {
            dtype: json.loads(gpt("trace", TESTS / "golden/data" / family, "--ids 1,5,7,2 --json --dtype", dtype))
            for dtype in ["fp32", "fp64"]})


def inference_model(gpt):
    gpt.compute("train", "--data tales:100000 --tokenizer byte --preset tiny --n-layer 2 --n-embd 128 --n-head 4 --n-kv-head 2 "
                "--n-ctx 128 --batch-size 4 --steps 10 --warmup 0 --eval-every 0 --sample-every 0 --out model")


def sampled(gpt, flags):
    inference_model(gpt)
    result = {}
    for name, more in SAMPLERS.items():
        scores = [] if "--beams" in more else ["--logprobs 3"]
        words = more.split(" ", 1) if "--regex" in more else [more]
        if "--in-place" in more:
            flags = flags if "--kv-dtype" in flags else ""
        completions = gpt.json("generate", "model", "--prompt", STORY[:70], "--prompt", "The", "--max-tokens 24 --seed 7",
                               "--ignore-eos", flags, *scores, *words)["completions"]
        result[name] = steady(completions)
    return result


def served(gpt, flags):
    """Sends requests that are computed concurrently."""
    inference_model(gpt)
    server = GptServer(gpt.program, "m=model", *flags.split(), "--access-log", "/dev/null", "--threads", str(gpt.threads),
                       cwd=gpt.folder, env=gpt.environment)
    try:
        with concurrent.futures.ThreadPoolExecutor(len(REQUESTS)) as pool:
            return dict(zip(REQUESTS, pool.map(lambda request: ask(server.port, *request), REQUESTS.values())))
    finally:
        server.stop()


REQUESTS = {name: (path, {"model": "m", "max_tokens": 20, "temperature": 0, "logprobs": 3, "ignore_eos": True, **body})
            for name, path, body in [
                ("greedy", "completions", {"prompt": STORY[:90]}),
                ("prompts", "completions", {"prompt": [STORY[:80], "The fox", "A river " * 6], "temperature": 1, "seed": 4}),
                ("seeded, n", "completions", {"prompt": STORY[:80], "temperature": 0.9, "seed": 8, "n": 4}),
                ("cut", "completions", {"prompt": "The", "temperature": 1.2, "seed": 9, "top_k": 40, "top_p": 0.9, "min_p": 0.01}),
                ("penalties", "completions", {"prompt": "The", "temperature": 0.7, "seed": 3, "presence_penalty": 0.5,
                                              "repetition_penalty": 1.1}),
                ("best of", "completions", {"prompt": "The", "temperature": 1, "seed": 5, "best_of": 4, "n": 2}),
                ("form", "completions", {"prompt": "The", "guided_regex": "[a-z]{3,12}( [a-z]{3,12}){3}", "ignore_eos": False}),
                ("echo", "completions", {"prompt": STORY[:60], "echo": True, "max_tokens": 4})]}
REQUESTS["embeddings"] = ("embeddings", {"model": "m", "input": [STORY[:80], "The fox"]})


def ask(port, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", f"/v1/{path}", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read().decode()
    if response.status != 200:
        raise Failed(f"{path}: {response.status}: {text[:200]}")
    return [part for part in json.loads(text).get("choices" if path == "completions" else "data")]


def evaluated(gpt, weights):
    inference_model(gpt)
    return {name: gpt.loss("model", f"--dtype {weights}", *more.split())
            for name, more in {"windows": "", "stride": "--stride 24 --batch-size 3", "short": "--n-ctx 40",
                               "against": "--against fp32" if weights != "fp32" else "--against bf16"}.items()}


def tasks(gpt, model):
    result = {}
    for file in ["animals", "choice", "hellaswag_local"]:
        result[file] = steady(gpt.json("eval", model, "--tasks", TESTS / f"data/tasks/tasks/{file}.yaml",
                                       f"--log-samples {file}.jsonl --batch-size 3"))
        result[f"{file} samples"] = digest((gpt.folder / f"{file}.jsonl").read_bytes())
    result["core"] = steady(gpt.json("eval", model, "--tasks", TESTS / "data/tasks/core/core.yaml"))
    return result


def add_formats(add):
    add("written", written)
    add("stored types", stored_types)
    add("read", read)
    add("data", packed_data)
    for family in FAMILIES:
        add(f"converted {family}", lambda gpt, family=family: converted(gpt, TESTS / "golden/data" / family))


def stored_types(gpt):
    """Converts a model to every dtype that files support. All of its rows are multiples of the quantization blocks."""
    gpt.compute("train", "--data tales:60000 --preset tiny --n-layer 1 --n-embd 256 --d-ff 512 --n-head 4 --n-kv-head 2",
                "--steps 3 --warmup 0 --eval-every 0 --sample-every 0 --out run")
    result = {}
    for name in DTYPES + QUANTS:
        path = name if name in DTYPES else f"{name}.gguf"
        gpt("convert", "run", path, "--dtype" if name in DTYPES else "--quant", name)
        result.update(gpt.files(path))
        result[f"{name} ids"], result[f"{name} loss"] = gpt.ids(path), gpt.loss(path)
        if name in ("q4_k", "q8_0", "iq4_nl"):
            result[f"{name} ids, bf16"] = gpt.ids(path, "--dtype bf16")
            gpt("convert", path, f"{name}-hf", "--dtype fp32")
            result.update(gpt.files(f"{name}-hf"))
    return result


def written(gpt):
    """Writes formats of other programs with the shapes that they support, shards, and averages."""
    result = {}
    for name, format_, shape in [("gpt2", "llmc", SHAPE), ("llama", "llama2c", LLAMA + " --n-kv-head 2 --rope-layout interleaved")]:
        gpt.train(name, shape)
        gpt("convert", name, f"{name}.bin", "--to", format_)
        gpt("convert", f"{name}.bin", f"{name}-hf")
        result.update({**gpt.files(f"{name}.bin"), **gpt.files(f"{name}-hf")})
    gpt.train("other", SHAPE, "--seed 2")
    gpt("convert", "gpt2", "mean", "--average", "other")
    gpt("convert", "gpt2", "shards", "--max-shard-size", "20KB", "--dtype", "bf16")
    result.update({**gpt.files("mean"), **gpt.files("shards"), "ids": gpt.ids("mean"), "shards": gpt.ids("shards")})
    return result


def read(gpt):
    """Reads files of other programs."""
    result = {}
    for path in ["torch/nanogpt.pt", "torch/mingpt", "adapters/blocks/base.gguf"]:
        out = path.replace("/", "-") + "-hf"
        gpt("convert", TESTS / "data" / path, out, "--dtype", "fp32")
        result.update(gpt.files(out))
        result[f"{path} ids"] = gpt.json("generate", out, "--ids 1,2,3 --greedy --max-tokens 6 --ignore-eos --logprobs 1")
    for adapter in sorted(p.parent for p in (TESTS / "data/adapters").glob("*/adapter")):
        base = next(adapter.glob("base*"))
        result[adapter.name] = gpt.json("generate", base, "--adapter", adapter / "adapter", "--ids 1,2,3 --greedy --max-tokens 6",
                                        "--ignore-eos --logprobs 1")
    return result


def converted(gpt, model):
    """Converts to bf16, and to GGUF and back if GGUF supports the model."""
    gpt("convert", model, "hf", "--dtype", "bf16")
    try:
        gpt("convert", model, "model.gguf", "--dtype", "fp16")
    except Failed:
        return {**gpt.files("hf"), "gguf": "refused"}
    gpt("convert", "model.gguf", "back", "--dtype", "fp32")
    return {**gpt.files("model.gguf"), **gpt.files("back"), **gpt.files("hf")}


def packed_data(gpt):
    (gpt.folder / "text.txt").write_text(gpt("data", "tales", "--bytes 40000"))
    gpt.compute("tokenizer", "train", "text.txt", "--vocab-size 300 --out tok")
    gpt("data", "pack", "text.txt", "--tokenizer tok --out packed")
    gpt.compute("train", "--data packed --tokenizer tok --n-layer 1 --n-head 2 --n-embd 16 --n-ctx 32 --steps 3 --warmup 0 --batch-size 2 "
                "--eval-every 0 --out run")
    return {**gpt.files("tok"), **gpt.files("packed"), **gpt.run("run")}


def add_golden(add):
    for family in FAMILIES:
        for dtype in ["fp32", "fp64", "bf16", "fp16"]:
            def computed(gpt, family=family, dtype=dtype):
                gpt.compute("verify", TESTS / "golden/data" / family, f"--dtype {dtype} --write computed.safetensors")
                return gpt.files("computed.safetensors")
            add(f"{family} {dtype}", computed)


KINDS = {"families": add_families, "training": add_training, "ranks": add_ranks, "finetune": add_finetune,
         "inference": add_inference, "formats": add_formats, "golden": add_golden}
