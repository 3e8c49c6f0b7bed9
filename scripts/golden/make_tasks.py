#!/usr/bin/env python3
"""Writes tests/data/tasks: tasks as YAML and JSONL, two small trained models, and the scores of other programs.

    make_tasks.py OUT --nanochat FOLDER [--keep-models]

lm-evaluation-harness 0.4.13 (its `hf` model, torch 2.15.0, transformers 5.23.0, fp32 on the CPU) runs the tasks of
OUT/tasks on the models OUT/gpt2 and OUT/llama. core_eval.py of nanochat (FOLDER/nanochat of
github.com/karpathy/nanochat, commit 92d63d4) runs the bundle OUT/core. OUT/expected.json receives the scores and the
log-likelihoods of all requests.

The texts describe a small world, and the models are trained on it for a minute, so that scores are neither 0 nor 1.
"""
import argparse
import importlib.util
import json
import os
import random
import shutil
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT = 192
VOCABULARY = 384
BOOTSTRAP = 2000  # resamples for standard errors; the default of 100,000 would take sklearn an hour
HOMES = ["the lake", "a cave", "the old mill", "a tall tree", "the café", "a burrow", "the harbour", "a hay-loft"]
FOODS = ["berries", "fish", "nuts", "honey", "bread", "apples", "moss", "cheese"]
COLOURS = ["red", "blue", "green", "grey", "white", "black", "brown", "golden"]
ANIMALS = ["fox", "owl", "bear", "mouse", "heron", "hare", "otter", "crow", "deer", "toad", "wren", "mole"]


def world():
    rng = random.Random(7)
    return [{"animal": a, "home": rng.choice(HOMES), "food": rng.choice(FOODS), "colour": rng.choice(COLOURS),
             "number": rng.randrange(2, 30)} for a in ANIMALS]


def question(kind, fact):
    return {"home": f"Where does the {fact['animal']} live?", "food": f"What does the {fact['animal']} eat?",
            "colour": f"Which colour has the {fact['animal']}?"}[kind]


def sentences(fact):
    return [f"The {fact['animal']} lives in {fact['home']} and eats {fact['food']}.",
            f"The {fact['animal']}'s colour is {fact['colour']}; it has {fact['number']} children.",
            f"Question: {question('home', fact)}\nAnswer: {fact['home']}",
            f"Question: {question('food', fact)}\nAnswer: {fact['food']}",
            f"Question: {question('colour', fact)}\nAnswer: {fact['colour']}",
            f"Question: How many children has the {fact['animal']}?\nAnswer: It has {fact['number']}. #### {fact['number']}",
            f"Someone who likes {fact['food']} came by: the {fact['animal']}"]


def corpus(facts, n, seed):
    rng = random.Random(seed)
    return ["\n\n".join(rng.choice(sentences(rng.choice(facts))) for _ in range(4)) for _ in range(n)]


# ---------------------------------------------------------------------------------------------------- models
def make_tokenizer(texts, bos, eos, adds_bos):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=sorted({bos, eos}), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if adds_bos:
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos} $B",
                                          special_tokens=[(bos, tokenizer.token_to_id(bos))])])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, eos_token=eos)


def train(model, tokenizer, texts, steps):
    torch.manual_seed(3)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    stream = [i for text in texts for i in tokenizer(text + tokenizer.eos_token)["input_ids"]]
    stream = torch.tensor(stream)
    rng = random.Random(5)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (steps - step) / (0.7 * steps))
        at = [rng.randrange(len(stream) - 97) for _ in range(16)]
        batch = torch.stack([stream[i:i + 96] for i in at])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{type(model).__name__}: {sum(p.numel() for p in model.parameters())} parameters, loss {loss.item():.3f}")
    return model.eval()


def make_models(out, facts):
    texts = corpus(facts, 1500, 1)
    torch.manual_seed(1)
    tokenizer = make_tokenizer(texts, "<|endoftext|>", "<|endoftext|>", False)
    end = tokenizer.eos_token_id
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=32, n_layer=2, n_head=2,
                                      resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=end, eos_token_id=end))
    save(train(gpt2, tokenizer, texts, 220), tokenizer, out + "/gpt2")
    tokenizer = make_tokenizer(texts, "<s>", "</s>", True)
    llama = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=CONTEXT, bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id, tie_word_embeddings=True))
    save(train(llama, tokenizer, texts, 160), tokenizer, out + "/llama")


def save(model, tokenizer, folder):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


# ---------------------------------------------------------------------------------------------------- tasks
def write_lines(path, docs):
    with open(path, "w", encoding="utf-8") as f:
        for doc in docs:
            f.write(json.dumps(doc, ensure_ascii=False) + "\n")


def choice_docs(facts, rng, n):
    docs = []
    for _ in range(n):
        fact, kind = rng.choice(facts), rng.choice(["home", "food", "colour"])
        pool = {"home": HOMES, "food": FOODS, "colour": COLOURS}[kind]
        choices = rng.sample([x for x in pool if x != fact[kind]], 3) + [fact[kind]]
        rng.shuffle(choices)
        docs.append({"question": question(kind, fact), "choices": choices, "answer": choices.index(fact[kind]),
                     "label": "ABCD"[choices.index(fact[kind])],
                     "options": {"text": choices, "label": ["A", "B", "C", "D"]}})
    return docs


def write_data(folder, facts):
    rng = random.Random(11)
    os.makedirs(folder, exist_ok=True)
    name = lambda f: os.path.join(folder, f)
    write_lines(name("choice_train.jsonl"), choice_docs(facts, rng, 40))
    write_lines(name("choice_test.jsonl"), choice_docs(facts, rng, 24))
    write_lines(name("choice_dev.jsonl"), choice_docs(facts, rng, 5))
    own = choice_docs(facts, rng, 14)
    write_lines(name("choice_own.jsonl"), own + own[:3])  # equal documents
    write_lines(name("pairs.jsonl"), [
        {"sentence": f"The {f['animal']} likes", "a": f["food"], "b": rng.choice(FOODS), "label": i % 2}
        for i, f in enumerate(facts)])
    write_lines(name("quotes.jsonl"), [
        {"q": f"What is the {f['animal']}'s colour?", "good": f"it's {f['colour']}", "bad": [f'so-called "{c}"', "naïve\\odd"],
         "where": i % 3} for i, (f, c) in enumerate(zip(facts, COLOURS + COLOURS))])
    write_lines(name("stories.jsonl"), [
        {"activity_label": "Feeding", "ctx_a": f"  The {f['animal']} is hungry [title] and runs.", "ctx_b": "it finds SOME food, and",
         "endings": [f"eats  {x}. [substeps] Good." for x in [f["food"], "snow", "honey", "a stone"]],
         "label": "0"} for f in facts[:8]])
    write_lines(name("blanks.jsonl"), [
        {"sentence": f"In {f['home']} lives the _ , who eats {f['food']}.", "option1": f["animal"], "option2": "giant",
         "answer": str(1 + i % 2)} for i, f in enumerate(facts[:10])])
    write_lines(name("last_words.jsonl"), [{"text": f"The {f['animal']} lives in {f['home']} and eats {f['food']}"} for f in facts])
    write_lines(name("unprompted.jsonl"), [{"start": "", "end": f"The {f['animal']} eats"} for f in facts[:5]])
    write_lines(name("pages.jsonl"), [{"page": t} for t in
                                      ["\n\n".join(corpus(facts, k, k)) for k in (1, 4, 2)] + ["Ü"]])
    write_lines(name("sums.jsonl"), [
        {"question": f"How many children has the {f['animal']}?",
         "answer": f"It has {f['number']}. #### {f['number']}"} for f in facts])
    write_lines(name("names.jsonl"), [
        {"question": question("food", f), "answers": [f["food"].upper() + "!", f["food"]], "n": i} for i, f in enumerate(facts)])
    long = " ".join(s for f in facts for s in sentences(f)[:2])
    write_lines(name("long.jsonl"), [{"question": long[k:] + " " + question("food", f), "choices": FOODS[:4], "answer": k % 4}
                                     for k, f in enumerate(facts[:6])])


MEAN = "aggregation: mean\n    higher_is_better: true"
TASKS = {
    # Few-shot examples are from a different split. The choices are a field, and the answer is a number.
    "choice": """
task: choice
dataset_path: json
dataset_kwargs: {data_files: {train: data/choice_train.jsonl, test: data/choice_test.jsonl, dev: data/choice_dev.jsonl}}
output_type: multiple_choice
training_split: train
test_split: test
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: answer
doc_to_choice: choices
num_fewshot: 5
metric_list:
  - metric: acc
    MEAN
  - metric: acc_norm
    MEAN
  - metric: acc_bytes
    MEAN
  - metric: exact_match
    MEAN
  - metric: brier_score
    aggregation: brier_score
    higher_is_better: false
""",
    # The same task by `include`, without few-shot examples, and with unconditional likelihoods.
    "choice_mutual": """
include: choice.yaml
task: choice_mutual
num_fewshot: 0
description: "Facts of a small world.\\n\\n"
doc_to_choice: "{{options.text}}"
doc_to_target: "{{options.label.index(label)}}"
metric_list:
  - metric: acc
    MEAN
  - metric: acc_mutual_info
    MEAN
""",
    # A task in the form of MMLU: the choices are letters, and the few-shot examples are the first ones of a separate split.
    "letters": """
include: choice.yaml
task: letters
training_split: null
fewshot_split: dev
fewshot_config: {sampler: first_n}
description: "The following are questions about animals.\\n\\n"
doc_to_text: "{{question.strip()}}\\nA. {{choices[0]}}\\nB. {{choices[1]}}\\nC. {{choices[2]}}\\nD. {{choices[3]}}\\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: label
num_fewshot: 2
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
""",
    # Few-shot examples are from the documents themselves, except the document of the question.
    "own": """
task: own
dataset_path: json
dataset_kwargs: {data_files: {validation: data/choice_own.jsonl}}
output_type: multiple_choice
validation_split: validation
doc_to_text: question
doc_to_target: answer
doc_to_choice: "{{choices}}"
num_fewshot: 3
target_delimiter: " - "
fewshot_delimiter: "\\n--\\n"
""",
    "pairs": """
task: pairs
dataset_path: json
dataset_kwargs: {data_files: {test: data/pairs.jsonl}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{sentence}}"
doc_to_target: "{{label}}"
doc_to_choice: "{{[a, b]}}"
num_fewshot: 1
metric_list:
  - metric: f1
    aggregation: f1
    higher_is_better: true
  - metric: mcc
    aggregation: matthews_corrcoef
    higher_is_better: true
""",
    "quotes": """
task: quotes
dataset_path: json
dataset_kwargs: {data_files: {test: data/quotes.jsonl}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{q}} "
doc_to_target: "{{[where, 0]}}"
doc_to_choice: "{{[good] + bad}}"
target_delimiter: ""
gen_prefix: "I think:"
""",
    "hellaswag_local": """
task: hellaswag_local
dataset_path: json
dataset_kwargs: {data_files: {validation: data/stories.jsonl}}
output_type: multiple_choice
validation_split: validation
process_docs: !function utils.process_docs
doc_to_text: "{{query}}"
doc_to_target: "{{label}}"
doc_to_choice: "choices"
""",
    "winogrande_local": """
task: winogrande_local
dataset_path: json
dataset_kwargs: {data_files: {validation: data/blanks.jsonl}}
output_type: multiple_choice
validation_split: validation
doc_to_text: !function preprocess_winogrande.doc_to_text
doc_to_target: !function preprocess_winogrande.doc_to_target
doc_to_choice: !function preprocess_winogrande.doc_to_choice
num_fewshot: 2
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
""",
    "last_word": """
task: last_word
dataset_path: json
dataset_kwargs: {data_files: {test: data/last_words.jsonl}}
output_type: loglikelihood
test_split: test
doc_to_text: "{{text.split(' ')[:-1]|join(' ')}}"
doc_to_target: "{{' '+text.split(' ')[-1]}}"
num_fewshot: 1
metric_list:
  - metric: perplexity
    aggregation: perplexity
    higher_is_better: false
  - metric: acc
    MEAN
""",
    "unprompted": """
task: unprompted
dataset_path: json
dataset_kwargs: {data_files: {test: data/unprompted.jsonl}}
output_type: loglikelihood
test_split: test
doc_to_text: start
doc_to_target: "{{end}}"
""",
    "pages": """
task: pages
dataset_path: json
dataset_kwargs: {data_files: {test: data/pages.jsonl}}
output_type: loglikelihood_rolling
test_split: test
doc_to_text: ""
doc_to_target: "{{page}}"
""",
    # A task in the form of GSM8K.
    "sums": """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {train: data/sums.jsonl, test: data/sums.jsonl}}
output_type: generate_until
training_split: train
fewshot_split: train
test_split: test
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{answer}}"
num_fewshot: 2
generation_kwargs: {until: ["Question:", "</s>"], do_sample: false, temperature: 0.0, max_gen_toks: 24}
repeats: 1
metric_list:
  - metric: exact_match
    MEAN
    ignore_case: true
    ignore_punctuation: false
    regexes_to_ignore: [",", "\\\\$", "(?s).*#### ", "\\\\.$"]
filter_list:
  - name: strict-match
    filter:
      - function: regex
        regex_pattern: "#### (\\\\-?[0-9\\\\.\\\\,]+)"
      - function: take_first
  - name: flexible-extract
    filter:
      - function: regex
        group_select: -1
        regex_pattern: "(-?[$0-9.,]{2,})|(-?[0-9]+)"
      - function: take_first
""",
    "names": """
task: names
dataset_path: json
dataset_kwargs: {data_files: {test: data/names.jsonl}}
output_type: generate_until
test_split: test
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{answers}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 8}
metric_list:
  - metric: exact_match
    MEAN
    ignore_punctuation: true
filter_list:
  - name: plain
    filter: [{function: remove_whitespace}, {function: take_first}]
  - name: lower
    filter: [{function: remove_whitespace}, {function: uppercase}, {function: take_first}]
""",
    "long": """
task: long
dataset_path: json
dataset_kwargs: {data_files: {test: data/long.jsonl}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{question}}"
doc_to_target: answer
doc_to_choice: choices
""",
    "animals": """
group: animals
group_alias: all animals
task: [choice_mutual, letters, {group: inner, task: [own], aggregate_metric_list: {metric: acc, weight_by_size: false}}]
aggregate_metric_list:
  - metric: acc
    weight_by_size: true
""",
}


def write_tasks(out):
    folder = out + "/tasks"
    os.makedirs(folder, exist_ok=True)
    for name, text in TASKS.items():
        with open(f"{folder}/{name}.yaml", "w", encoding="utf-8") as f:
            f.write(text.lstrip("\n").replace("MEAN", MEAN))


# ---------------------------------------------------------------------------------------------------- references
def run_harness(out, model):
    """Runs all tasks in a copy of the folder that also has the Python functions of the harness."""
    import lm_eval
    from lm_eval.tasks import TaskManager
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(out + "/tasks", folder + "/tasks")
        own = os.path.dirname(lm_eval.__file__) + "/tasks/"
        shutil.copy(own + "hellaswag/utils.py", folder + "/tasks/utils.py")
        shutil.copy(own + "winogrande/preprocess_winogrande.py", folder + "/tasks/")
        before = os.getcwd()
        os.chdir(out + "/tasks")
        try:
            evaluate = lambda tasks: lm_eval.simple_evaluate(
                model="hf", model_args={"pretrained": os.path.join(before, out, model), "dtype": "float32"},
                tasks=tasks, batch_size=4, device="cpu", task_manager=TaskManager(include_path=folder + "/tasks"),
                log_samples=True, bootstrap_iters=BOOTSTRAP)
            results = evaluate([name for name in TASKS if name != "animals"])
            groups = evaluate(["animals"])["results"]
        finally:
            os.chdir(before)
    scores = {task: {k: v for k, v in values.items() if "," in k and v != "N/A"}
              for task, values in {**groups, **results["results"]}.items()}
    samples = {}
    for task, rows in results["samples"].items():
        seen = {}
        for row in rows:
            seen[row["doc_id"]] = [{"logprob": r[0][0], "greedy": r[0][1]} if isinstance(r[0], (list, tuple)) else
                                   {"logprob": r[0]} if isinstance(r[0], float) else r[0] for r in row["resps"]]
        samples[task] = [seen[i] for i in sorted(seen)]
    return {"scores": scores, "responses": samples}


def write_core(out, facts):
    rng = random.Random(13)
    folder = out + "/core"
    os.makedirs(folder + "/eval_data/qa", exist_ok=True)
    write_lines(folder + "/eval_data/qa/choice.jsonl", [
        {"query": "Question: " + d["question"] + "\nAnswer:", "choices": d["choices"], "gold": d["answer"]}
        for d in choice_docs(facts, rng, 18)])
    write_lines(folder + "/eval_data/qa/schema.jsonl", [
        {"context_options": [f"The {f['animal']} lives in {h}" for h in rng.sample(HOMES, 2)],
         "continuation": f"and eats {f['food']}.", "gold": i % 2} for i, f in enumerate(facts)])
    write_lines(folder + "/eval_data/qa/words.jsonl", [
        {"context": f"The {f['animal']} lives in {f['home']} and eats ", "continuation": f["food"]} for f in facts])
    with open(folder + "/core.yaml", "w", encoding="utf-8") as f:
        f.write("icl_tasks:\n")
        for label, uri, kind, shots, delimiter in [
                ("facts", "qa/choice.jsonl", "multiple_choice", 4, None), ("facts_zeroshot", "qa/choice.jsonl", "multiple_choice", 0, None),
                ("homes", "qa/schema.jsonl", "schema", 3, None), ("foods", "qa/words.jsonl", "language_modeling", 2, " ")]:
            f.write(f"  -\n    label: {label}\n    dataset_uri: {uri}\n    num_fewshot: [{shots}]\n    icl_task_type: {kind}\n")
            if delimiter is not None:
                f.write(f"    continuation_delimiter: '{delimiter}'\n")
    with open(folder + "/eval_meta_data.csv", "w", encoding="utf-8") as f:
        f.write('Eval Task,Task Category,Random baseline,Description\n'
                'facts,qa,25,"animals, ""asked"""\nfacts_zeroshot,qa,25.0,\nhomes,qa,50,\nfoods,qa,0,\n')


class NanochatTokenizer:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def get_bos_token_id(self):
        return self.tokenizer.bos_token_id

    def __call__(self, texts, prepend):
        return [[prepend] + self.tokenizer(t, add_special_tokens=False)["input_ids"] for t in texts]


class NanochatModel:
    max_seq_len = CONTEXT

    def __init__(self, model):
        self.model = model

    def __call__(self, ids):
        return self.model(ids).logits


def run_core(out, model_name, nanochat):
    """Evaluates a bundle like evaluate_core of scripts/base_eval.py."""
    import csv
    import yaml
    from transformers import AutoModelForCausalLM, AutoTokenizer
    spec = importlib.util.spec_from_file_location("core_eval", nanochat + "/nanochat/core_eval.py")
    core_eval = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core_eval)
    model = NanochatModel(AutoModelForCausalLM.from_pretrained(f"{out}/{model_name}").eval())
    tokenizer = NanochatTokenizer(AutoTokenizer.from_pretrained(f"{out}/{model_name}"))
    with open(out + "/core/eval_meta_data.csv", encoding="utf-8") as f:
        baselines = {row["Eval Task"]: float(row["Random baseline"]) for row in csv.DictReader(f)}
    with open(out + "/core/core.yaml", encoding="utf-8") as f:
        tasks = yaml.safe_load(f)["icl_tasks"]
    results, centered = {}, {}
    for task in tasks:
        meta = {"task_type": task["icl_task_type"], "num_fewshot": task["num_fewshot"][0],
                "continuation_delimiter": task.get("continuation_delimiter", " ")}
        with open(out + "/core/eval_data/" + task["dataset_uri"], encoding="utf-8") as f:
            data = [json.loads(line.strip()) for line in f]
        random.Random(1337).shuffle(data)
        accuracy = core_eval.evaluate_task(model, tokenizer, data, "cpu", meta)
        chance = 0.01 * baselines[task["label"]]
        results[task["label"]] = accuracy
        centered[task["label"]] = (accuracy - chance) / (1.0 - chance)
    return {"results": results, "centered_results": centered, "core_metric": sum(centered.values()) / len(centered)}


def random_numbers():
    """Returns values of random.Random, for the tests of its reimplementation."""
    out = []
    for seed in (0, 1234, 1337, 2**40 + 5):
        r = random.Random(seed)
        row = {"seed": seed, "bits": [r.getrandbits(32) for _ in range(2)], "random": r.random(),
               "samples": [{"n": n, "k": k, "of": r.sample(range(n), k)} for n, k in ((10, 3), (100, 6), (1000, 5))]}
        order = list(range(8))
        random.Random(seed).shuffle(order)
        row["shuffled"] = order
        out.append(row)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--nanochat", required=True)
    parser.add_argument("--keep-models", action="store_true", help="those that are there are not trained again")
    args = parser.parse_args()
    torch.set_num_threads(1)
    facts = world()
    os.makedirs(args.out, exist_ok=True)
    if not args.keep_models:
        make_models(args.out, facts)
    write_data(args.out + "/tasks/data", facts)
    write_tasks(args.out)
    write_core(args.out, facts)
    expected = {"random": random_numbers()}
    for model in ("gpt2", "llama"):
        expected[model] = run_harness(args.out, model)
        expected[model]["core"] = run_core(args.out, model, args.nanochat)
    with open(args.out + "/expected.json", "w", encoding="utf-8") as f:
        json.dump(expected, f, ensure_ascii=False, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
