#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/format.h"
#include "base/printable.h"
#include "command.h"
#include "config_flags.h"
#include "data/file_kind.h"
#include "data/loader.h"
#include "data/pack.h"
#include "data/pack_task.h"
#include "data/preview.h"
#include "data/shard_set.h"
#include "data/tales.h"
#include "data/tales_conversations.h"
#include "data/tales_questions.h"
#include "data/text_blocks.h"
#include "interrupt.h"
#include "options.h"
#include "output.h"
#include "pack_report.h"
#include "run/run_data.h"
#include "shown_flags.h"

namespace gpt {
namespace {

constexpr const char* kDataFooter = R"(Examples:
  gpt data tales --bytes 1000000 --seed 1 --out tales.txt
  gpt data tales --bytes 500
  gpt data tales --labelled 1000 --task choose --out choose.jsonl
  gpt data tales --labelled 2000 --task chat --about color food --out chat.jsonl
  gpt data tales --questions 300 --seed 9 --out tales_facts.jsonl     for gpt eval --tasks
  gpt data preview --data input.txt --tokenizer char --n-ctx 64
  gpt data pack --data docs/ 'crawl/*.jsonl.zst' --tokenizer tok --out shards
  gpt data info shards
  gpt data verify shards)";

constexpr const char* kPackFooter = R"(Examples:
  gpt data pack --data input.txt --tokenizer tok --out input.bin
  gpt data pack --data docs/ 'crawl/*.jsonl.zst' --tokenizer tok --out shards --shard-tokens 50000000
  gpt data pack --data stories.jsonl.gz --field story --tokenizer gpt2/ --out shards --format llmc
  gpt data pack --data docs/ --tokenizer tok --out shards --dry-run    show the plan only
  gpt train --data shards --tokenizer shards --out run

Pack with eight processes, on any machines that share the files, and merge their parts:
  gpt data pack --data crawl/ --tokenizer tok --out shards --task 3/8
  gpt data pack --out shards --merge
The first command as a SLURM array job (sbatch --array=1-8):
  gpt data pack --data crawl/ --tokenizer tok --out shards --task "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
To resume a task that was killed, run it again. The merged shards are byte for byte the same as those of one process. Until
they are merged, the parts in the folder .tasks need the same space again.

A .txt or .md file is one document; in .jsonl files, every line is a document. The shards contain the documents one after
another, each with the document token before it. To resume an interrupted command, run it again. It also writes
shards again that are missing or damaged, or whose text has changed. Changes are detected by the size and
modification time of the files; if both are unchanged, use --restart. It only replaces the shards that pack.json lists.)";

constexpr const char* kDataInfoFooter = R"(Examples:
  gpt data info shards
  gpt data info a.bin b.bin --check
  gpt data info shards --tokenizer shards --json)";

struct PackArguments {
  std::vector<std::string> data;
  FolderFilter filter;
  std::string tokenizer, document_token = "auto", format = "gpt";
  PackOptions options;  // complete except for files, tokenizer and document token
  std::string task;     // number and count of the task, e.g. "3/8"
  bool merge = false, dry_run = false, json = false;
  MachineOptions machine;
};

// Arguments of `gpt data info` and `gpt data verify`, which read existing shards.
struct ShardArguments {
  std::vector<std::string> paths;
  std::string tokenizer;
  bool check = false, json = false;
};

struct TalesArguments {
  int64_t bytes = 0, questions = 0, seed = 1, first_story = 0, labelled = 0, turns = 4;
  std::string out, task = "classify", split = "train";
  std::vector<std::string> about;
  bool invented = false, force = false;
};

struct PreviewArguments {
  FolderFilter filter;
  TrainConfig config;
  int64_t n_ctx = 64, batch_size = 4;
};

void write_tales(const TalesArguments& a, const std::string& text) {
  if (a.out.empty()) {
    write_output(text);
  } else {
    write_file_atomic(a.out, text);
  }
}

TalesSplit parse_split(const std::string& name) {
  return name == "train" ? TalesSplit::train : TalesSplit::test;
}

std::string labelled_lines(const TalesArguments& a) {
  const auto seed = static_cast<uint64_t>(a.seed);
  if (a.task != "chat" && a.task != "grpo") {
    if (!a.about.empty() || a.split != "train")
      fail_usage("--about and --split: expected --task chat or grpo");
    return labelled_tales(a.task, a.labelled, seed, a.first_story);
  }
  const auto conversations = tales_conversations(a.labelled, {.split = parse_split(a.split),
                                                              .kinds = a.about,
                                                              .turns = a.turns,
                                                              .seed = seed,
                                                              .first = a.first_story});
  return a.task == "chat" ? chat_lines(conversations) : grpo_lines(conversations);
}

// Writes labeled stories instead of plain text.
int run_labelled_tales(const TalesArguments& a) {
  write_tales(a, labelled_lines(a));
  if (!a.out.empty())
    write_next({"gpt", "finetune", "MODEL", "--task", a.task, "--data", a.out, "--out", "run"});
  return 0;
}

// Returns one JSON object per line, in the form that examples/tasks/tales_facts.yaml reads.
std::string question_lines(const TalesArguments& a) {
  std::string lines;
  for (const TalesQuestion& q : tales_questions(a.questions, static_cast<uint64_t>(a.seed), a.first_story)) {
    const nlohmann::ordered_json line = {{"kind", q.kind},
                                         {"story", q.story},
                                         {"choices", q.choices},
                                         {"answer", q.answer},
                                         {"number", q.number}};
    lines += line.dump() + "\n";
  }
  return lines;
}

int run_tales(const TalesArguments& a) {
  const int asked = (a.bytes != 0) + (a.questions != 0) + (a.labelled != 0);
  if (asked == 0) fail_usage("--bytes is missing: give the length of the text, for example --bytes 1000000");
  if (asked > 1) fail_usage("--bytes, --questions and --labelled: expected one of them");
  if (a.invented && a.bytes == 0) fail_usage("--invented: expected --bytes");
  if (a.seed < 0) fail_usage("--seed: expected a number of at least 0, found {}", a.seed);
  if (!a.out.empty()) check_new_file("--out", a.out, a.force);
  if (a.labelled != 0) return run_labelled_tales(a);
  if (a.questions != 0) {
    write_tales(a, question_lines(a));
    if (!a.out.empty()) write_next({"gpt", "eval", "MODEL", "--tasks", "TASK.yaml"});
    return 0;
  }
  if (a.invented) {
    if (a.first_story != 0) fail_usage("--first-story: cannot be combined with --invented");
    write_tales(a, invented_tales(a.bytes, static_cast<uint64_t>(a.seed)));
    if (!a.out.empty()) write_next({"gpt", "train", a.out, "--preset", "tiny", "--out", "run"});
    return 0;
  }
  const TalesText tales = generate_tales(a.bytes, static_cast<uint64_t>(a.seed), a.first_story);
  write_tales(a, tales.text);
  write_note(
      fmt::format("{} of tales; entropy {} bits per byte (this text: {}), the lower bound for any model on "
                  "average; the next story is number {}\n",
                  format_amount(std::ssize(tales.text), "byte"),
                  format_loss(tales_entropy_per_byte() / std::numbers::ln2),
                  format_loss(tales.nats / std::numbers::ln2 / static_cast<double>(tales.text.size())),
                  format_thousands(tales.next_story)));
  if (!a.out.empty()) write_next({"gpt", "train", a.out, "--preset", "tiny", "--out", "run"});
  return 0;
}

int run_preview(const PreviewArguments& a) {
  TrainConfig config = a.config;
  config.include = a.filter.include;
  config.exclude = a.filter.exclude;
  complete(config);
  check_range("--n-ctx", a.n_ctx, 1, 1 << 24);
  check_range("--batch-size", a.batch_size, 1, 1 << 20);
  check_sources(config, "");
  const RunData data = load_run_data(config, a.n_ctx, "");
  write_note(data.notes);
  const int64_t rows = std::min(kPreviewRows, a.batch_size);
  std::vector<int32_t> ids(static_cast<size_t>(rows * a.n_ctx)), targets(ids.size());
  const BatchLoader loader(data.sources, a.n_ctx, static_cast<uint64_t>(config.seed), Sampling::random);
  loader.fill(0, 0, rows, a.batch_size, ids.data(), targets.data());
  write_output(data.preview +
               preview_batch(*data.tokenizer, ids.data(), targets.data(), rows, a.batch_size, a.n_ctx) +
               preview_pairs(*data.tokenizer, ids.data(), targets.data(), a.n_ctx));
  if (data.floor) write_output(fmt::format("entropy: {} nats per token\n", format_loss(*data.floor)));
  write_next(train_command(a.config.data, a.config.tokenizer, a.filter, a.config.field));
  return 0;
}

// Runs a packing function and shows its progress.
PackStats pack(const char* what,
               const std::function<PackStats(const std::function<void(const PackProgress&)>&)>& work) {
  ProgressNote note(what);
  int64_t calls = 0;
  return work([&](const PackProgress& p) {
    note.update(p.done, p.total,
                fmt::format("{} tokens, {}, {}/s of text", format_count(p.stats.tokens),
                            format_amount(p.stats.shards, "shard"),
                            format_bytes(static_cast<double>(p.stats.text_bytes) / p.stats.seconds)));
    fault_point("pack.progress", calls++);
    if (interrupted())
      throw Interrupted("interrupted; run the same command again to resume after the last complete shard");
  });
}

void check(const PackArguments& a) {
  if (!a.task.empty() && a.dry_run) fail_usage("--task: cannot be combined with --dry-run");
  if (a.data.empty()) fail_usage("--data is missing: name text files, folders or patterns");
  if (a.options.out.empty()) fail_usage("--out is missing: name a folder for the shards, or one file *.bin");
  check_folder_name(a.options.out, {".bin"});
}

PackOptions pack_options(const PackArguments& a, const Tokenizer& tokenizer) {
  refuse_output_among_texts(a.options.out, a.data);
  TextFiles found = find_text_files(a.data, nullptr, a.filter);
  write_note(found.notes);
  PackOptions options = a.options;
  options.files = std::move(found.files);
  options.format = a.format == "gpt" ? ShardFormat::gpt : ShardFormat::llmc;
  if (a.document_token == "auto") {
    options.document_token = usual_document_token(tokenizer);
  } else if (a.document_token != "none") {
    options.document_token = special_token_id(tokenizer, a.document_token);
  }
  return options;
}

int run_dry(const PackArguments& a, const Tokenizer& tokenizer) {
  const PackOptions options = pack_options(a, tokenizer);
  const PackForecast forecast = forecast_pack(tokenizer, options);
  write_output(a.json ? forecast_json(options, forecast).dump(2) + "\n"
                      : show_flags(forecast_text(options, forecast)));
  return 0;
}

void write_stats_notes(const PackStats& stats) {
  write_note(stats.notes);
  if (stats.shards_before > 0)
    write_note(fmt::format("{} of {} already written\n", format_thousands(stats.shards_before),
                           format_amount(stats.shards, "shard was", "shards were")));
  if (stats.empty > 0) write_note(fmt::format("{} skipped\n", format_amount(stats.empty, "empty row")));
  for (const std::string& line : stats.mended)
    write_note(line + "\n");
}

// Packs the share of one of several tasks.
int run_task(const PackArguments& a) {
  const PackTask task = parse_pack_task(a.task);
  check(a);
  if (has_ending(a.options.out, ".bin"))
    fail_usage("--out: expected a folder with --task, found {}", a.options.out);
  const auto tokenizer = chosen_tokenizer(a.tokenizer);
  install_graceful_interrupt("stopping after this block of text");
  const FolderLock lock = FolderLock::of_folder(task_folder(a.options.out, task), write_note);
  ThreadPool pool(chosen_threads(a.machine));
  const PackOptions options = pack_options(a, *tokenizer);
  const PackStats stats = pack(
      "packing", [&](const auto& progress) { return pack_task(*tokenizer, options, task, pool, progress); });
  write_stats_notes(stats);
  write_output(a.json ? task_json(task, options, stats).dump(2) + "\n" : task_text(task, options, stats));
  if (!a.json)
    write_next_of_task({"gpt", "data", "pack", "--out", options.out, "--merge"}, missing_tasks(options.out));
  return 0;
}

// Merges the tasks while holding the locks of all task folders, so that no task is still running.
PackStats merge_locked(const PackArguments& a, PackMerge& merge) {
  std::vector<std::unique_ptr<const FolderLock>> locks;
  for (const PackTask& task : tasks_in(a.options.out))
    locks.emplace_back(new FolderLock(FolderLock::of_folder(task_folder(a.options.out, task), write_note)));
  merge = plan_merge(a.options.out);
  merge.options.restart = a.options.restart;
  return pack("merging", [&](const auto& progress) { return merge_tasks(merge, progress); });
}

int run_merge(const PackArguments& a) {
  const std::string& out = a.options.out;
  if (out.empty()) fail_usage("--out is missing: name the folder of the tasks");
  if (!is_folder(out)) fail_not_found("cannot read {}: no such folder; name the folder of the tasks", out);
  install_graceful_interrupt("stopping after this block of text");
  const FolderLock lock = FolderLock::of_folder(out, write_note);
  PackMerge merge;
  const PackStats stats = merge_locked(a, merge);
  remove_tasks(out);
  write_stats_notes(stats);
  write_output(a.json ? pack_json(merge.options, stats).dump(2) + "\n"
                      : pack_text(*merge.tokenizer, merge.options, stats));
  if (!a.json) write_next(train_command({out}, out));
  return 0;
}

int run_pack(const PackArguments& a) {
  check(a);
  const auto tokenizer = chosen_tokenizer(a.tokenizer);
  if (a.dry_run) return run_dry(a, *tokenizer);
  install_graceful_interrupt("stopping after this block of text");
  const std::string& out = a.options.out;
  const bool one_file = has_ending(out, ".bin");
  const FolderLock lock =
      one_file ? FolderLock::of_file(out, write_note) : FolderLock::of_folder(out, write_note);
  ThreadPool pool(chosen_threads(a.machine));
  const PackOptions options = pack_options(a, *tokenizer);
  const PackStats stats =
      pack("packing", [&](const auto& progress) { return pack_tokens(*tokenizer, options, pool, progress); });
  write_stats_notes(stats);
  write_output(a.json ? pack_json(options, stats).dump(2) + "\n" : pack_text(*tokenizer, options, stats));
  if (!a.json) write_next(train_command({out}, one_file ? a.tokenizer : out));
  return 0;
}

// Returns the shards of all paths. Throws Error for a path without shards.
ShardSet named_shards(const std::vector<std::string>& paths, const char* command) {
  if (paths.empty())
    fail_usage("PATH is missing: name token shards or folders of them; see gpt data {} --help", command);
  ShardSet all;
  for (const std::string& path : paths) {
    if (!path_exists(path)) fail_not_found("cannot read {}: no such file or folder", path);
    const ShardSet set = open_shard_set(path);
    if (set.shards.empty()) {
      fail(
          "{} contains no token shards; create them with gpt data pack, or show text with gpt data preview "
          "--data",
          path);
    }
    all.shards.insert(all.shards.end(), set.shards.begin(), set.shards.end());
    all.checksums.insert(all.checksums.end(), set.checksums.begin(), set.checksums.end());
    all.notes += set.notes;
  }
  return all;
}

int run_verify(const ShardArguments& a) {
  const ShardSet set = named_shards(a.paths, "verify");
  write_note(set.notes);
  ProgressNote note("reading");
  std::vector<std::string> damaged;
  int64_t read = 0, without = 0;
  for (size_t i = 0; i < set.shards.size(); ++i) {
    const TokenShard& shard = set.shards[i];
    const std::string what = damaged_ids(shard, set.checksums[i]);
    if (!what.empty()) damaged.push_back(fmt::format("{}: {}", shard.name(), what));
    without += set.checksums[i] ? 0 : 1;
    read += shard.info().count;
    note.update(static_cast<double>(read), static_cast<double>(set.tokens()),
                fmt::format("{} of {} shards", i + 1, set.shards.size()));
  }
  write_output(a.json ? verify_json(set, damaged, without).dump(2) + "\n"
                      : verify_text(set, damaged, without));
  if (damaged.empty()) return 0;
  fail("{} of {} damaged; run the same gpt data pack again to repair them", damaged.size(),
       format_amount(std::ssize(set.shards), "shard is", "shards are"));
}

int run_info(const ShardArguments& a) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (!a.tokenizer.empty()) tokenizer = chosen_tokenizer(a.tokenizer);
  const ShardSet set = named_shards(a.paths, "info");
  const std::vector<TokenShard>& shards = set.shards;
  write_note(set.notes);
  for (const TokenShard& shard : shards) {
    if (a.check) shard.verify();
    if (tokenizer) shard.require_vocabulary(vocabulary_hash(*tokenizer), tokenizer->vocab_size());
  }
  write_output(a.json ? shards_json(shards).dump(2) + "\n" : shards_text(shards, tokenizer.get()));
  const std::string known = a.tokenizer.empty() ? a.paths[0] : a.tokenizer;
  // A single shard file has no tokenizer next to it.
  if (!a.json && (!a.tokenizer.empty() || has_tokenizer(known)))
    write_next({"gpt", "data", "preview", a.paths[0], "--tokenizer", known});
  return 0;
}

Command add_tales(CLI::App& parent) {
  auto a = std::make_shared<TalesArguments>();
  CLI::App* app =
      add_command(parent, "tales", "print the built-in corpus: simple stories with known entropy");
  const auto count = [&](const char* flag, auto& value, const char* help) {
    add(*app, {.flags = flag, .value = "N", .help = help}, value);
  };
  count("--bytes", a->bytes, "Length of the text in bytes");
  count("--questions", a->questions, "Number of questions with one possible answer, written as JSON lines");
  add(*app,
      {.flags = "--invented",
       .help = "With --bytes: invent new names, animals, places, colors, toys and foods for every story"},
      a->invented);
  count("--seed", a->seed, "Random seed. The same seed gives the same stories");
  count("--first-story", a->first_story, "Number of the first story or labelled example");
  count("--labelled", a->labelled, "Number of labelled stories, written as JSON lines for gpt finetune");
  add(*app,
      {.flags = "--task",
       .help = "With --labelled: the task. classify: does the last line belong to the story? choose: which "
               "of two "
               "lines does? chat: conversations about stories. grpo: questions with the answers that earn a "
               "reward",
       .choices = {"classify", "choose", "chat", "grpo"}},
      a->task);
  add(*app,
      {.flags = "--about",
       .value = "KIND ...",
       .help = "chat and grpo: subjects of the questions",
       .fallback = "all except pair",
       .choices = {"name", "kind", "place", "toy", "color", "food", "helper", "friend", "pair"},
       .is_open = true},
      a->about);
  count("--turns", a->turns, "chat and grpo: maximum number of questions about a story");
  add(*app,
      {.flags = "--split",
       .help = "chat and grpo: train has invented words and different wordings of questions, test has the "
               "words of "
               "the tales",
       .choices = {"train", "test"}},
      a->split);
  add(*app,
      {.flags = "-o,--out",
       .value = "FILE",
       .help = "Output file",
       .fallback = "standard output",
       .kind = ValueKind::path,
       .aliases = kOutAliases},
      a->out);
  add(*app,
      {.flags = "--force",
       .help = "Replace an existing file",
       .aliases = kForceAliases,
       .environment = false},
      a->force);
  return {app, [a] { return run_tales(*a); }};
}

Command add_preview(CLI::App& parent) {
  auto a = std::make_shared<PreviewArguments>();
  CLI::App* app = add_command(parent, "preview", "show a corpus, its split and a training batch");
  add(*app,
      {.flags = "--data,PATH",
       .value = "PATH ...",
       .help = "Text files, .jsonl, .gz, .zst, folders, token shards, or tales or tales:BYTES for the "
               "built-in corpus",
       .kind = ValueKind::path},
      a->config.data);
  add_filter_options(*app, a->filter);
  add_field_option(*app, a->config.field);
  add_tokenizer_option(*app, a->config.tokenizer, "--tokenizer", "byte");
  spec_of(*app->get_option("--tokenizer")).choices = {"byte", "char"};
  add(*app,
      {.flags = "--val-fraction",
       .value = "X",
       .help = "Fraction of the text that is held out for validation"},
      a->config.val_fraction);
  add(*app, {.flags = "--seed", .value = "N", .help = "Random seed of the batch"}, a->config.seed);
  add(*app, {.flags = "--n-ctx", .value = "N", .help = "Context length in tokens"}, a->n_ctx);
  add(*app, {.flags = "--batch-size", .value = "N", .help = "Number of sequences in the batch"},
      a->batch_size);
  return {app, [a] { return run_preview(*a); }};
}

// Rejects the flags whose values a merge takes from the tasks.
void check_pack_merge(const CLI::App& app) {
  for (const char* flag : {"--data", "--include", "--exclude", "--tokenizer", "--field", "--document-token",
                           "--shard-tokens", "--format", "--task", "--dry-run"}) {
    if (app.count(flag) > 0)
      fail_usage("{}: cannot be combined with --merge, which uses the settings of the tasks", flag);
  }
}

Command add_pack(CLI::App& parent) {
  auto a = std::make_shared<PackArguments>();
  CLI::App* app = add_command(parent, "pack", "encode text files to token shards", kPackFooter);
  add(*app,
      {.flags = "--data,DATA",
       .value = "PATH ...",
       .help = "Text to encode: files, folders or patterns; .txt, .md, .jsonl and code, also as .gz and .zst",
       .kind = ValueKind::path},
      a->data);
  add_filter_options(*app, a->filter);
  add_tokenizer_option(*app, a->tokenizer, "--tokenizer", "");
  add(*app,
      {.flags = "-o,--out",
       .value = "DIR|FILE",
       .help = "Folder for the token shards, or a single file *.bin",
       .kind = ValueKind::path,
       .aliases = kOutAliases},
      a->options.out);
  add_field_option(*app, a->options.field);
  add(*app,
      {.flags = "--document-token",
       .value = "auto|none|NAME",
       .help = "Special token at the start of every document",
       .choices = {"auto", "none"},
       .is_open = true},
      a->document_token);
  add(*app, {.flags = "--shard-tokens", .value = "N", .help = "Number of tokens per shard"},
      a->options.shard_tokens);
  add(*app,
      {.flags = "--format", .help = "Format of the shards: gpt.cpp's or llm.c's", .choices = {"gpt", "llmc"}},
      a->format);
  add(*app, {.flags = "--task", .value = "I/N", .help = "Pack only part I of N, where I is 1 to N"}, a->task);
  add(*app, {.flags = "--merge", .help = "Merge the parts of all tasks in --out"}, a->merge);
  add(*app, {.flags = "--restart", .help = "Write all shards again instead of resuming"}, a->options.restart);
  add(*app, {.flags = "--dry-run", .help = "Show the files to read and write, but write nothing"},
      a->dry_run);
  add_json_option(*app, a->json);
  add_machine_options(*app, a->machine);
  return {app, [a, app] {
            if (a->merge) return check_pack_merge(*app), run_merge(*a);
            return a->task.empty() ? run_pack(*a) : run_task(*a);
          }};
}

void add_paths(CLI::App& app, std::vector<std::string>& paths) {
  add(app,
      {.flags = "PATH",
       .value = "PATH ...",
       .help = "Token shards, or folders of shards",
       .kind = ValueKind::path},
      paths);
}

Command add_data_info(CLI::App& parent) {
  auto a = std::make_shared<ShardArguments>();
  CLI::App* app = add_command(parent, "info", "show the content of token shards", kDataInfoFooter);
  add_paths(*app, a->paths);
  add_tokenizer_option(*app, a->tokenizer, "--tokenizer", "");
  spec_of(*app->get_option("--tokenizer")).help =
      "Tokenizer of the shards, to show the text of their first tokens";
  add(*app, {.flags = "--check", .help = "Read all shards and compare their checksums"}, a->check);
  add_json_option(*app, a->json);
  return {app, [a] { return run_info(*a); }};
}

Command add_verify(CLI::App& parent) {
  auto a = std::make_shared<ShardArguments>();
  CLI::App* app = add_command(parent, "verify", "read token shards and compare their checksums",
                              "Examples:\n  gpt data verify shards\n  gpt data verify shards --json\n\n"
                              "Compares the shards and tokenizer.json with the checksums from gpt data pack. "
                              "To find out whether the text has "
                              "changed,\n"
                              "run the same gpt data pack again.");
  add_paths(*app, a->paths);
  add_json_option(*app, a->json);
  return {app, [a] { return run_verify(*a); }};
}

}  // namespace

std::vector<Command> add_data_commands(CLI::App& root) {
  CLI::App* data = add_command(root, "data", "generate, pack and inspect training text", kDataFooter);
  data->require_subcommand(0, 1);
  return {add_tales(*data), add_preview(*data), add_pack(*data), add_data_info(*data), add_verify(*data)};
}

}  // namespace gpt
