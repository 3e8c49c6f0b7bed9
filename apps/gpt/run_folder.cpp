#include "run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "config_flags.h"
#include "distributed/shares.h"
#include "interrupt.h"
#include "options.h"
#include "output.h"
#include "run/resume.h"
#include "run/run.h"
#include "shown_flags.h"
#include "world.h"

namespace gpt {
namespace {

constexpr const char* kRuns = "runs";

int64_t largest_number() {
  int64_t largest = 0;
  if (!path_exists(kRuns)) return 0;
  for (const FolderEntry& entry : list_folder(kRuns))
    largest = std::max(largest, parse_number<int64_t>(entry.name).value_or(0));
  return largest;
}

// create_directory succeeds in only one process, so runs that start at the same time get different numbers.
std::string make_next_folder() {
  make_directories(kRuns);
  for (int64_t number = largest_number() + 1;; ++number) {
    const std::string folder = fmt::format("{}/{}", kRuns, number);
    std::error_code error;
    if (std::filesystem::create_directory(folder, error)) return folder;
    if (error) fail("cannot create the folder {}: {}; choose a different --out", folder, error.message());
  }
}

}  // namespace

std::string next_run_folder(Communicator& processes) {
  std::vector<std::string> made;
  if (is_first_process()) made.push_back(make_next_folder());
  return joined(processes, made, "the folder of the run").front();
}

std::unique_ptr<FolderLock> open_run(std::string out, bool resume, const std::string& command_line,
                                     RunOptions& options) {
  const bool is_new = out.empty();
  options.processes = &world();
  options.out = is_new ? next_run_folder(world()) : std::move(out);
  options.resume = resume;
  options.kernels = &kernel_table(chosen_isa());
  options.command_line = command_line;
  options.program = program();
  options.shown = [](std::string_view text) { return show_flags(text); };
  options.begins = [] {
    install_graceful_interrupt(is_first_process() ? "finishing the step and saving" : nullptr,
                               world().size() > 1);
  };
  if (!is_first_process()) return nullptr;
  return std::unique_ptr<FolderLock>(new FolderLock(FolderLock::of_folder(options.out, write_note, is_new)));
}

RunConfig resumed_run_config(const RunConfig& before, const std::string& path, const ConfigFlags& flags) {
  const std::vector<std::string>& allowed = resumable_keys();
  for (const std::string& key : flags.given()) {
    if (std::ranges::find(allowed, key) != allowed.end()) continue;
    fail_usage("{} cannot change when a run is resumed; only {} can", ConfigFlags::flag_name(key),
               fmt::join(transformed(allowed, ConfigFlags::flag_name), ", "));
  }
  Settings settings;
  settings.add_json(run_config_json(before), path);
  settings.add_json({{"stop_after", 0}}, path);  // the run has already stopped there
  // The environment may be meant for several runs. Only a flag can extend a run or change its reduction.
  std::vector<std::string> from_environment = allowed;
  for (const char* key : {"steps", "reduce"})
    std::erase(from_environment, key);
  flags.apply_environment(settings, from_environment);
  flags.note_unused_environment(before, from_environment);
  flags.apply_flags(settings);
  return settings.resolve();
}

}  // namespace gpt
