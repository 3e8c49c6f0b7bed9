#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "command.h"
#include "data/corpus.h"
#include "data/text_blocks.h"
#include "generation.h"
#include "input.h"
#include "options.h"
#include "output.h"
#include "report/next_step.h"
#include "report/table.h"
#include "text/tokenizer_facts.h"
#include "text/tokenizer_trainer.h"
#include "tokenizer_show.h"
#include "tokenizer_training.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr const char* kTokenizerFooter = R"(Examples:
  gpt tokenizer train --data input.txt --vocab-size 4096 --out tok
  gpt tokenizer train --data docs/ more.jsonl.zst --pattern nanochat --special-tokens nanochat --out tok
  gpt tokenizer encode --tokenizer tok < input.txt > ids.txt
  gpt tokenizer decode --tokenizer tok < ids.txt
  echo '{"text":"Every effort"}' | gpt tokenizer encode --tokenizer tok --jsonl
  echo -n "Every effort moves you" | gpt tokenizer encode --tokenizer tok --explain
  gpt tokenizer info --tokenizer tok

A tokenizer is a tokenizer.json, a SentencePiece BPE model (.model), a vocab.json with merges.txt, ranks of tiktoken, a .gguf
file, or the folder of one of these files. byte and char are built in.)";

constexpr const char* kTokenizerTrainFooter = R"(Examples:
  gpt tokenizer train --data input.txt --vocab-size 4096 --out tok
  gpt tokenizer train --data docs/ 'crawl/*.jsonl.gz' --pattern gpt4 --vocab-size 65536 --out tok
  gpt tokenizer train --data chat.jsonl --field content --special-tokens nanochat --out tok
  gpt tokenizer train --data input.txt --special-tokens '<|endoftext|>' '<|pad|>' --out tok --against gpt2/

--vocab-size counts all ids: bytes, merges and special tokens. Special tokens have the last ids: <|endoftext|>, which gpt data
pack writes before every document, or the tokens of --special-tokens. Sets of special tokens: gpt2 (<|endoftext|>), nanochat,
chatml, llama3. A text file is one document; in .jsonl files, every line is a document. No token crosses the boundary of a document.
Patterns: gpt2, gpt4 (the same as llama3), nanochat, o200k, and gpt1 for lower-case words that end in </w> and consist of
characters instead of bytes. The result is a tokenizer.json that other programs can read. It does not depend on the number of
threads.

Count words with eight processes, on any machines that share the files, and train on the counts. The tokenizer.json is byte
for byte the same as that of one process. In a SLURM array job, the number of the task is $SLURM_ARRAY_TASK_ID:
  gpt tokenizer train --data crawl/ --vocab-size 65536 --out tok --task 3/8
  gpt tokenizer train --out tok --merge
Use --max-words with --merge if all tasks together have more distinct words.)";

constexpr const char* kEncodeFooter = R"(Examples:
  gpt tokenizer encode --tokenizer tok < input.txt
  gpt tokenizer encode --tokenizer tok --jsonl < texts.jsonl > ids.jsonl
  gpt tokenizer encode --tokenizer tok --text "Every effort moves you" --explain

The text of standard input is encoded unchanged, including line ends. With --jsonl, every input line is an object {"text":...}, and
every output line is {"ids":[...]}. Without --special, names of special tokens are ordinary text.)";

constexpr const char* kDecodeFooter = R"(Examples:
  gpt tokenizer decode tok 1 2 3
  gpt tokenizer decode --tokenizer tok < ids.txt > text.txt
  gpt tokenizer decode --tokenizer tok --jsonl < ids.jsonl

Token ids on standard input are separated by spaces, commas or line ends. The decoded bytes are written unchanged. With --jsonl,
every input line is an object {"ids":[...]}, and every output line is {"text":...}, with invalid bytes as U+FFFD.)";

struct TokenizerArguments {
  std::string tokenizer, text, field = "text";
  std::vector<std::string> ids;
  bool has_text = false, has_ids = false;
  bool special = false, jsonl = false, explain = false, json = false;
  MachineOptions machine;
};

int64_t line_of(std::string_view text, size_t at) {
  return 1 + std::ranges::count(text.substr(0, at), '\n');
}

void require_text(std::string_view text, const Tokenizer& tokenizer) {
  if (tokenizer.kind() == "byte") return;
  const auto at = first_invalid_utf8(text);
  if (!at) return;
  fail("standard input:{}: not valid UTF-8 at byte {} of the text (0x{:02x}); convert it to UTF-8",
       line_of(text, static_cast<size_t>(*at)), *at,
       static_cast<unsigned>(static_cast<unsigned char>(text[static_cast<size_t>(*at)])));
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text, bool special) {
  return special ? tokenizer.encode_special(text) : tokenizer.encode(text);
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// Calls `f` for every non-blank line of standard input, in parallel, and writes the results in order. An
// error is thrown after the results of all lines before it are written.
void for_each_line(const TokenizerArguments& a,
                   const std::function<std::string(std::string_view line, const std::string& place)>& f) {
  ThreadPool pool(chosen_threads(a.machine));
  for_each_input_lines([&](std::string_view text, int64_t first) {
    const std::vector<std::string_view> lines = lines_of(text);
    std::vector<std::string> results(lines.size());
    std::vector<std::exception_ptr> errors(lines.size());
    pool.parallel_for(std::ssize(lines), [&](int64_t i, int) {
      const auto at = static_cast<size_t>(i);
      if (is_blank(lines[at])) return;
      try {
        results[at] = f(lines[at], fmt::format("standard input:{}", first + i));
      } catch (...) {
        errors[at] = std::current_exception();
      }
    });
    std::string out;
    for (size_t i = 0; i < lines.size() && !errors[i]; ++i)
      out += results[i];
    write_output(out);
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    return true;
  });
}

std::string encode_line(const Tokenizer& tokenizer, const TokenizerArguments& a, std::string_view line,
                        const std::string& place) {
  const std::string text = json_line_text(line, a.field, place);
  try {
    return fmt::format("{{\"ids\":[{}]}}\n", fmt::join(encode(tokenizer, text, a.special), ","));
  } catch (const Error& error) {
    fail_because(error, "{}: {}", place, error.what());
  }
}

int run_encode(const TokenizerArguments& a) {
  if (a.jsonl && (a.has_text || a.explain || a.json))
    fail_usage("--jsonl reads standard input and writes JSON lines; leave out --text, --explain and --json");
  const auto tokenizer = chosen_tokenizer(a.tokenizer);
  if (a.jsonl) {
    for_each_line(a, [&](std::string_view line, const std::string& place) {
      return encode_line(*tokenizer, a, line, place);
    });
    return 0;
  }
  const std::string text = a.has_text ? a.text : read_input();
  if (a.has_text && path_kind(a.text) == PathKind::file)
    write_note(
        fmt::format("note: encoding the text \"{0}\"; to encode the file of this name, use gpt tokenizer "
                    "encode {1} < {0}\n",
                    shell_quoted(a.text), shell_quoted(a.tokenizer)));
  require_text(text, *tokenizer);
  if (a.explain) {
    write_output(explanation(*tokenizer, text, a.json));
    return 0;
  }
  const std::vector<int32_t> ids = encode(*tokenizer, text, a.special);
  if (a.json) {
    const json out = {{"ids", ids}, {"tokens", ids.size()}, {"text_bytes", text.size()}};
    write_output(out.dump() + "\n");
  } else {
    write_output(fmt::format("{}\n", fmt::join(ids, " ")));
    if (notes_are_on_terminal() && a.has_text)
      write_next({"gpt", "tokenizer", "encode", a.tokenizer, a.text, "--explain"});
  }
  return 0;
}

std::string decode_line(const Tokenizer& tokenizer, std::string_view line, const std::string& place) {
  json object;
  try {
    object = parse_json(line, place, {.max_bytes = line.size() + 1, .max_elements = line.size() + 1});
  } catch (const Error&) {  // the message below says what is expected
  }
  const bool good = object.is_object() && object.contains("ids") && object["ids"].is_array();
  if (!good) fail("{}: expected one object {{\"ids\":[...]}} per line", place);
  std::vector<int32_t> ids;
  for (const json& id : object["ids"]) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX)
      fail("{}: expected ids from 0 to {}, found {}", place, tokenizer.vocab_size() - 1,
           printable_text(id.dump(), 40));
    ids.push_back(id.get<int32_t>());
  }
  try {
    return json{{"text", replace_invalid_utf8(tokenizer.decode(ids))}}.dump() + "\n";
  } catch (const Error& error) {
    fail_because(error, "{}: {}", place, error.what());
  }
}

int run_decode(const TokenizerArguments& a) {
  if (a.jsonl && (a.has_ids || a.json))
    fail_usage("--jsonl reads standard input and writes JSON lines; leave out --ids and --json");
  const auto tokenizer = chosen_tokenizer(a.tokenizer);
  if (a.jsonl) {
    for_each_line(a, [&](std::string_view line, const std::string& place) {
      return decode_line(*tokenizer, line, place);
    });
    return 0;
  }
  const auto write = [&](std::span<const int32_t> ids) { show_text(tokenizer->decode(ids)); };
  const std::string given = fmt::format("{}", fmt::join(a.ids, " "));
  if (a.json) {
    const auto ids = a.has_ids ? parse_ids(given, "--ids") : parse_ids(read_input(), "standard input", 1);
    show_json(json{{"text", replace_invalid_utf8(tokenizer->decode(ids))}, {"tokens", ids.size()}}.dump() +
              "\n");
  } else if (a.has_ids) {
    write(parse_ids(given, "--ids"));
  } else {
    for_each_input_lines([&](std::string_view lines, int64_t line) {
      write(parse_ids(lines, "standard input", line));
      return true;
    });
  }
  return 0;
}

int run_info(const TokenizerArguments& a) {
  const auto tokenizer = chosen_tokenizer(a.tokenizer);
  write_output(describe_tokenizer(*tokenizer, a.json));
  if (!a.json) write_next({"gpt", "tokenizer", "encode", a.tokenizer, "Every effort moves you", "--explain"});
  return 0;
}

void add_required_tokenizer(CLI::App& app, TokenizerArguments& a) {
  add_tokenizer_option(app, a.tokenizer, "--tokenizer,TOKENIZER", "");
}

void add_jsonl_option(CLI::App& app, bool& jsonl) {
  add(app, {.flags = "--jsonl", .help = "Read and write one JSON object per line"}, jsonl);
}

// Rejects the flags whose values a merge takes from the tasks, and flags that need the text.
void check_tokenizer_merge(const CLI::App& app) {
  for (const char* flag : {"--data", "--include", "--exclude", "--vocab-size", "--pattern",
                           "--special-tokens", "--no-special", "--field", "--task", "--against"}) {
    if (app.count(flag) > 0)
      fail_usage("{}: cannot be combined with --merge, which uses the settings of the tasks", flag);
  }
}

void add_task_options(CLI::App& app, TokenizerTrainArguments& a) {
  add(app,
      {.flags = "--task",
       .value = "I/N",
       .help = "Count only the words of part I of N of the text, where I is 1 to N"},
      a.task);
  add(app, {.flags = "--merge", .help = "Train on the words that all tasks in --out have counted"}, a.merge);
  add(app,
      {.flags = "--against",
       .value = "FILE|DIR",
       .help = "Tokenizer to compare with",
       .kind = ValueKind::path},
      a.against);
  add(app, {.flags = "--max-words", .value = "N", .help = "Maximum number of distinct words in memory"},
      a.max_words);
}

Command add_train(CLI::App& parent) {
  auto a = std::make_shared<TokenizerTrainArguments>();
  CLI::App* app = add_command(parent, "train", "train a BPE tokenizer on text", kTokenizerTrainFooter);
  add(*app,
      {.flags = "--data,DATA",
       .value = "PATH ...",
       .help = "Training text: files, folders or patterns; .txt and .jsonl, also as .gz and .zst",
       .kind = ValueKind::path},
      a->data);
  add_filter_options(*app, a->filter);
  add(*app, {.flags = "--vocab-size", .value = "N", .help = "Number of token ids, including special tokens"},
      a->vocab_size);
  add(*app,
      {.flags = "--pattern",
       .help = "Pattern that splits the text into words",
       .choices = transformed(train_patterns(), [](const TrainPattern& p) { return std::string(p.name); })},
      a->pattern);
  add(*app,
      {.flags = "--special-tokens",
       .value = "NAME ...",
       .help = "Special tokens, or names of sets of special tokens",
       .fallback = "<|endoftext|>"},
      a->special_tokens);
  add(*app, {.flags = "--no-special", .help = "Add no special tokens"}, a->no_special);
  add_field_option(*app, a->field);
  add(*app,
      {.flags = "-o,--out",
       .value = "DIR|FILE",
       .help = "Folder or .json file for the tokenizer",
       .kind = ValueKind::path,
       .aliases = kOutAliases},
      a->out);
  add(*app,
      {.flags = "--force",
       .help = "Replace an existing tokenizer",
       .aliases = kForceAliases,
       .environment = false},
      a->force);
  add_task_options(*app, *a);
  add_json_option(*app, a->json);
  add_machine_options(*app, a->machine);
  return {app,
          [a, app] {
            if (a->merge) check_tokenizer_merge(*app);
            return run_tokenizer_training(*a);
          },
          [a] {
            if (!a->merge) check_tokenizer_training(*a);
          }};
}

Command add_encode(CLI::App& parent) {
  auto a = std::make_shared<TokenizerArguments>();
  CLI::App* app = add_command(parent, "encode", "encode text as token ids", kEncodeFooter);
  add_required_tokenizer(*app, *a);
  const CLI::Option* text = add(*app,
                                {.flags = "--text,TEXT",
                                 .value = "TEXT",
                                 .help = "Text to encode, instead of standard input",
                                 .aliases = "-p|--prompt"},
                                a->text);
  add(*app,
      {.flags = "--special",
       .help = "Encode names of special tokens in the text as these tokens",
       .aliases = kSpecialAliases},
      a->special);
  add_jsonl_option(*app, a->jsonl);
  add_field_option(*app, a->field);
  add(*app, {.flags = "--explain", .help = "Show words and merges step by step"}, a->explain);
  add_json_option(*app, a->json);
  add_machine_options(*app, a->machine);
  return {app, [a, text] {
            a->has_text = text->count() > 0;
            return run_encode(*a);
          }};
}

Command add_decode(CLI::App& parent) {
  auto a = std::make_shared<TokenizerArguments>();
  CLI::App* app = add_command(parent, "decode", "decode token ids to text", kDecodeFooter);
  add_required_tokenizer(*app, *a);
  const CLI::Option* ids = add(
      *app,
      {.flags = "--ids,IDS", .value = "1,2,...", .help = "Token ids to decode, instead of standard input"},
      a->ids);
  add_jsonl_option(*app, a->jsonl);
  add_json_option(*app, a->json);
  add_machine_options(*app, a->machine);
  return {app, [a, ids] {
            a->has_ids = ids->count() > 0;
            return run_decode(*a);
          }};
}

Command add_tokenizer_info(CLI::App& parent) {
  auto a = std::make_shared<TokenizerArguments>();
  CLI::App* app = add_command(parent, "info", "show the properties of a tokenizer",
                              "Examples:\n  gpt tokenizer info --tokenizer tok\n"
                              "  gpt tokenizer info --tokenizer tok --json");
  add_required_tokenizer(*app, *a);
  add_json_option(*app, a->json);
  return {app, [a] { return run_info(*a); }};
}

}  // namespace

std::vector<Command> add_tokenizer_commands(CLI::App& root) {
  CLI::App* tokenizer = add_command(root, "tokenizer", "train and use tokenizers", kTokenizerFooter);
  tokenizer->require_subcommand(0, 1);
  return {add_train(*tokenizer), add_encode(*tokenizer), add_decode(*tokenizer),
          add_tokenizer_info(*tokenizer)};
}

}  // namespace gpt
