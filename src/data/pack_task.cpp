#include "data/pack_task.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "data/file_kind.h"
#include "data/pack_before.h"
#include "data/pack_piece.h"
#include "data/pack_source.h"
#include "data/unknown_tokens.h"
#include "text/tasks_folder.h"

namespace gpt {
namespace {

using nlohmann::json;

json part_of(const json& all, const char* key) {
  return all.is_object() && all.contains(key) ? all.at(key) : json();
}

// Describes the first key of `expected` whose value differs in `found`, with both values. Returns "" if all
// values are equal.
std::string other_option(const json& found, const json& expected) {
  for (const auto& [key, value] : expected.items()) {
    const json other = part_of(found, key.c_str());
    if (other != value) return fmt::format("a different {} ({}, not {})", key, other.dump(), value.dump());
  }
  return "";
}

class TaskPacker {
 public:
  TaskPacker(const Tokenizer& tokenizer, const PackOptions& options, const PackTask& task, ThreadPool& pool)
      : options_(options),
        task_(task),
        folder_(task_folder(options.out, task)),
        share_(options.files, task),
        source_(tokenizer, options, pool, &share_),
        info_(shard_info(tokenizer, options, ShardFormat::gpt)),
        json_(tokenizer.to_json()),
        unknown_(tokenizer) {
    state_.inputs = task_inputs(pack_inputs(tokenizer, options), options, task);
    state_.shard_tokens = options.shard_tokens;
    state_.modified = modified(options.files);
    state_.tokenizer = tokenizer_hash(json_);
  }

  PackStats run(const std::function<void(const PackProgress&)>& progress) {
    const auto start = Clock::now();
    prepare();
    const double total = source_.total();
    while (!state_.done && source_.next(blocks_)) {
      for (const EncodedBlock& block : blocks_) {
        unknown_.add(block.ids);
        write(block);
      }
      if (progress) progress({source_.done(), total, stats(start)});
    }
    if (!state_.done) finish();
    return stats(start);
  }

 private:
  PackStats stats(Clock::time_point start) const {
    const PackedShard open = piece_ ? piece_->sum() : PackedShard{};
    PackStats s = {.documents = state_.documents + open.documents,
                   .text_bytes = state_.text_bytes + open.text_bytes,
                   .tokens = state_.tokens + open.tokens,
                   .shards = state_.shards,
                   .empty = empty_,
                   .shards_before = kept_,
                   .mended = mended_,
                   .notes = notes_.lines() + unknown_.note()};
    s.seconds = seconds_since(start);
    return s;
  }

  void prepare() {
    refuse_others();
    make_directories(folder_);
    if (options_.restart) return;
    if (path_kind(pack_file(folder_, kPackStateFile)) != PathKind::nothing) return go_on();
    for (const PackTask& other : tasks_in(options_.out))
      refuse_other_inputs(other);
  }

  void refuse_others() const {
    const std::string& out = options_.out;
    if (complete_pack(out))
      fail("{} is already packed, so a task has nothing to do; choose another `out`", out);
    for (const PackTask& other : tasks_in(out)) {
      if (other.count != task_.count)
        fail(
            "{} has the output of a pack with {} tasks: expected `task` I/{}, found `task` {}; choose "
            "another `out`, or remove {}/{} to discard it",
            out, other.count, other.count, task_name(task_), out, kTasksFolder);
    }
  }

  // Throws Error if the other task could not be merged with this task. Ignores an unreadable pack.json of the
  // other task, because the merge reports it.
  void refuse_other_inputs(const PackTask& other) const {
    const std::string folder = task_folder(options_.out, other);
    if (other.number == task_.number || path_kind(pack_file(folder, kPackStateFile)) == PathKind::nothing)
      return;
    std::string what;
    try {
      what = other_than(read_pack_state(folder), state_);
    } catch (const Error&) {
      return;
    }
    if (what.empty()) return;
    fail(
        "task {0} in {1} was started with {2} than task {3}: all tasks must use the same data and options; "
        "use the same data and options here, or set `restart` for this task and all others",
        task_name(other), options_.out, what, task_name(task_));
  }

  // Resumes from the valid pieces that an earlier run left.
  void go_on() {
    PackState before;
    try {
      before = read_pack_state(folder_);
    } catch (const Error& error) {
      mended_.push_back(std::string(error.what()) + "; the task was restarted");
      return;
    }
    const std::string what = other_than(before, state_);
    if (!what.empty())
      fail(
          "task {} in {} was started with {}; use `restart` to start it again (all tasks must use the same "
          "data and options)",
          task_name(task_), options_.out, what);
    state_ = before;
    keep_good();
    kept_ = state_.shards;
    if (state_.done || state_.shards == 0) return;
    source_.skip_to(state_.next.block);
  }

  // Verifies the pieces. Drops the first damaged piece and all pieces after it.
  void keep_good() {
    const PieceLimits limits{.files = std::ssize(options_.files), .vocab_size = info_.vocab_size};
    for (size_t i = 0; i < state_.list.size(); ++i) {
      try {
        Piece(folder_, static_cast<int64_t>(i), state_.list[i], limits).verify();
      } catch (const Error& error) {
        mended_.push_back(std::string(error.what()) + "; written again");
        forget_from(i);
      }
    }
    const std::string path = pack_file(folder_, kPackTokenizerFile);
    if (path_kind(path) == PathKind::file && tokenizer_hash(read_file(path)) == state_.tokenizer) return;
    write_file_atomic(path, json_);
  }

  void forget_from(size_t piece) {
    state_.next = state_.list[piece].begin;
    state_.list.resize(piece);
    state_.done = false;
    state_.shards = static_cast<int64_t>(piece);
    state_.documents = state_.text_bytes = state_.tokens = 0;
    for (const PackedShard& kept : state_.list)
      count(kept);
  }

  void count(const PackedShard& piece) {
    state_.documents += piece.documents;
    state_.text_bytes += piece.text_bytes;
    state_.tokens += piece.tokens;
  }

  void begin() {
    if (begun_) return;
    begun_ = true;
    write_file_atomic(pack_file(folder_, kPackTokenizerFile), json_);
    write_pack_state(folder_, state_);
  }

  void write(const EncodedBlock& block) {
    notes_.add(options_.files[static_cast<size_t>(block.begin.file)], block.facts);
    empty_ += block.empty;
    if (!piece_) {
      begin();
      piece_ = std::make_unique<PieceWriter>(folder_, state_.shards, info_);
    }
    piece_->add(block);
    // The exact position of the task's next block is not known yet. Store the file of the next block and a
    // lower bound of its offset.
    state_.next.block = {.file = block.begin.file + (block.last ? 1 : 0),
                         .offset = block.last ? 0 : block.end};
    if (piece_->sum().tokens >= options_.shard_tokens) close_piece();
  }

  void close_piece() {
    piece_->publish();
    state_.list.push_back(piece_->sum());
    count(piece_->sum());
    ++state_.shards;
    piece_.reset();
    // Saving pack.json rewrites the whole list of pieces. The longer the list is, the less often it is saved.
    if (state_.shards % (1 + state_.shards / 1000) == 0) write_pack_state(folder_, state_);
  }

  void finish() {
    begin();
    if (piece_) close_piece();
    state_.next.block = {.file = std::ssize(options_.files)};
    state_.done = true;
    write_pack_state(folder_, state_);
  }

  const PackOptions& options_;
  PackTask task_;
  std::string folder_;
  TaskShare share_;
  TextSource source_;
  ShardInfo info_;    // header fields of the pieces
  std::string json_;  // the tokenizer as JSON
  PackState state_;
  bool begun_ = false;  // true once this run has written something
  int64_t kept_ = 0, empty_ = 0;
  TextNotes notes_;
  UnknownTokens unknown_;
  std::vector<std::string> mended_;
  std::vector<EncodedBlock> blocks_;  // blocks being written
  std::unique_ptr<PieceWriter> piece_;
};

}  // namespace

std::string task_inputs(const std::string& pack_inputs, const PackOptions& options, const PackTask& task) {
  const json all = {{"format", "gpt"},
                    {"shard_tokens", options.shard_tokens},
                    {"block_bytes", options.block_bytes},
                    {"task", task_name(task)},
                    {"pack", json::parse(pack_inputs)}};
  return all.dump();
}

std::string other_than(const PackState& found, const PackState& expected) {
  json a = json::parse(found.inputs), b = json::parse(expected.inputs);
  a.erase("task");
  b.erase("task");
  const json pack = part_of(a, "pack"), wanted = part_of(b, "pack");
  if (found.tokenizer != expected.tokenizer || part_of(pack, "vocabulary") != part_of(wanted, "vocabulary"))
    return "a different `tokenizer`";
  if (part_of(pack, "files") != part_of(wanted, "files"))
    return "different files in `data`, or files of different sizes";
  if (found.modified != expected.modified) return "files with different modification times";
  if (a == b) return "";
  a.erase("pack");
  b.erase("pack");
  for (const std::string& option : {other_option(pack, wanted), other_option(a, b)})
    if (!option.empty()) return option;
  return "different options";
}

PackStats pack_task(const Tokenizer& tokenizer, const PackOptions& options, const PackTask& task,
                    ThreadPool& pool, const std::function<void(const PackProgress&)>& progress) {
  check_pack_options(tokenizer, options);
  if (has_ending(options.out, ".bin")) fail_usage("out: expected a folder for tasks, found {}", options.out);
  if (is_folder(options.out) && is_model_or_run(options.out))
    fail("{} is a model or a run; choose a separate folder for `out`", options.out);
  return TaskPacker(tokenizer, options, task, pool).run(progress);
}

}  // namespace gpt
