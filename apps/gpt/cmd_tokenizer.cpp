#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/parse.h"
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

A tokenizer is a tokenizer.json, or what has been published without one: a SentencePiece model of kind BPE (.model), vocab.json
with merges.txt, ranks of tiktoken, a .gguf; or the folder with one of these; or byte, or char.)";

constexpr const char* kTokenizerTrainFooter = R"(Examples:
  gpt tokenizer train --data input.txt --vocab-size 4096 --out tok
  gpt tokenizer train --data docs/ 'crawl/*.jsonl.gz' --pattern gpt4 --vocab-size 65536 --out tok
  gpt tokenizer train --data chat.jsonl --field content --special-tokens nanochat --out tok
  gpt tokenizer train --data input.txt --special-tokens '<|endoftext|>' '<|pad|>' --out tok --against gpt2/

--vocab-size counts all ids: bytes, merges and special tokens. Special tokens get the last ids: <|endoftext|>,
which gpt data pack puts in front of documents, or the tokens that --special-tokens names. Sets of them: gpt2 (<|endoftext|>), nanochat,
chatml, llama3. A text file is a document, in .jsonl every line is one; no token goes from one to the next. Patterns: gpt2, gpt4 (= llama3), nanochat, o200k,
and gpt1 for words in lower case that end in </w>, made of characters instead of bytes. The result is a
tokenizer.json that other programs read too, the same for any number of threads.

Eight processes, on any machines that see the same files, count words, from 1; then one learns from them, for
the same tokenizer.json byte for byte. An array job has its own number in $SLURM_ARRAY_TASK_ID:
  gpt tokenizer train --data crawl/ --vocab-size 65536 --out tok --task 3/8
  gpt tokenizer train --out tok --merge
--merge alone is given --max-words where tasks together have more different words.)";

constexpr const char* kEncodeFooter = R"(Examples:
  gpt tokenizer encode --tokenizer tok < input.txt
  gpt tokenizer encode --tokenizer tok --jsonl < texts.jsonl > ids.jsonl
  gpt tokenizer encode --tokenizer tok --text "Every effort moves you" --explain

The text comes from standard input as it is, line ends included. With --jsonl every line has an object
{"text":...} and gives a line {"ids":[...]}. Names of special tokens are ordinary text without --special.)";

constexpr const char* kDecodeFooter = R"(Examples:
  gpt tokenizer decode tok 1 2 3
  gpt tokenizer decode --tokenizer tok < ids.txt > text.txt
  gpt tokenizer decode --tokenizer tok --jsonl < ids.jsonl

Ids come from standard input, separated by blanks, commas or line ends. The bytes are written as they are. With
--jsonl every line has an object {"ids":[...]} and gives a line {"text":...}, invalid bytes as U+FFFD.)";

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
        fmt::format("note: these are the ids of the text \"{0}\"; those of the file of this name: gpt "
                    "tokenizer encode {1} < {0}\n",
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
  if (!good) fail("{}: expected an object {{\"ids\":[...]}} on a line of its own", place);
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

void add_tokenizer_option(CLI::App& app, TokenizerArguments& a) {
  add_value(app, "--tokenizer,TOKENIZER", a.tokenizer, "FILE|DIR", "tokenizer.json, model folder, or byte");
}

// Rejects the flags whose values a merge takes from the tasks, and flags that need the text.
void check_tokenizer_merge(const CLI::App& app) {
  for (const char* flag : {"--data", "--include", "--exclude", "--vocab-size", "--pattern",
                           "--special-tokens", "--no-special", "--field", "--task", "--against"}) {
    if (app.count(flag) > 0)
      fail_usage("{}: expected none with --merge, which takes from the tasks what they were given", flag);
  }
}

Command add_train(CLI::App& parent) {
  auto a = std::make_shared<TokenizerTrainArguments>();
  CLI::App* app = add_command(parent, "train", "learn a BPE from text", kTokenizerTrainFooter);
  add_value(*app, "--data,DATA", a->data, "PATH ...",
            "text: files, folders or patterns; .txt, .jsonl, also .gz and .zst");
  add_filter_options(*app, a->filter);
  add_shown(*app, "--vocab-size", a->vocab_size, "N", "number of ids, special tokens included");
  add_shown(*app, "--pattern", a->pattern, "gpt2|gpt4|nanochat|o200k|gpt1", "how text is cut into pieces");
  add_value(*app, "--special-tokens", a->special_tokens, "NAME ...",
            "names of special tokens, or of sets (<|endoftext|>)");
  app->add_flag("--no-special", a->no_special, "no special token, not even <|endoftext|>");
  add_shown(*app, "--field", a->field, "NAME", "field of the text in .jsonl files");
  add_value(*app, "-o,--out", a->out, "DIR|FILE", "folder or .json file for the tokenizer");
  app->add_flag("--force", a->force, "replace a tokenizer that is there already");
  add_value(*app, "--task", a->task, "I/N", "count the words of the I-th of N parts of the text, 1/N to N/N");
  app->add_flag("--merge", a->merge, "learn from the words that all tasks in --out counted");
  add_value(*app, "--against", a->against, "FILE|DIR", "compare with this tokenizer");
  add_shown(*app, "--max-words", a->max_words, "N", "different words to remember; bounds memory");
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
  CLI::App* app = add_command(parent, "encode", "text to ids", kEncodeFooter);
  add_tokenizer_option(*app, *a);
  const CLI::Option* text =
      add_value(*app, "--text,TEXT", a->text, "TEXT", "the text, instead of standard input");
  app->add_flag("--special", a->special, "names of special tokens in the text are these tokens");
  app->add_flag("--jsonl", a->jsonl, "one JSON object a line");
  add_shown(*app, "--field", a->field, "NAME", "field of the text with --jsonl");
  app->add_flag("--explain", a->explain, "show pieces and merges step by step");
  add_json_option(*app, a->json);
  add_machine_options(*app, a->machine);
  return {app, [a, text] {
            a->has_text = text->count() > 0;
            return run_encode(*a);
          }};
}

Command add_decode(CLI::App& parent) {
  auto a = std::make_shared<TokenizerArguments>();
  CLI::App* app = add_command(parent, "decode", "ids to text", kDecodeFooter);
  add_tokenizer_option(*app, *a);
  const CLI::Option* ids =
      add_value(*app, "--ids,IDS", a->ids, "1,2,...", "the ids, instead of standard input");
  app->add_flag("--jsonl", a->jsonl, "one JSON object a line");
  add_json_option(*app, a->json);
  add_machine_options(*app, a->machine);
  return {app, [a, ids] {
            a->has_ids = ids->count() > 0;
            return run_decode(*a);
          }};
}

Command add_tokenizer_info(CLI::App& parent) {
  auto a = std::make_shared<TokenizerArguments>();
  CLI::App* app = add_command(parent, "info", "what a tokenizer is made of",
                              "Examples:\n  gpt tokenizer info --tokenizer tok\n"
                              "  gpt tokenizer info --tokenizer tok --json");
  add_tokenizer_option(*app, *a);
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
