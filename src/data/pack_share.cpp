#include "data/pack_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "data/file_kind.h"
#include "text/tasks_folder.h"

namespace gpt {
namespace {

constexpr std::string_view kOf = "-of-";

// Returns nothing unless the strings are a valid task number and task count.
std::optional<PackTask> task_of(std::string_view number, std::string_view count) {
  const auto n = parse_number<int64_t>(number), all = parse_number<int64_t>(count);
  if (!n || !all || *n < 1 || *n > *all || *all > kMaxPackTasks) return std::nullopt;
  return PackTask{*n, *all};
}

// Estimated bytes of text per byte of a compressed file. The estimate only affects how evenly tasks share the
// text.
constexpr uint64_t kRatio = 3;

bool is_compressed_name(const std::string& path) {
  return has_ending(path, ".gz") || has_ending(path, ".zst");
}

std::string folder_name(const PackTask& task) {
  return fmt::format("{}{}{}", task.number, kOf, task.count);
}

// Parses the folder name of a task, such as "3-of-8".
std::optional<PackTask> task_of_folder(std::string_view name) {
  const size_t at = name.find(kOf);
  if (at == std::string_view::npos) return std::nullopt;
  const auto task = task_of(name.substr(0, at), name.substr(at + kOf.size()));
  return task && folder_name(*task) == name ? task : std::nullopt;  // rejects names such as 03-of-8
}

std::vector<std::string> files_of(const std::vector<std::string>& files, const TaskShare* share) {
  if (share == nullptr) return files;
  return transformed(share->files(), [&](int64_t i) { return files[static_cast<size_t>(i)]; });
}

}  // namespace

PackTask parse_pack_task(const std::string& text) {
  const std::vector<std::string_view> parts = split(text, '/');
  const auto task = parts.size() == 2 ? task_of(parts[0], parts[1]) : std::nullopt;
  if (!task)
    fail_parameter("task", "expected I/N with 1 <= I <= N <= {}, for example 3/8, found {}", kMaxPackTasks,
                   printable(text));
  return *task;
}

std::string task_name(const PackTask& task) {
  return fmt::format("{}/{}", task.number, task.count);
}

std::string task_folder(const std::string& out, const PackTask& task) {
  return (std::filesystem::path(out) / kTasksFolder / folder_name(task)).string();
}

std::vector<PackTask> tasks_in(const std::string& out) {
  const std::string folder = (std::filesystem::path(out) / kTasksFolder).string();
  std::vector<PackTask> tasks;
  if (path_kind(folder) != PathKind::folder) return tasks;
  for (const FolderEntry& entry : list_folder(folder)) {
    const auto task = task_of_folder(entry.name);
    if (task && entry.kind == PathKind::folder) tasks.push_back(*task);
  }
  std::ranges::sort(tasks, {}, [](const PackTask& t) { return std::pair(t.count, t.number); });
  return tasks;
}

void require_no_tasks(const std::string& out) {
  const std::vector<PackTask> tasks = tasks_in(out);
  if (tasks.empty()) return;
  const bool counts_words = std::ranges::all_of(tasks, [&](const PackTask& task) {
    return path_kind(task_folder(out, task) + "/" + kTaskWordsFile) != PathKind::nothing;
  });
  if (counts_words)
    fail(
        "{} has word counts from {} that are not merged; when all tasks are complete, run gpt tokenizer "
        "train --out {} --merge to train the tokenizer",
        out, format_amount(tasks.back().count, "task"), out);
  fail(
      "{} has the output of {} that is not merged; when all tasks are complete, run gpt data pack --out {} "
      "--merge to write the shards (or remove {}/{} to discard it)",
      out, format_amount(tasks.back().count, "task"), out, out, kTasksFolder);
}

TaskShare::TaskShare(const std::vector<std::string>& files, const PackTask& task) : task_(task) {
  for (const std::string& path : files) {
    begins_.push_back(total_);
    sizes_.push_back(file_bytes(path) * (is_compressed_name(path) ? kRatio : 1));
    total_ += sizes_.back();
  }
  for (size_t i = 0; i < files.size(); ++i) {
    const uint64_t last = begins_[i] + std::max<uint64_t>(1, sizes_[i]) - 1;
    if (owner(begins_[i]) <= task.number && task.number <= owner(last))
      files_.push_back(static_cast<int64_t>(i));
  }
}

// Returns the task that owns a byte. `place` is the offset of the byte in the concatenation of all files.
int64_t TaskShare::owner(uint64_t place) const {
  if (total_ == 0) return 1;
  const auto count = static_cast<uint64_t>(task_.count);
  const auto part = static_cast<unsigned __int128>(place) * count / total_;
  return 1 + static_cast<int64_t>(std::min<uint64_t>(static_cast<uint64_t>(part), count - 1));
}

bool TaskShare::has(int64_t file, int64_t block) const {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 (φ - 1)
  const auto i = static_cast<size_t>(file);
  const uint64_t fraction = static_cast<uint64_t>(block) * kGolden;  // in units of 2^-64
  const auto inside = static_cast<uint64_t>(static_cast<unsigned __int128>(fraction) * sizes_[i] >> 64);
  return owner(begins_[i] + inside) == task_.number;
}

SharedBlocks::SharedBlocks(const std::vector<std::string>& files, const TextBlockOptions& options,
                           const TaskShare* share)
    : share_(share), blocks_(files_of(files, share), options) {}

bool SharedBlocks::next(TextBlock& block, int64_t& number) {
  while (!at_end_ && blocks_.next(block)) {
    number = number_ = block.begins_document ? 0 : number_ + 1;
    if (share_ == nullptr) return true;
    block.begin.file = share_->files()[static_cast<size_t>(block.begin.file)];
    if (!begins_before(block.begin, from_) && share_->has(block.begin.file, number)) return true;
  }
  return false;
}

// A share selects blocks by their number, so it has to read the file from the beginning.
void SharedBlocks::skip_to(const TextPosition& position) {
  if (share_ == nullptr) return blocks_.skip_to(position);
  from_ = position;
  const auto first = std::ranges::lower_bound(share_->files(), position.file);
  at_end_ = first == share_->files().end();
  if (!at_end_) blocks_.skip_to({.file = first - share_->files().begin()});
}

bool begins_before(const TextPosition& a, const TextPosition& b) {
  return std::pair(a.file, a.offset) < std::pair(b.file, b.offset);
}

}  // namespace gpt
