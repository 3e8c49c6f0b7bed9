#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/ranges.h"
#include "data/pack_before.h"
#include "data/pack_piece.h"
#include "data/pack_source.h"
#include "data/pack_task.h"
#include "data/shard_set.h"
#include "text/tasks_folder.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr size_t kShownTasks = 8;

bool is_there(const std::string& folder, const char* name) {
  return path_kind(pack_file(folder, name)) != PathKind::nothing;
}

// Returns the inputs of the pack, which all its tasks share.
json inputs_of_pack(const PackState& task) {
  return json::parse(task.inputs).at("pack");
}

// Reads the state of a task. Throws Error when its pack.json is damaged or missing.
PackState state_of(const std::string& out, const PackTask& task) {
  const std::string folder = task_folder(out, task);
  PackState state = read_pack_state(folder);
  const json inputs = json::parse(state.inputs);
  const bool good = inputs.contains("pack") && inputs.value("task", "") == task_name(task) &&
                    state.has_list() && inputs.at("pack").at("files").size() == state.modified.size();
  if (!good)
    fail("{} is damaged: expected the state of task {}", pack_file(folder, kPackStateFile), task_name(task));
  return state;
}

PackOptions options_of(const json& inputs, const std::string& out) {
  PackOptions options{.out = out};
  for (const json& file : inputs.at("files"))
    options.files.push_back(file.at("path"));
  options.field = inputs.at("field");
  options.format = inputs.at("format") == "llmc" ? ShardFormat::llmc : ShardFormat::gpt;
  options.shard_tokens = inputs.at("shard_tokens");
  options.document_token = inputs.at("document_token");
  return options;
}

// Returns true if an earlier merge has already written all shards, and the remaining task folders belong to
// these shards.
bool is_merged(const std::string& out, const std::vector<PackTask>& tasks) {
  const std::optional<PackState> state = complete_pack(out);
  if (!state || !shard_problems(out, *state, /*read_ids=*/false).empty()) return false;
  const json inputs = json::parse(state->inputs);
  return std::ranges::all_of(tasks, [&](const PackTask& task) {
    const std::string folder = task_folder(out, task);
    return !is_there(folder, kPackStateFile) || inputs_of_pack(state_of(out, task)) == inputs;
  });
}

// Loads the tokenizer of a folder. Throws Error unless tokenizer.json has this hash.
std::unique_ptr<Tokenizer> tokenizer_of(const std::string& folder, const std::string& hash) {
  const std::string path = pack_file(folder, kPackTokenizerFile);
  const std::string text = read_file(path);
  if (tokenizer_hash(text) != hash)
    fail("{} is damaged: expected the hash {} as in pack.json, found {}; run the task again to repair it",
         path, hash, tokenizer_hash(text));
  return parse_tokenizer(text, path);
}

// Throws Error unless all tasks from 1/N to N/N are complete.
void require_all(const std::string& out, const std::vector<PackTask>& tasks) {
  const int64_t count = tasks.back().count;
  if (tasks.front().count != count)
    fail(
        "{} has tasks from packs with {} and with {} tasks: expected the tasks of one pack; remove the other "
        "tasks from {}/{}",
        out, tasks.front().count, count, out, kTasksFolder);
  for (const PackTask& task : tasks) {
    // state_of throws if the pack.json of the task is damaged.
    if (is_there(task_folder(out, task), kPackStateFile)) state_of(out, task);
  }
  const std::vector<std::string> missing = missing_tasks(out);
  if (missing.empty()) return;
  const std::string first = missing[0].substr(0, missing[0].find(' '));
  fail(
      "{}: {} of {} tasks are not complete: {}; run the same gpt data pack command with --task {} and so on, "
      "then with --merge",
      out, missing.size(), count, format_list(missing, kShownTasks), first);
}

// Throws Error if a text file has changed since the tasks read it.
void require_same_text(const PackMerge& merge) {
  const PackOptions& options = merge.options;
  const json files = inputs_of_pack(merge.states[0]).at("files");
  for (size_t i = 0; i < options.files.size(); ++i) {
    const std::string& path = options.files[i];
    if (file_bytes(path) == files[i].at("bytes") && file_modified(path) == merge.states[0].modified[i])
      continue;
    fail(
        "{} has changed since the tasks packed it: expected {} bytes and the same modification time, found "
        "{} bytes or a different time; run all tasks again with `restart`, then `merge`",
        path, files[i].at("bytes").get<uint64_t>(), file_bytes(path));
  }
}

PackMerge merged(const std::string& out) {
  const PackState state = read_pack_state(out);
  return {.tokenizer = load_tokenizer(pack_file(out, kPackTokenizerFile)),
          .options = options_of(json::parse(state.inputs), out),
          .done = true};
}

PackMerge merge_of(const std::string& out, const std::vector<PackTask>& tasks) {
  require_all(out, tasks);
  PackMerge merge{.tasks = tasks};
  for (const PackTask& task : tasks) {
    merge.states.push_back(state_of(out, task));
    const std::string what = other_than(merge.states.back(), merge.states.front());
    if (!what.empty())
      fail(
          "task {} in {} was packed with {} than task {}; run it again with `restart` and the same options "
          "as the other tasks",
          task_name(task), out, what, task_name(tasks.front()));
  }
  merge.options = options_of(inputs_of_pack(merge.states[0]), out);
  require_same_text(merge);
  merge.tokenizer = tokenizer_of(task_folder(out, tasks.front()), merge.states[0].tokenizer);
  return merge;
}

// Reads the pieces of one task, block by block.
class TaskReader {
 public:
  TaskReader(const std::string& out, const PackTask& task, const PackState& state, const PieceLimits& limits)
      : task_(task), folder_(task_folder(out, task)), state_(state), limits_(limits) {}

  const EncodedBlock* head() {
    return guarded([&]() -> const EncodedBlock* {
      while (piece_ == nullptr || piece_->head() == nullptr) {
        if (next_ == state_.list.size()) return nullptr;
        piece_ = std::make_unique<Piece>(folder_, static_cast<int64_t>(next_), state_.list[next_], limits_);
        ++next_;
      }
      return piece_->head();
    });
  }
  EncodedBlock take() {
    return guarded([&] { return piece_->take(); });
  }

  // Skips the blocks that begin before `position`.
  void skip_to(const TextPosition& position) {
    const auto behind = std::ranges::partition_point(
        state_.list, [&](const PackedShard& piece) { return !begins_before(position, piece.begin.block); });
    next_ = static_cast<size_t>(std::max<ptrdiff_t>(0, behind - state_.list.begin() - 1));
    piece_.reset();
    while (head() != nullptr && begins_before(head()->begin, position))
      guarded([&] { piece_->pass(); });
  }

 private:
  // Adds the name of the task to an error, because running that task again repairs its files.
  template <class F>
  auto guarded(F&& read) -> decltype(read()) {
    try {
      return read();
    } catch (const Error& error) {
      fail_because(error,
                   "task {0}: {1}; run the same gpt data pack command with --task {0} again to repair it, "
                   "then with --merge",
                   task_name(task_), error.what());
    }
  }

  PackTask task_;
  std::string folder_;
  const PackState& state_;
  PieceLimits limits_;
  size_t next_ = 0;  // index of the next piece to open
  std::unique_ptr<Piece> piece_;
};

// Reads the blocks of all tasks in text order.
class TaskBlocks final : public EncodedBlocks {
 public:
  explicit TaskBlocks(const PackMerge& merge) {
    const PieceLimits limits{.files = std::ssize(merge.options.files),
                             .vocab_size = merge.tokenizer->vocab_size()};
    for (size_t i = 0; i < merge.tasks.size(); ++i) {
      readers_.emplace_back(merge.options.out, merge.tasks[i], merge.states[i], limits);
      total_ += static_cast<double>(merge.states[i].tokens);
    }
    files_ = merge.options.files;
  }

  bool next(std::vector<EncodedBlock>& blocks) override {
    constexpr size_t kBlocks = 4;
    blocks.clear();
    while (blocks.size() < kBlocks) {
      TaskReader* reader = first();
      if (reader == nullptr) {
        if (!last_.last) fail_gap(files_.size() - 1, "the end of the file");
        break;
      }
      require_next(*reader->head());
      blocks.push_back(reader->take());
      remember(blocks.back());
    }
    return !blocks.empty();
  }

  void skip_to(const TextPosition& position) override {
    for (TaskReader& reader : readers_)
      reader.skip_to(position);
    TaskReader* reader = first();
    if (reader == nullptr || !(reader->head()->begin == position))
      fail_gap(static_cast<size_t>(position.file), fmt::format("a block at byte {}", position.offset));
    // The blocks before this position are already in shards.
    const EncodedBlock& head = *reader->head();
    last_ = head.number == 0 ? EncodedBlock{.begin = {.file = head.begin.file - 1}, .last = true}
                             : EncodedBlock{.begin = {.file = head.begin.file},
                                            .end = head.begin.offset,
                                            .number = head.number - 1};
  }

  double done() const override { return done_; }
  double total() const override { return total_; }

 private:
  TaskReader* first() {
    TaskReader* best = nullptr;
    for (TaskReader& reader : readers_) {
      if (reader.head() == nullptr) continue;
      if (best == nullptr || place(*reader.head()) < place(*best->head())) best = &reader;
    }
    return best;
  }
  static std::pair<int64_t, int64_t> place(const EncodedBlock& block) {
    return {block.begin.file, block.number};
  }

  // Requires that the block directly follows the previous block. Files without text have no blocks.
  void require_next(const EncodedBlock& block) const {
    const bool begins =
        last_.last && block.begin.file > last_.begin.file && block.number == 0 && block.begin.offset == 0;
    const bool follows = !last_.last && block.begin.file == last_.begin.file &&
                         block.number == last_.number + 1 && block.begin.offset == last_.end;
    if (!begins && !follows)
      fail_gap(static_cast<size_t>(block.begin.file),
               fmt::format("the block before byte {}", block.begin.offset));
  }
  [[noreturn]] void fail_gap(size_t file, const std::string& what) const {
    fail(
        "the tasks do not cover all of {}: expected {}; run all tasks again with `restart`, then `merge`, "
        "because the text has changed between the tasks",
        files_.at(file), what);
  }
  void remember(const EncodedBlock& block) {
    last_ = {.begin = block.begin, .end = block.end, .number = block.number, .last = block.last};
    done_ += static_cast<double>(block.ids.size());
  }

  std::vector<TaskReader> readers_;
  std::vector<std::string> files_;
  EncodedBlock last_{.begin = {.file = -1}, .last = true};  // the previous block, without its ids
  double done_ = 0, total_ = 0;                             // progress in ids
};

void remove_task(const std::string& folder) {
  for (const FolderEntry& entry : list_folder(folder)) {
    const std::string stem = std::filesystem::path(entry.name).stem().string();
    const std::optional<int64_t> piece = own_shard_number(stem + ".bin");
    const bool own =
        entry.name == kPackTokenizerFile ||
        (piece && (entry.name == shard_file_name(*piece) || entry.name == piece_index_name(*piece)));
    if (own) remove_file(pack_file(folder, entry.name));
  }
  remove_file(pack_file(folder, kPackStateFile));
  std::error_code error;
  std::filesystem::remove(folder, error);  // fails unless the folder is empty
}

}  // namespace

std::vector<std::string> missing_tasks(const std::string& out) {
  const std::vector<PackTask> tasks = tasks_in(out);
  const int64_t count = tasks.empty() ? 0 : tasks.back().count;
  std::vector<std::string> missing;
  for (int64_t number = 1; number <= count; ++number) {
    const PackTask task{number, count};
    const std::string folder = task_folder(out, task);
    if (!is_there(folder, kPackStateFile)) {
      missing.push_back(task_name(task) + " (not started)");
    } else if (!complete_pack(folder)) {
      missing.push_back(task_name(task));
    }
  }
  return missing;
}

PackMerge plan_merge(const std::string& out) {
  const std::vector<PackTask> tasks = tasks_in(out);
  try {
    if (is_merged(out, tasks)) return merged(out);
    if (tasks.empty())
      fail("{} has no tasks to merge; run gpt data pack with --task 1/N, 2/N and so on first", out);
    return merge_of(out, tasks);
  } catch (const json::exception&) {
    fail("{}: expected every pack.json as gpt data pack wrote it; pack the text again with another `out`",
         out);
  }
}

PackStats merge_tasks(const PackMerge& merge, const std::function<void(const PackProgress&)>& progress) {
  if (merge.done) {
    const PackState state = read_pack_state(merge.options.out);
    return {.documents = state.documents,
            .text_bytes = state.text_bytes,
            .tokens = state.tokens,
            .shards = state.shards,
            .shards_before = state.shards};
  }
  check_pack_options(*merge.tokenizer, merge.options);
  TaskBlocks source(merge);
  return pack_blocks(*merge.tokenizer, merge.options, source, progress);
}

void remove_tasks(const std::string& out) {
  for (const PackTask& task : tasks_in(out))
    remove_task(task_folder(out, task));
  std::error_code error;
  // The call fails unless the folder is empty.
  std::filesystem::remove(std::filesystem::path(out) / kTasksFolder, error);
}

}  // namespace gpt
