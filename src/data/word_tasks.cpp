#include "data/word_tasks.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "data/pack_before.h"
#include "data/pack_state.h"
#include "data/word_file.h"
#include "text/tasks_folder.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr size_t kShownWordTasks = 8;

std::string words_path(const std::string& out, const PackTask& task) {
  return pack_file(task_folder(out, task), kTaskWordsFile);
}

json inputs_of(const WordTaskOptions& options) {
  const auto files = transformed(options.files, [](const std::string& path) {
    return json{{"path", path}, {"bytes", file_bytes(path)}, {"modified", file_modified(path)}};
  });
  return {{"files", files},
          {"field", options.field},
          {"pattern", options.pattern},
          {"vocab_size", options.vocab_size},
          {"special_tokens", options.special_tokens}};
}

[[noreturn]] void fail_other_task(const std::string& path, const std::string& task) {
  fail("{} has the word counts of {}; remove it and run its task again", path,
       task.empty() ? "an earlier version of this program" : "task " + printable_text(task, 32));
}

// Returns tasks 1 to N. Throws Error if a task is missing.
std::vector<PackTask> all_tasks(const std::string& out) {
  std::vector<PackTask> tasks = tasks_in(out);
  if (tasks.empty())
    fail("{} has no tasks to merge; run gpt tokenizer train with --task 1/N, 2/N and so on first", out);
  const int64_t count = tasks.back().count;
  if (tasks.front().count != count)
    fail(
        "{} has tasks from runs with {} and with {} tasks: expected the tasks of one run; remove the other "
        "tasks from {}/{}",
        out, tasks.front().count, count, out, kTasksFolder);
  const std::vector<std::string> missing = missing_word_tasks(out);
  if (!missing.empty())
    fail(
        "{}: {} of {} tasks are not complete: {}; run the same gpt tokenizer train command with --task {} "
        "and so on, then with --merge",
        out, missing.size(), count, format_list(missing, kShownWordTasks), missing[0]);
  return tasks;
}

// Throws Error if the other task cannot be merged with this task. Returns false if the other task has no
// readable word counts; the merge reports a damaged file.
bool has_same_inputs(const std::string& out, const PackTask& other, const PackTask& task,
                     const json& inputs) {
  const std::string path = words_path(out, other);
  if (path_kind(path) == PathKind::nothing) return false;
  json found;
  try {
    found = WordFile(path).inputs();
  } catch (const Error&) {
    return false;
  }
  if (found == inputs) return true;
  fail(
      "{} has word counts for different text or options than task {}; use the same text and options for all "
      "tasks, or remove {}/{} to start over",
      path, task_name(task), out, kTasksFolder);
}

[[noreturn]] void fail_damaged(const std::string& out, const PackTask& task) {
  fail("{} is damaged; remove it and run the task again", words_path(out, task));
}

WordTaskOptions options_of(const json& inputs) {
  WordTaskOptions options{.field = inputs.at("field"),
                          .pattern = inputs.at("pattern"),
                          .vocab_size = inputs.at("vocab_size"),
                          .special_tokens = inputs.at("special_tokens")};
  for (const json& file : inputs.at("files"))
    options.files.push_back(file.at("path"));
  return options;
}

// Writes words one after the other, followed by their checksum.
class WordWriter {
 public:
  explicit WordWriter(FileWriter& file) : file_(file), hash_(XXH3_createState()) { XXH3_64bits_reset(hash_); }
  ~WordWriter() { XXH3_freeState(hash_); }
  WordWriter(const WordWriter&) = delete;
  WordWriter& operator=(const WordWriter&) = delete;

  void text(std::string_view text) {
    XXH3_64bits_update(hash_, text.data(), text.size());
    file_.write(text);
  }
  template <class T>
  void number(T value) {
    text({reinterpret_cast<const char*>(&value), sizeof value});
  }
  void finish() { number(XXH3_64bits_digest(hash_)); }

 private:
  FileWriter& file_;
  XXH3_state_t* hash_;
};

}  // namespace

std::string word_inputs(const WordTaskOptions& options) {
  return inputs_of(options).dump();
}

void write_word_counts(const std::string& out, const PackTask& task, const WordTaskOptions& options,
                       const std::string& inputs, const WordCounter& counter) {
  if (word_inputs(options) != inputs)
    fail("task {}: the text of {} changed while its words were counted; run the task again", task_name(task),
         options.files.front());
  if (counter.dropped_below() > 0)
    fail(
        "task {}: the text has too many different words, so the counts of rare words would be incomplete; "
        "use a larger `max_words` for all tasks",
        task_name(task));
  const json head = {{"inputs", json::parse(inputs)}, {"task", task_name(task)}, {"bytes", counter.bytes()}};
  write_file_atomic(words_path(out, task), [&](FileWriter& file) {
    WordWriter writer(file);
    writer.text(head.dump() + "\n");
    for (const WordCounter::Word& word : counter.words()) {
      writer.number(word.count);
      writer.number(static_cast<uint32_t>(word.text.size()));
      writer.text(word.text);
    }
    writer.finish();
  });
}

std::vector<std::string> missing_word_tasks(const std::string& out) {
  const std::vector<PackTask> tasks = tasks_in(out);
  const int64_t count = tasks.empty() ? 0 : tasks.back().count;
  std::vector<std::string> missing;
  for (int64_t number = 1; number <= count; ++number) {
    if (path_kind(words_path(out, {number, count})) == PathKind::nothing)
      missing.push_back(task_name({number, count}));
  }
  return missing;
}

bool has_word_counts(const std::string& out, const PackTask& task, const WordTaskOptions& options) {
  for (const PackTask& other : tasks_in(out)) {
    if (other.count != task.count)
      fail(
          "{} has the output of a run with {} tasks: expected `task` I/{}, found `task` {}; choose another "
          "`out`, or remove {}/{} to discard it",
          out, other.count, other.count, task_name(task), out, kTasksFolder);
  }
  const json inputs = inputs_of(options);
  const std::string path = words_path(out, task);
  if (path_kind(path) == PathKind::nothing) {
    // Comparing the inputs with those of one other task is enough, because the other tasks were compared with
    // each other when they started.
    for (const PackTask& other : tasks_in(out)) {
      if (other.number != task.number && has_same_inputs(out, other, task, inputs)) break;
    }
    return false;
  }
  const WordFile file(path);
  if (file.task() != task_name(task)) fail_other_task(path, file.task());
  if (file.inputs() == inputs) return true;
  fail(
      "{} has word counts for different text or options; remove it to count again (all tasks must use the "
      "same text and options)",
      path);
}

WordTaskOptions plan_word_merge(const std::string& out) {
  const std::vector<PackTask> tasks = all_tasks(out);
  const json first = WordFile(words_path(out, tasks.front())).inputs();
  for (const PackTask& task : tasks) {
    const std::string path = words_path(out, task);
    const WordFile file(path);
    if (file.task() != task_name(task)) fail_other_task(path, file.task());
    if (file.inputs() != first)
      fail("{} has word counts for different text or options than {}; remove one and run its task again",
           path, words_path(out, tasks.front()));
  }
  try {
    WordTaskOptions options = options_of(first);
    if (options.files.empty()) fail_damaged(out, tasks.front());
    if (inputs_of(options) == first) return options;
    fail("the text of {} has changed since the tasks counted its words; remove {}/{} and run all tasks again",
         options.files.front(), out, kTasksFolder);
  } catch (const json::exception&) {
    fail_damaged(out, tasks.front());
  }
}

void add_word_counts(const std::string& out, WordCounter& counter) {
  for (const PackTask& task : all_tasks(out)) {
    WordFile file(words_path(out, task));
    std::string_view word;
    for (uint64_t count = 0; file.next(word, count);)
      counter.add_counted(word, count);
    counter.add_counted_bytes(file.text_bytes());
  }
}

void remove_word_counts(const std::string& out) {
  std::error_code error;
  for (const PackTask& task : tasks_in(out)) {
    remove_file(words_path(out, task));
    std::filesystem::remove(task_folder(out, task), error);  // fails unless the folder is empty
  }
  std::filesystem::remove(std::filesystem::path(out) / kTasksFolder, error);
}

}  // namespace gpt
