#include "train/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/path_kind.h"
#include "io/checkpoint_dir.h"
#include "io/json.h"

namespace gpt {
namespace {

bool has_keys(const std::string& path, std::initializer_list<const char*> keys) {
  try {
    const nlohmann::json object = read_json_file(path);
    return object.is_object() &&
           std::ranges::all_of(keys, [&](const char* key) { return object.contains(key); });
  } catch (const Error&) {
    return false;
  }
}

bool is_empty_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) == 0;
}

// What the run would replace in a folder that is no run's: a plan is there for it, and a run that was killed
// at once left empty metrics.
void refuse_files_of_others(const std::string& folder) {
  for (const std::string name : {"best", "metrics.jsonl", "loss.svg", "report.html", "plan.json"}) {
    const std::string path = folder + "/" + name;
    if (!path_exists(path)) continue;
    if (name == "plan.json" && has_keys(path, {"compute_optimal"})) continue;
    if (name == "metrics.jsonl" && is_empty_file(path)) continue;
    fail("{} is in the way, and no run of this program made it; choose another --out", path);
  }
}

}  // namespace

void require_free_folder(const std::string& folder, bool again) {
  const std::string last = folder + "/last", best = folder + "/best", config = folder + "/config.json";
  recover_directory(last);
  recover_directory(best);
  const bool has_log = path_exists(folder + "/metrics.jsonl");
  const bool is_run = has_log && has_keys(config, {"data", "steps"});
  if (path_exists(last) || (path_exists(config) && !is_run)) {
    fail("{} holds a model or a run already; continue it with --resume, or choose another --out", folder);
  }
  if (!is_run) return refuse_files_of_others(folder);
  if (path_exists(best) && !again) {
    fail(
        "{0} holds the best model of a run that ended before its first checkpoint, so --resume cannot go on "
        "with it; choose another --out, and --init-from {0}/best to start from that model",
        folder);
  }
}

}  // namespace gpt
