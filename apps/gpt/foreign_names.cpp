#include "foreign_names.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>

#include "base/problems.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "parse_problem.h"
#include "train/train_config.h"

namespace gpt {
namespace {

struct Name {
  const char* theirs;  // alternative names, separated by |
  const char* ours;
};

// Flags with the same meaning under a different name in nanoGPT, nanochat, minGPT, transformers and its
// trainer, llama.cpp, or other commands of this program. They work in every command that has the flag in
// `ours`; if several entries match, the first flag that the command has is used. Names of config keys are in
// the files of the families (ForeignNames).
constexpr Name kFlags[] = {
    {"--out-dir|--output-dir|--output|--outfile", "--out"},
    {"--dataset|--train-file|-d|--input|--files", "--data"},
    {"--num-iterations|--max-iters|--max-steps|--iters|--iterations|--num-steps|--train-steps", "--steps"},
    {"--eval-interval|--eval-steps", "--eval-every"},
    {"--eval-iters", "--eval-batches"},
    {"--log-interval|--logging-steps", "--log-every"},
    {"--device-batch-size|--per-device-train-batch-size", "--micro-batch"},
    {"--start|--text", "--prompt"},
    {"--num-samples|--num-return-sequences", "--n"},
    {"--max-new-tokens|--n-predict|--predict|--num-tokens", "--max-tokens"},
    {"--grammar-file", "--grammar"},
    {"--json-schema-file|-j", "--json-schema"},
    {"--guided-regex", "--regex"},
    {"--n-embed", "--n-embd"},
    {"--validation-file", "--val-data"},
    {"--warmup-steps", "--warmup"},
    {"--save-steps|--checkpoint-every|--checkpoint-interval|--save-interval", "--save-every"},
    {"--max-grad-norm", "--clip-norm"},
    {"--lr-scheduler-type", "--schedule"},
    {"--adam-beta1", "--beta1"},
    {"--adam-beta2", "--beta2"},
    {"--adam-epsilon", "--eps"},
    {"--early-stopping-patience", "--patience"},
    {"--num-layers|--layers", "--n-layer"},
    {"--num-heads|--heads", "--n-head"},
    {"--gradient-checkpointing", "--recompute"},
    {"--optim", "--optimizer"},
    {"--matrix-lr", "--muon-lr"},
    {"--num-fewshot", "--few-shot"},
    {"--model-name-or-path|-m|--checkpoint", "--model"},
    {"--num-beams", "--beams"},
    {"--parse-special", "--special"},
    {"--tokenizer-name", "--tokenizer"},
    {"--temp", "--temperature"},
    {"--repeat-penalty", "--repetition-penalty"},
    {"--ctx-size|-c|--seq-len|--ctx|--context|--ctx-len", "--n-ctx"},
    {"--model-draft|-md|--speculative-model|--assistant-model", "--draft"},
    {"--draft-max|--draft-n|--num-speculative-tokens|--prompt-lookup-num-tokens", "--draft-tokens"},
    {"--file|-f", "--prompt-file"},
    {"--reverse-prompt", "--stop"},
    {"--system-prompt|-sys", "--system"},
    {"--chat-template", "--template"},
    {"-s", "--seed"},
    {"-b|--batch", "--batch-size"},
    {"-q", "--quant"},
    {"-p|--n-prompt", "--rows"},
    {"-n|--n-gen", "--tokens"},
    {"--n-depth", "--depth"},
    {"-r|--repetitions", "--repeat"},
    {"-p|--prompt", "--text"},
    {"-v", "--version"},
    {"-v", "--verbose"},
    {"--format", "--to"},
    {"--n-threads|--num-threads", "--threads"},
    {"--overwrite", "--force"},
    {"--parallel|-np|--max-num-seqs", "--sequences"},
    {"--max-model-len", "--n-ctx"},
    {"--max-num-batched-tokens|--ubatch-size|-ub", "--step-rows"},
    {"--kv-cache-dtype", "--kv-dtype"},
    {"--model-dir", "--models-dir"},
    {"--models-max", "--max-models"},
};

struct Answer {
  const char* theirs;    // alternative names, separated by |
  const char* commands;  // commands separated by |, "train|tokenizer train"; "": all commands
  const char* answer;
};

// Flags without an equivalent here: what to use instead, and how to convert the value.
constexpr Answer kAnswers[] = {
    {"--epochs|--num-epochs|--num-train-epochs", "",
     "training is counted in steps: --steps = epochs x tokens / (batch_size x n_ctx), which gpt plan shows"},
    {"--total-batch-size", "", "a batch is counted in sequences: --batch-size = tokens / n_ctx"},
    {"--gradient-accumulation-steps", "",
     "--batch-size is what a whole step sees, --micro-batch what is computed at once; give both, and one is "
     "the other times the accumulation"},
    {"--grad-accum", "", "--batch-size is what a whole step sees, --micro-batch what is computed at once"},
    {"--warmup-ratio", "", "warm-up is counted in steps: --warmup = ratio x steps"},
    {"--decay-lr", "", "--schedule constant keeps the learning rate, --schedule cosine lets it decay"},
    {"--lr-decay-iters", "", "the learning rate decays until --steps; --min-lr is where it ends"},
    {"--depth", "",
     "presets set depth and width together: --preset nanochat-dN; --n-layer sets the depth alone"},
    {"--aspect-ratio", "",
     "--n-embd sets the width; nanochat's presets have 64 per layer: --preset nanochat-dN"},
    {"--model", "train|plan",
     "--preset NAME for a new model (gpt info lists them), --init-from MODEL to start from a trained one"},
    {"--model-type", "tokenizer train",
     "BPE is what is trained; --pattern says how text is cut, and char and byte need no training"},
    {"--model-type", "train", "--preset NAME chooses the architecture; gpt info lists them"},
    {"--bias", "",
     "biases have a switch each: --qkv-bias false --out-bias false --mlp-bias false --norm-bias false"},
    {"--attention-bias", "", "--qkv-bias and --out-bias switch the two apart"},
    {"--compile", "", "there is nothing to compile; leave it out"},
    {"--bf16", "", "--dtype bf16"},
    {"--fp16", "", "--dtype fp16"},
    {"--learning-rate-schedule", "", "--schedule cosine, linear, constant or wsd"},
    {"--wandb-log|--wandb-project|--report-to", "",
     "the run folder has metrics.jsonl, TensorBoard events and report.html; leave it out"},
    {"--run", "train", "--out DIR is the folder and the name of the run"},
    {"--dry-run", "train", "gpt plan takes the same flags, says what the run would take, and trains nothing"},
    {"--resume-from|--resume-from-checkpoint", "",
     "--resume goes on with the run in --out DIR; --init-from MODEL begins another one"},
    {"--early-stopping", "",
     "--patience N ends the run after N evaluations without a better validation loss"},
    {"--shuffle", "",
     "batches begin at random places anyway; --sampling epoch passes over the text once each time"},
    {"--lora|--lora-r|--lora-rank", "",
     "gpt train trains all weights of a model; gpt finetune MODEL --lora-rank R trains an adapter"},
    {"--num-workers|--dataloader-num-workers", "",
     "no processes read the text; --threads says how many threads compute"},
    {"--eval-only|--perplexity", "", "gpt eval MODEL --data FILE"},
    {"--always-save-checkpoint", "",
     "last/ is saved every --save-every steps, best/ when the validation loss improves"},
    {"--overwrite-output-dir", "", "no run is written over; choose another --out, or go on with --resume"},
    {"--apply-chat-template", "eval",
     "--template own asks by the model's chat template, --template NAME by another"},
    {"--do-sample", "", "sampling is what happens anyway; --greedy takes the likeliest token"},
    {"--n-ctx", "generate",
     "the context is the model's own, and only as much memory is taken as is needed; leave it out"},
    {"--batch-size", "generate",
     "prompts are computed together as they are; --n N draws several texts, and --prompt may be repeated"},
    {"--quant", "generate|chat",
     "--dtype q8_0 or q4_0 quantises while the model is loaded; gpt convert --quant writes a file"},
    {"--gpu|--gpus|--cuda|--n-gpu-layers|--gpu-layers|-ngl|--no-cuda", "",
     "this build computes on the CPU; leave it out"},
    {"--flash-attn|-fa", "", "attention never stores its matrix; leave it out"},
    {"--mlock", "", "nothing is locked; --repack always copies weights to memory of the process"},
    {"--mmap", "", "files are mapped anyway; --repack always copies their weights to memory"},
    {"--no-mmap|-mmp", "", "--repack always copies weights of the mapped file to memory while loading"},
    {"--no-repack|-nr", "", "--repack never leaves weights in the mapped file; their layout never changes"},
    {"--run-time-repack|-rtr|--transparent-huge-pages|-thp", "",
     "--repack always copies weights to memory with large pages; their layout stays"},
    {"--cache-type-k|--cache-type-v|-ctk|-ctv", "",
     "--kv-dtype fp32, bf16, fp16, int8 or q4_0 is the type of keys and values"},
    {"--isa|--simd", "", "the variable GPT_ISA=avx2 holds gpt to an instruction set"},
    {"-o|--output", "bench", "--json writes JSON; tables are for people"},
    {"-d", "bench", "--depth N: tokens that are cached before"},
    {"-pg", "bench", "--mode prefill,decode --rows N --tokens N"},
    {"--spec-type|--speculative-config", "",
     "--speculate ngram proposes what stood in the text before, --draft MODEL has a smaller model propose; "
     "--draft-tokens N is the most"},
    {"--draft-min|--draft-p-min|--prompt-lookup-max|--prompt-lookup-min", "",
     "as many tokens are proposed as pay, by how often they came true; --draft-tokens N is the most"},
    {"--typical|--mirostat", "", "there are --top-k, --top-p and --min-p"},
    {"--conversation|-cnv|--interactive", "", "gpt chat MODEL"},
    {"-no-cnv|--no-cnv", "generate", "gpt generate never asks for messages; leave it out"},
    {"-no-cnv|--no-cnv", "chat", "gpt generate MODEL continues a text"},
    {"--max-length", "", "--max-tokens counts new tokens only, without the prompt"},
    {"--stream", "", "text is shown as it comes; leave it out"},
    {"--hf-repo|-hf", "", "nothing is downloaded; name a folder or file of this machine as MODEL"},
    {"--outtype", "", "--dtype fp32, fp16 or bf16 for plain numbers, --quant q8_0 and others for blocks"},
    {"--load-in-8bit", "", "--dtype q8_0"},
    {"--load-in-4bit", "", "--dtype q4_0"},
    {"--trust-remote-code", "", "no code of a model is ever run; leave it out"},
    {"--api-key", "serve",
     "other users of the machine see command lines: --api-key-file FILE has keys, one a line"},
    {"--alias|-a|--served-model-name", "serve", "the name stands before the model: gpt serve NAME=PATH"},
    {"--lora-modules", "serve", "--adapter NAME=DIR, once for each"},
    {"--tensor-parallel-size|-tp|--pipeline-parallel-size|-pp|--data-parallel-size|-dp", "serve",
     "one process serves a model, with --threads threads; leave it out"},
    {"--gpu-memory-utilization", "serve",
     "this build computes on the CPU; --kv-memory GIB is for keys and values"},
    {"--quantization", "serve", "--dtype q8_0 or q4_0 quantises while the model is loaded"},
    {"--embedding|--embeddings|--metrics|--slots|--jinja|--cont-batching|-cb|--enable-lora|"
     "--enable-auto-tool-choice|--enable-prefix-caching|--enable-chunked-prefill|--cache-prompt",
     "serve", "that is always on; leave it out"},
    {"--tool-call-parser", "serve", "the form of tool calls follows from the chat template; leave it out"},
    {"--timeout|-to", "serve", "--request-time SECONDS is for an answer, --idle-time between two requests"},
    {"--ssl-key-file|--ssl-cert-file|--ssl-keyfile|--ssl-certfile", "serve",
     "TLS is the task of a reverse proxy; docs/serving.md has a config of nginx"},
    {"--verbose", "", "commands say all they have to say; leave it out"},
};

// Names of commands in other programs.
constexpr Name kCommands[] = {
    {"sample|complete|run|inference", "generate"},
    {"pretrain|fit", "train"},
    {"fine-tune|tune|sft|dpo|grpo", "finetune"},
    {"server", "serve"},
    {"resume", "train --resume --out DIR"},
    {"evaluate|perplexity", "eval"},
    {"benchmark", "bench"},
    {"export", "convert"},
    {"quantize|quantise", "convert MODEL OUT.gguf --quant q8_0"},
    {"tokenize|encode", "tokenizer encode"},
    {"detokenize|decode", "tokenizer decode"},
    {"presets|list|models", "info"},
    {"show", "info MODEL"},
    {"inspect|explain", "trace"},
    {"tales", "data tales"},
    {"pack|prepare", "data pack"},
    {"preview", "data preview"},
    {"compare", "report RUN RUN"},
    {"version", "--version"},
};

// Commands of other programs without an equivalent here.
constexpr Name kMissing[] = {
    {"download|pull", "nothing is downloaded; gpt takes folders and files of models of this machine"},
    {"merge", "gpt convert MODEL OUT --adapter DIR writes a model with an adapter merged into its weights"},
};

// Names of dtypes in PyTorch and ggml.
constexpr Name kTypes[] = {
    {"float32|f32|float|FP32|F32", "fp32"}, {"bfloat16|BF16", "bf16"}, {"float16|f16|half|FP16|F16", "fp16"},
    {"float64|f64|double", "fp64"},         {"Q8_0", "q8_0"},          {"Q4_0", "q4_0"}};

bool is_one_of(const std::string& word, const char* list) {
  const std::vector<std::string> words = CLI::detail::split(list, '|');
  return std::ranges::find(words, word) != words.end();
}

// Returns the entry of a table for a name, or null.
const char* find_name(std::span<const Name> table, const std::string& theirs) {
  const auto found = std::ranges::find_if(table, [&](const Name& n) { return is_one_of(theirs, n.theirs); });
  return found == table.end() ? nullptr : found->ours;
}

std::string flag_with_dashes(std::string name) {
  if (name.starts_with("--")) std::ranges::replace(name, '_', '-');
  return name;
}

// Returns this command's name for a flag, or "" if the command has no such flag.
std::string own_name(const CLI::App& app, const std::string& typed) {
  const std::string name = flag_with_dashes(typed);
  if (app.get_option_no_throw(name) != nullptr) return name;
  for (const Name& n : kFlags) {
    if (is_one_of(name, n.theirs) && app.get_option_no_throw(n.ours) != nullptr) return n.ours;
  }
  if (!name.starts_with("--")) return "";
  std::string key = name.substr(2);
  std::ranges::replace(key, '-', '_');
  const std::string flag = flag_with_dashes("--" + key_of_alias(key));
  return app.get_option_no_throw(flag) != nullptr ? flag : "";
}

// Throws an error with the answer for a flag. If the flag itself has no answer, uses the answer for its name
// in other commands.
void answer_flag(const CLI::App& app, const std::string& typed) {
  const std::string command = command_of(app);
  std::vector<std::string> names = {flag_with_dashes(typed)};
  for (const Name& n : kFlags) {
    if (is_one_of(names[0], n.theirs)) names.emplace_back(n.ours);
  }
  for (const std::string& name : names) {
    for (const Answer& a : kAnswers) {
      if (is_one_of(name, a.theirs) && (*a.commands == '\0' || is_one_of(command, a.commands)))
        fail_usage("{}: there is no {} here: {}", command, typed, a.answer);
    }
  }
}

// Rejects a word such as "-no-cnv", which the parser would read as -n with the value "o-cnv".
void refuse_long_name(const CLI::App& app, const std::string& word) {
  if (word.starts_with("--") || word.size() < 3) return;
  const CLI::Option* option = app.get_option_no_throw(word.substr(0, 2));
  if (option == nullptr || option->get_items_expected_max() == 0 || !takes_a_number(*option)) return;
  if (word.find_first_not_of("0123456789.eE+-", word[2] == '=' ? 3 : 2) == std::string::npos) return;
  const std::string flag = word.substr(0, word.find('='));
  fail_usage("{}: unknown flag {}{}; see gpt {} --help", command_of(app), flag.substr(0, 64),
             did_you_mean(flag, flag_names(app)), command_of(app));
}

[[noreturn]] void unknown_command(const CLI::App& app, const std::string& word) {
  const std::string where = app.get_parent() == nullptr ? "" : app.get_name() + ": ";
  const std::string help = app.get_parent() == nullptr ? "gpt --help" : "gpt " + app.get_name() + " --help";
  if (app.get_parent() == nullptr) {
    if (const char* ours = find_name(kCommands, word))
      fail_usage("unknown command \"{}\"; that is gpt {} here", word, ours);
    if (const char* answer = find_name(kMissing, word))
      fail_usage("unknown command \"{}\": {}", word, answer);
  }
  const auto names = transformed(commands_of(app), [](const CLI::App* sub) { return sub->get_name(); });
  fail_usage("{}unknown command \"{}\"{}; see {}", where, word.substr(0, 64), did_you_mean(word, names),
             help);
}

// Translates the dtypes in the value of a flag, which is one name or a comma-separated list.
std::string own_value(const std::string& flag, const std::string& value) {
  if (flag != "--dtype" && flag != "--against" && flag != "--kv-dtype") return value;
  const auto own_type = [](const std::string& name) {
    const char* ours = find_name(kTypes, name);
    return ours == nullptr ? name : std::string(ours);
  };
  return CLI::detail::join(transformed(CLI::detail::split(value, ','), own_type), ",");
}

// Rewrites the help command: "help train --all" becomes "train --help-all", and "help" becomes "--help".
std::vector<std::string> without_help_command(std::vector<std::string> words) {
  if (words.size() < 2 || words[1] != "help") return words;
  words.erase(words.begin() + 1);
  const bool all = std::erase(words, "--all") + std::erase(words, "--help-all") > 0;
  words.emplace_back(all ? "--help-all" : "--help");
  return words;
}

}  // namespace

std::vector<std::string> translate_arguments(const CLI::App& root, const std::vector<std::string>& typed,
                                             Problems& problems) {
  const std::vector<std::string> words = without_help_command(typed);
  const CLI::App* app = &root;
  std::vector<std::string> out(words.begin(), words.begin() + std::min<std::ptrdiff_t>(1, std::ssize(words)));
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    if (word.size() < 2 || word.front() != '-') {
      if (const CLI::App* sub = find_command(*app, word)) {
        app = sub;
      } else if (!commands_of(*app).empty()) {
        unknown_command(*app, word);
      }
      out.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const std::string flag = word.substr(0, equals), name = own_name(*app, flag);
    if (name.empty()) {
      const bool may_be_known = problems.collect([&] {
        answer_flag(*app, flag);
        refuse_long_name(*app, word);
      });
      if (may_be_known) out.push_back(word);
      continue;
    }
    if (equals != std::string::npos) {
      out.push_back(name + "=" + own_value(name, word.substr(equals + 1)));
      continue;
    }
    out.push_back(name);
    // The required values of an option are values even if they look like flags.
    for (int n = app->get_option_no_throw(name)->get_items_expected_min(); n > 0 && i + 1 < words.size(); --n)
      out.push_back(own_value(name, words[++i]));
  }
  return out;
}

std::string command_of(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  if (parent == nullptr) return "";
  const std::string before = command_of(*parent);
  return before.empty() ? app.get_name() : before + " " + app.get_name();
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* find_command(const CLI::App& app, const std::string& word) {
  for (const CLI::App* sub : commands_of(app)) {
    if (sub->get_name() == word) return sub;
  }
  return nullptr;
}

std::string config_key_named(const CLI::App& app, std::string name) {
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  std::string key = own_name(app, "--" + name);
  if (key.empty()) return name;
  key.erase(0, 2);
  std::ranges::replace(key, '-', '_');
  return key;
}

std::vector<std::string> own_flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names = own_flag_names(app);
  for (const Name& n : kFlags) {
    if (app.get_option_no_throw(n.ours) == nullptr) continue;
    for (const std::string& theirs : CLI::detail::split(n.theirs, '|'))
      if (app.get_option_no_throw(theirs) == nullptr) names.push_back(theirs);
  }
  return names;
}

}  // namespace gpt
