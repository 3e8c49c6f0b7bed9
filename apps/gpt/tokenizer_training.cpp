#include "tokenizer_training.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/format.h"
#include "base/json.h"
#include "base/problems.h"
#include "base/utf8.h"
#include "data/corpus.h"
#include "data/text_blocks.h"
#include "data/word_tasks.h"
#include "interrupt.h"
#include "output.h"
#include "report/table.h"
#include "text/tokenizer_facts.h"
#include "text/tokenizer_trainer.h"

namespace gpt {
namespace {

using nlohmann::json;
constexpr size_t kSampleBytes = size_t{16} << 20;  // sample for the comparison with another tokenizer
constexpr size_t kListedTokens = 10;

const TrainPattern& find_pattern(const std::string& name) {
  std::vector<std::string> names;
  for (const TrainPattern& pattern : train_patterns()) {
    if (pattern.name == name) return pattern;
    names.emplace_back(pattern.name);
  }
  check_choice("--pattern", name, names);
  fail_usage("--pattern: unknown {}", name);
}

// Expands names of token sets. Without any, the result is the document separator, so that packed and
// generated texts have an end.
std::vector<std::string> chosen_special_tokens(const TokenizerTrainArguments& a) {
  if (a.no_special && !a.special_tokens.empty())
    fail_usage("--no-special and --special-tokens: expected one of them");
  if (a.special_tokens.empty() && !a.no_special) return *special_token_set("gpt2");
  std::vector<std::string> tokens;
  for (const std::string& name : a.special_tokens) {
    if (name == "none") continue;
    const std::vector<std::string>* set = special_token_set(name);
    const std::vector<std::string> alone = {name};
    for (const std::string& token : set != nullptr ? *set : alone)
      tokens.push_back(token);
  }
  return tokens;
}

// Returns the path of the tokenizer file: FILE.json, or tokenizer.json in a folder.
std::string output_path(const std::string& out) {
  if (out.ends_with(".json")) return out;
  return (std::filesystem::path(out) / "tokenizer.json").string();
}

bool is_tokenizer_json(const std::string& path) {
  try {
    constexpr JsonLimits kLarge{.max_bytes = uint64_t{1} << 28, .max_elements = uint64_t{1} << 24};
    const json object = read_json_file(path, kLarge);
    const json model = object.is_object() ? object.value("model", json()) : json();
    return model.is_object() && model.contains("vocab");
  } catch (const Error&) {
    return false;
  }
}

// Throws Error if the output must not be written. --force only replaces an existing tokenizer.
void check_output(const TokenizerTrainArguments& a, const std::vector<std::string>& inputs) {
  const std::string path = output_path(a.out);
  check_new_file("--out", path, a.force, inputs);
  if (is_file(path) && file_bytes(path) > 0 && !is_tokenizer_json(path))
    fail("--out: {} is not a tokenizer.json and is not replaced; move it, or choose a different name", path);
}

// Throws Interrupted after Ctrl-C. Nothing has been written before the tokenizer is complete.
void stop_if_interrupted() {
  if (interrupted()) throw Interrupted("interrupted; no tokenizer was written");
}

// Counts the words of the texts in order and keeps the start of the text as a sample.
class TextReader {
 public:
  TextReader(const TokenizerTrainArguments& a, WordCounter& counter)
      : field_(a.field), sample_bytes_(a.against.empty() ? 0 : kSampleBytes), counter_(counter) {}

  // With a share, every block counts as a document, because blocks end at word boundaries.
  void read(const std::vector<std::string>& files, const TaskShare* share = nullptr) {
    SharedBlocks blocks(files, {}, share);
    ProgressNote note("counting");
    const auto total = static_cast<double>(blocks.bytes_total());
    int64_t number = 0;
    for (TextBlock block; blocks.next(block, number);) {
      const std::string& path = files[static_cast<size_t>(block.begin.file)];
      if (block.json) {
        for_each_json_text(block, path, field_, [&](std::string_view text, int64_t) { add(text, true); });
      } else {
        require_utf8(block, path);
        add(block.text, block.ends_document || share != nullptr);
      }
      note.update(static_cast<double>(blocks.bytes_done()), total,
                  format_bytes(counter_.bytes()) + " of text");
      fault_point("tokenizer.count", number);
      stop_if_interrupted();
    }
    counter_.finish();
  }
  const std::string& sample() const { return sample_; }

 private:
  void add(std::string_view text, bool ends) {
    counter_.add(text);
    if (ends) counter_.end_document();
    if (sample_.size() < sample_bytes_) sample_ += text;
  }

  const std::string& field_;
  size_t sample_bytes_;
  WordCounter& counter_;
  std::string sample_;
};

// The number of tokens of two tokenizers for the same text.
struct Comparison {
  std::string name;
  int64_t bytes = 0, own_tokens = 0, other_tokens = 0;
};

Comparison compare(const std::string& name, const std::string& sample, const Tokenizer& own) {
  const auto other = chosen_tokenizer(name);
  return {name, std::ssize(sample), std::ssize(own.encode(sample)), std::ssize(other->encode(sample))};
}

double ratio(int64_t a, int64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

struct Report {
  std::string path;
  TrainedTokenizer trained;
  TokenizerFacts facts;
  std::vector<std::string> longest;  // the longest tokens, for the report to people
  int64_t files, bytes, words, distinct_words;
  uint64_t dropped_below;
  std::optional<Comparison> comparison;
  double count_seconds, merge_seconds;
};

json report_json(const TokenizerTrainArguments& a, const Report& r) {
  json out = {{"tokenizer", r.path},
              {"pattern", a.pattern},
              {"vocab_size", r.trained.vocab_size},
              {"merges", r.facts.merges},
              {"special_tokens", json::array()},
              {"files", r.files},
              {"text_bytes", r.bytes},
              {"text_tokens", r.trained.text_tokens},
              {"bytes_per_token", ratio(r.bytes, r.trained.text_tokens)},
              {"words", r.words},
              {"distinct_words", r.distinct_words},
              {"longest_tokens", r.longest},
              {"count_seconds", r.count_seconds},
              {"merge_seconds", r.merge_seconds}};
  for (const auto& token : r.facts.added)
    out["special_tokens"].push_back({{"id", token.id}, {"text", token.text}});
  if (r.dropped_below > 0) out["dropped_words_below"] = r.dropped_below;
  if (r.comparison) {
    const Comparison& c = *r.comparison;
    out["against"] = {{"tokenizer", c.name},
                      {"sample_bytes", c.bytes},
                      {"tokens", c.own_tokens},
                      {"other_tokens", c.other_tokens},
                      {"ratio", ratio(c.own_tokens, c.other_tokens)}};
  }
  return out;
}

std::string report_text(const Report& r) {
  TextTable table;
  const auto row = [&](const char* name, std::string value, std::string note = "") {
    table.rows.push_back({name, std::move(value), std::move(note)});
  };
  row("vocabulary", format_thousands(r.trained.vocab_size),
      fmt::format("{} bytes or characters, {}, {} special",
                  format_thousands(r.trained.vocab_size - r.facts.merges - std::ssize(r.facts.added)),
                  format_amount(r.facts.merges, "merge"), r.facts.added.size()));
  row("text bytes", format_thousands(r.bytes), format_amount(r.files, "file"));
  row("tokens", format_thousands(r.trained.text_tokens), "of this text");
  row("bytes per token", format_ratio(ratio(r.bytes, r.trained.text_tokens)));
  row("words", format_thousands(r.words), format_thousands(r.distinct_words) + " different");
  row("counting", format_duration(r.count_seconds),
      format_bytes(static_cast<double>(r.bytes) / r.count_seconds) + "/s");
  row("merging", format_duration(r.merge_seconds));
  if (r.comparison) {
    const Comparison& c = *r.comparison;
    row("against other", format_ratio(ratio(c.own_tokens, c.other_tokens)),
        fmt::format("times the tokens of {}; {} vs. {} bytes per token", c.name,
                    format_ratio(ratio(c.bytes, c.own_tokens)),
                    format_ratio(ratio(c.bytes, c.other_tokens))));
  }
  return fmt::format("{}\nlongest tokens: \"{}\"\n{} written\n", format_table(table),
                     fmt::join(r.longest, "\", \""), r.path);
}

TrainedTokenizer merge(const WordCounter& counter, const TokenizerTrainArguments& a,
                       const TrainPattern& pattern) {
  ProgressNote note("merging");
  const auto progress = [&](int64_t done, int64_t total) {
    note.update(static_cast<double>(done), static_cast<double>(total),
                fmt::format("{} of {} tokens", format_thousands(done), format_thousands(total)));
    stop_if_interrupted();
  };
  TokenizerTrainOptions options{.vocab_size = a.vocab_size, .special_tokens = chosen_special_tokens(a)};
  if (!pattern.split) return train_gpt1_bpe(counter, options, progress);
  options.pattern = *pattern.split;
  return train_byte_level_bpe(counter, options, progress);
}

// Parses the new tokenizer. Throws Error if it cannot be read back; then it is not written.
std::unique_ptr<Tokenizer> read_back(const std::string& text, const std::string& path) {
  try {
    return parse_tokenizer(text, path);
  } catch (const Error& error) {
    fail_because(error,
                 "the tokenizer was not written, because it cannot be read back (use fewer tokens or shorter "
                 "words): {}",
                 error.what());
  }
}

void check_vocabulary(const TokenizerTrainArguments& a) {
  const int64_t least = 256 + std::ssize(chosen_special_tokens(a));
  if (a.pattern != "gpt1" && a.vocab_size < least)
    fail_usage("--vocab-size: expected at least {} (256 bytes and {}), found {}", least,
               format_amount(least - 256, "special token"), a.vocab_size);
}

}  // namespace

void check_tokenizer_training(const TokenizerTrainArguments& a) {
  Problems problems;
  problems.collect([&] {
    if (a.out.empty()) fail_usage("--out is missing: name a folder or a .json file for the tokenizer");
    check_folder_name(a.out, {".json"});
  });
  problems.collect([&] {
    if (a.data.empty()) fail_usage("--data is missing: name the training text, for example --data input.txt");
  });
  problems.collect([&] { find_pattern(a.pattern); });
  problems.collect([&] { check_vocabulary(a); });
  problems.report();
  if (path_exists(a.out + "/config.json") && is_folder(a.out + "/last"))
    fail("--out: {} is the folder of a run; choose a different folder for the tokenizer", a.out);
}

namespace {

// Trains a tokenizer on the word counts and writes it.
int write_tokenizer(const TokenizerTrainArguments& a, const WordCounter& counter, const std::string& sample,
                    Report r) {
  if (counter.bytes() == 0) fail("the text of {} is empty", a.data[0]);
  const auto merging = Clock::now();
  r.trained = merge(counter, a, find_pattern(a.pattern));
  r.merge_seconds = seconds_since(merging);
  const auto tokenizer = read_back(r.trained.json, r.path);
  if (!a.out.ends_with(".json")) make_directories(a.out);
  write_file_atomic(r.path, r.trained.json);
  r.facts = tokenizer_facts(*tokenizer, kListedTokens);
  for (const int32_t id : r.facts.longest)
    r.longest.push_back(printable_text(tokenizer->token_bytes(id), 60));
  r.bytes = counter.bytes();
  r.words = counter.total();
  r.distinct_words = std::ssize(counter.words());
  r.dropped_below = counter.dropped_below();
  if (!a.against.empty()) r.comparison = compare(a.against, sample, *tokenizer);
  if (r.dropped_below > 0) {
    write_note(
        fmt::format("note: more than {} distinct words; words with fewer than {} occurrences were dropped "
                    "(--max-words)\n",
                    format_thousands(a.max_words), r.dropped_below));
  }
  if (r.trained.vocab_size < a.vocab_size) {
    write_note(fmt::format("note: the text has no more pairs to merge after {} tokens; --vocab-size is {}\n",
                           format_thousands(r.trained.vocab_size), format_thousands(a.vocab_size)));
  }
  write_output(a.json ? report_json(a, r).dump(2) + "\n" : report_text(r));
  if (!a.json) write_next(train_command(a.data, a.out, a.filter, a.field));
  return 0;
}

WordCounter counter_of(const TokenizerTrainArguments& a, ThreadPool& pool) {
  const TrainPattern& pattern = find_pattern(a.pattern);
  return WordCounter(pattern.split ? piece_splitter(*pattern.split) : gpt1_splitter(), pool,
                     {.max_words = a.max_words});
}

void require_folder(const TokenizerTrainArguments& a, const char* flag) {
  if (a.out.empty() || a.out.ends_with(".json"))
    fail_usage("--out: expected a folder with {}, found {}", flag, a.out.empty() ? "nothing" : a.out);
}

// Counts the words of one of several tasks.
int run_task(const TokenizerTrainArguments& a) {
  const PackTask task = parse_pack_task(a.task);
  require_folder(a, "--task");
  if (!a.against.empty()) fail_usage("--against: cannot be combined with --task");
  install_graceful_interrupt("ending");
  const FolderLock lock = FolderLock::of_folder(task_folder(a.out, task), write_note);
  ThreadPool pool(chosen_threads(a.machine));
  TextFiles found = find_text_files(a.data, nullptr, a.filter);
  write_note(found.notes);
  check_output(a, found.files);
  const WordTaskOptions options{.files = std::move(found.files),
                                .field = a.field,
                                .pattern = a.pattern,
                                .vocab_size = a.vocab_size,
                                .special_tokens = chosen_special_tokens(a)};
  if (has_word_counts(a.out, task, options)) {
    write_note(fmt::format("task {} is already complete\n", task_name(task)));
  } else {
    const std::string inputs = word_inputs(options);
    const TaskShare share(options.files, task);
    WordCounter counter = counter_of(a, pool);
    TextReader(a, counter).read(options.files, &share);
    write_word_counts(a.out, task, options, inputs, counter);
    write_output(fmt::format("task {}: {} of text, {}\n", task_name(task), format_bytes(counter.bytes()),
                             format_amount(counter.total(), "word")));
  }
  write_next_of_task({"gpt", "tokenizer", "train", "--out", a.out, "--merge"}, missing_word_tasks(a.out));
  return 0;
}

// Returns the arguments that the tasks were given. The caller holds the locks of all tasks, so none is
// running.
TokenizerTrainArguments arguments_of_tasks(TokenizerTrainArguments a) {
  const WordTaskOptions options = plan_word_merge(a.out);
  a.data = options.files;
  a.pattern = options.pattern;
  a.vocab_size = options.vocab_size;
  a.special_tokens = options.special_tokens;
  a.no_special = options.special_tokens.empty();
  check_tokenizer_training(a);
  return a;
}

// Trains a tokenizer on the word counts of all tasks.
int merge_locked(const std::string& out, const TokenizerTrainArguments& given, ThreadPool& pool) {
  std::vector<std::unique_ptr<const FolderLock>> locks;
  for (const PackTask& task : tasks_in(out))
    locks.emplace_back(new FolderLock(FolderLock::of_folder(task_folder(out, task), write_note)));
  const auto start = Clock::now();
  const TokenizerTrainArguments a = arguments_of_tasks(given);
  Report r{.path = output_path(out), .files = std::ssize(a.data)};
  check_output(a, a.data);
  WordCounter counter = counter_of(a, pool);
  add_word_counts(out, counter);
  counter.finish();
  if (counter.dropped_below() > 0)
    fail("all tasks together have more than {} distinct words; use a larger --max-words with --merge",
         format_thousands(a.max_words));
  r.count_seconds = seconds_since(start);
  return write_tokenizer(a, counter, "", std::move(r));
}

int run_merge(const TokenizerTrainArguments& a) {
  require_folder(a, "--merge");
  if (!is_folder(a.out))
    fail_not_found("cannot read {}: no such folder; name the folder of the tasks", a.out);
  install_graceful_interrupt("ending");
  const FolderLock lock = FolderLock::of_folder(a.out, write_note);
  ThreadPool pool(chosen_threads(a.machine));
  const int status = merge_locked(a.out, a, pool);
  remove_word_counts(a.out);
  return status;
}

}  // namespace

int run_tokenizer_training(const TokenizerTrainArguments& a) {
  if (a.merge) return run_merge(a);
  if (!a.task.empty()) return run_task(a);
  install_graceful_interrupt("ending");
  const FolderLock lock = a.out.ends_with(".json") ? FolderLock::of_file(a.out, write_note)
                                                   : FolderLock::of_folder(a.out, write_note);
  ThreadPool pool(chosen_threads(a.machine));
  const auto start = Clock::now();
  const TextFiles found = find_text_files(a.data, nullptr, a.filter);
  write_note(found.notes);
  Report r{.path = output_path(a.out), .files = std::ssize(found.files)};
  check_output(a, found.files);
  WordCounter counter = counter_of(a, pool);
  TextReader reader(a, counter);
  reader.read(found.files);
  r.count_seconds = seconds_since(start);
  return write_tokenizer(a, counter, reader.sample(), std::move(r));
}

}  // namespace gpt
