#include "foreign_names.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>

#include "base/parse.h"
#include "base/problems.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "option_spec.h"
#include "options.h"
#include "output.h"
#include "train/train_config.h"

namespace gpt {
namespace {

struct Name {
  const char* theirs;  // alternative names, separated by |
  const char* ours;
};

// The value that a flag of another program takes.
enum class Takes : uint8_t {
  switch_value,  // nothing, or one of kOnWords and kOffWords
  number,        // nothing, or a number
  value          // any word that is not a flag
};
constexpr const char* kOnWords = "on|auto|true|yes|1|enabled";
constexpr const char* kOffWords = "off|false|no|0|disabled";

// Flags of other programs that have no effect, because gpt always behaves as requested. They are accepted
// with a note.
struct Ignored {
  const char* theirs;    // alternative names, separated by |
  const char* commands;  // commands separated by |; "": all commands
  const char* reason;
  Takes takes = Takes::switch_value;
  bool may_be_off = false;  // results do not depend on it
};

constexpr Ignored kIgnored[] = {
    {"--stream", "", "text is always streamed"},
    {"--mmap", "", "model files are always memory-mapped", Takes::switch_value, true},
    {"--flash-attn|-fa", "", "attention never stores its score matrix", Takes::switch_value, true},
    {"--compile", "", "all kernels are already compiled", Takes::switch_value, true},
    {"--verbose", "", "this command has a single level of detail"},
    {"--num-workers|--dataloader-num-workers", "", "the data is memory-mapped and needs no worker processes",
     Takes::number},
    {"--trust-remote-code", "", "gpt never runs code of a model"},
    {"-no-cnv|--no-cnv|--no-conversation", "generate", "gpt generate always continues a text"},
    {"--do-sample", "generate|chat", "tokens are sampled unless --greedy is given"},
    {"--embedding|--embeddings|--metrics|--slots|--jinja|--cont-batching|-cb|--enable-lora|"
     "--enable-auto-tool-choice|--enable-prefix-caching|--enable-chunked-prefill|--cache-prompt",
     "serve", "this feature is always on"},
    {"--tool-call-parser", "serve", "the chat template determines the format of tool calls", Takes::value},
};

struct Answer {
  const char* theirs;    // alternative names, separated by |
  const char* commands;  // commands separated by |, "train|tokenizer train"; "": all commands
  const char* answer;
};

// Flags without an equivalent here, whose effect would differ: what to use instead, and how to convert the
// value.
constexpr Answer kAnswers[] = {
    {"--epochs|--num-epochs|--num-train-epochs", "",
     "the length of a run is counted in steps: --steps = epochs x tokens / (batch_size x n_ctx); gpt plan "
     "shows it"},
    {"--total-batch-size", "", "the batch size is counted in sequences: --batch-size = tokens / n_ctx"},
    {"--gradient-accumulation-steps|--grad-accum", "",
     "--batch-size is the number of sequences per step, --micro-batch the number computed together; their "
     "ratio is the "
     "number of accumulation steps"},
    {"--warmup-ratio", "", "warm-up is counted in steps: --warmup = ratio x steps"},
    {"--decay-lr", "", "use --schedule constant for a constant learning rate, --schedule cosine for decay"},
    {"--lr-decay-iters", "", "the learning rate decays until the last of --steps, to --min-lr"},
    {"--depth", "", "--preset nanochat-dN sets depth and width together, --n-layer only the depth"},
    {"--aspect-ratio", "", "--n-embd sets the width; --preset nanochat-dN has a width of 64 per layer"},
    {"--model|-m|--model-name-or-path|--checkpoint", "train|plan",
     "use --preset NAME for a new model (gpt info lists the presets), or --init-from MODEL for a trained "
     "one"},
    {"--model-type", "tokenizer train", "the type is always BPE; --pattern sets how words are split"},
    {"--model-type", "train", "use --preset NAME to choose the architecture; gpt info lists the presets"},
    {"--bias", "",
     "each kind of bias has its own option: --qkv-bias false --out-bias false --mlp-bias false --norm-bias "
     "false"},
    {"--attention-bias", "", "use --qkv-bias and --out-bias"},
    {"--bf16", "", "use --dtype bf16"},
    {"--fp16", "", "use --dtype fp16"},
    {"--learning-rate-schedule", "", "use --schedule cosine, linear, constant or wsd"},
    {"--wandb-log|--wandb-project|--report-to", "",
     "the run folder contains metrics.jsonl, TensorBoard events and report.html; leave it out"},
    {"--run", "train", "use --out DIR, the folder of the run"},
    {"--dry-run", "train",
     "use gpt plan, which accepts the same options, estimates the run and does not train"},
    {"--resume-from|--resume-from-checkpoint", "",
     "use --resume to resume the run in --out DIR, or --init-from MODEL to start a new run from a model"},
    {"--early-stopping", "", "use --patience N to stop after N evaluations without a better validation loss"},
    {"--shuffle", "",
     "batches are always read at random positions; --sampling epoch reads every position once per epoch"},
    {"--lora|--lora-r|--lora-rank", "",
     "gpt train trains all weights of a model; use gpt finetune MODEL --lora-rank R to train an adapter"},
    {"--eval-only|--perplexity", "", "use gpt eval MODEL --data FILE"},
    {"--always-save-checkpoint", "",
     "last/ is saved every --save-every steps, best/ when the validation loss improves"},
    {"--overwrite-output-dir", "",
     "existing runs are never replaced; choose a different --out, or use --resume"},
    {"--apply-chat-template", "eval",
     "use --template own for the model's chat template, or --template NAME for a different one"},
    {"--do-sample", "", "tokens are always sampled; use --greedy for the most likely token"},
    {"--n-ctx", "generate",
     "the context is always the model's, and memory is allocated as needed; leave it out"},
    {"--batch-size", "generate",
     "prompts are always computed together; use --n N for several samples, and repeat --prompt for several "
     "prompts"},
    {"--quant", "generate|chat",
     "use --dtype q8_0 or q4_0 to quantize while loading; gpt convert --quant writes a quantized file"},
    {"--gpu|--gpus|--cuda|--n-gpu-layers|--gpu-layers|-ngl|--no-cuda", "",
     "this build computes on the CPU; leave it out"},
    {"--mlock", "", "memory is never locked; --repack always copies weights to memory"},
    {"--no-mmap|-mmp", "", "use --repack always to copy memory-mapped weights to memory while loading"},
    {"--no-repack|-nr", "", "use --repack never to keep weights memory-mapped; their layout never changes"},
    {"--run-time-repack|-rtr|--transparent-huge-pages|-thp", "",
     "use --repack always to copy weights to huge pages; their layout never changes"},
    {"--cache-type-k|--cache-type-v|-ctk|-ctv", "",
     "use --kv-dtype fp32, bf16, fp16, int8 or q4_0, which applies to keys and values"},
    {"--isa|--simd", "", "use the variable GPT_ISA, such as GPT_ISA=avx2"},
    {"-o|--output", "bench", "use --json for JSON"},
    {"-d", "bench", "use --depth N for tokens in the KV cache before the measurement"},
    {"-pg", "bench", "use --mode prefill,decode --rows N --tokens N"},
    {"--spec-type|--speculative-config", "",
     "use --speculate ngram to draft from the text, or --draft MODEL to draft with a smaller model; "
     "--draft-tokens N is "
     "the maximum number of draft tokens"},
    {"--draft-min|--draft-p-min|--prompt-lookup-max|--prompt-lookup-min", "",
     "the number of draft tokens adapts to their acceptance rate; --draft-tokens N is the maximum"},
    {"--typical|--mirostat", "", "use --top-k, --top-p or --min-p"},
    {"--conversation|-cnv|--interactive", "", "use gpt chat MODEL"},
    {"-no-cnv|--no-cnv|--no-conversation", "chat", "use gpt generate MODEL to continue a text"},
    {"--max-length", "", "use --max-tokens, which counts only new tokens, without the prompt"},
    {"--hf-repo|-hf", "", "nothing is downloaded; use the path of a local folder or file as MODEL"},
    {"--outtype", "", "use --dtype fp32, fp16 or bf16, or --quant q8_0 and others for quantized weights"},
    {"--load-in-8bit", "", "use --dtype q8_0"},
    {"--load-in-4bit", "", "use --dtype q4_0"},
    {"--api-key", "serve",
     "other users of the machine can see command lines; use --api-key-file FILE with one key per line"},
    {"--alias|-a|--served-model-name", "serve", "write the name before the path: gpt serve NAME=PATH"},
    {"--lora-modules", "serve", "use --adapter NAME=DIR for each adapter"},
    {"--tensor-parallel-size|-tp|--pipeline-parallel-size|-pp|--data-parallel-size|-dp", "serve",
     "a single process serves a model with --threads threads; leave it out"},
    {"--gpu-memory-utilization", "serve",
     "this build computes on the CPU; use --kv-memory GIB for the size of the KV cache"},
    {"--quantization", "serve", "use --dtype q8_0 or q4_0 to quantize while loading"},
    {"--timeout|-to", "serve",
     "use --request-time SECONDS for the time of a response, --idle-time for the time between two requests"},
    {"--ssl-key-file|--ssl-cert-file|--ssl-keyfile|--ssl-certfile", "serve",
     "use a reverse proxy for TLS; docs/serving.md has a configuration for nginx"},
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
    {"download|pull", "nothing is downloaded; gpt reads local model folders and files"},
    {"merge", "use gpt convert MODEL OUT --adapter DIR to merge an adapter into the weights of a model"},
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

std::string long_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? "-" + option.get_snames().front() : "--" + option.get_lnames().front();
}

// Appends the names that commands of this program have for a flag of another program.
void add_names(const CLI::App& app, const std::string& theirs, std::vector<std::string>& names) {
  for (const CLI::Option* option : {find_alias(app, theirs), app.get_option_no_throw(theirs)}) {
    if (option != nullptr) names.push_back(long_name(*option));
  }
  for (const CLI::App* sub : commands_of(app))
    add_names(*sub, theirs, names);
}

// Returns true if the next word belongs to a flag without effect.
bool takes_next(const Ignored& ignored, const std::string& next) {
  if (ignored.takes == Takes::value) return !next.starts_with('-');
  if (ignored.takes == Takes::number) return parse_number<double>(next).has_value();
  return is_one_of(lower_case(next), kOnWords) || is_one_of(lower_case(next), kOffWords);
}

// Writes a note about a flag without effect, or throws if its value turns off what is always on. Returns true
// if the next word is the value of the flag.
bool ignore_flag(const Ignored& ignored, const std::string& word, const std::string& next) {
  const size_t equals = word.find('=');
  const bool takes = equals == std::string::npos && takes_next(ignored, next);
  const std::string value = equals != std::string::npos ? word.substr(equals + 1) : takes ? next : "";
  const std::string flag = word.substr(0, equals);
  if (ignored.takes == Takes::switch_value && !ignored.may_be_off && is_one_of(lower_case(value), kOffWords))
    fail_usage("{} {}: cannot be turned off: {}", flag, value, ignored.reason);
  write_note(fmt::format("note: {} has no effect: {}\n", flag, ignored.reason));
  return takes;
}

// Returns the entry of a flag that has no effect in a command, or null.
const Ignored* find_ignored(const CLI::App& app, const std::string& typed) {
  const std::string command = command_of(app), name = flag_with_dashes(typed);
  const auto found = std::ranges::find_if(kIgnored, [&](const Ignored& i) {
    return is_one_of(name, i.theirs) && (*i.commands == '\0' || is_one_of(command, i.commands));
  });
  return found == std::end(kIgnored) ? nullptr : found;
}

// Returns this command's name for a flag, or "" if the command has no such flag.
std::string own_name(const CLI::App& app, const std::string& typed) {
  const std::string name = flag_with_dashes(typed);
  if (app.get_option_no_throw(name) != nullptr) return name;
  if (const CLI::Option* option = find_alias(app, name)) return long_name(*option);
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
  const CLI::App* root = &app;
  while (root->get_parent() != nullptr)
    root = root->get_parent();
  std::vector<std::string> names = {flag_with_dashes(typed)};
  add_names(*root, std::string(names[0]), names);
  for (const std::string& name : names) {
    for (const Answer& a : kAnswers) {
      if (is_one_of(name, a.theirs) && (*a.commands == '\0' || is_one_of(command, a.commands)))
        fail_usage("{}: {} is not available: {}", command, typed, a.answer);
    }
  }
}

// Rejects a word such as "-no-cnv", which the parser would read as -n with the value "o-cnv".
void refuse_long_name(const CLI::App& app, const std::string& word) {
  if (word.starts_with("--") || word.size() < 3) return;
  const CLI::Option* option = app.get_option_no_throw(word.substr(0, 2));
  if (option == nullptr || option->get_items_expected_max() == 0 || !spec_of(*option).is_number) return;
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
      fail_usage("unknown command \"{}\"; use gpt {}", word, ours);
    if (const char* answer = find_name(kMissing, word))
      fail_usage("unknown command \"{}\": {}", word, answer);
  }
  const auto names = transformed(commands_of(app), [](const CLI::App* sub) { return sub->get_name(); });
  fail_usage("{}unknown command \"{}\"{}; see {}", where, word.substr(0, 64), did_you_mean(word, names),
             help);
}

// Translates the dtypes in the value of a flag, which is one name or a comma-separated list.
std::string own_value(const CLI::App& app, const std::string& flag, const std::string& value) {
  const CLI::Option* option = app.get_option_no_throw(flag);
  const ValueKind kind = option == nullptr ? ValueKind::plain : spec_of(*option).kind;
  if (kind != ValueKind::dtype && kind != ValueKind::model_or_dtype) return value;
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
    const Ignored* ignored = name.empty() ? find_ignored(*app, flag) : nullptr;
    if (ignored != nullptr) {
      problems.collect([&] { i += ignore_flag(*ignored, word, i + 1 < words.size() ? words[i + 1] : ""); });
      continue;
    }
    if (name.empty()) {
      const bool may_be_known = problems.collect([&] {
        answer_flag(*app, flag);
        refuse_long_name(*app, word);
      });
      if (may_be_known) out.push_back(word);
      continue;
    }
    if (equals != std::string::npos) {
      out.push_back(name + "=" + own_value(*app, name, word.substr(equals + 1)));
      continue;
    }
    out.push_back(name);
    // The required values of an option are values even if they look like flags.
    for (int n = app->get_option_no_throw(name)->get_items_expected_min(); n > 0 && i + 1 < words.size(); --n)
      out.push_back(own_value(*app, name, words[++i]));
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
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& theirs : aliases_of(*option))
      if (app.get_option_no_throw(theirs) == nullptr) names.push_back(theirs);
  }
  return names;
}

}  // namespace gpt
