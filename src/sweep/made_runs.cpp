#include "sweep/made_runs.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace gpt {
namespace {

constexpr const char* kPrefix = ".rank-";

std::string path_of(const std::string& folder, int rank) {
  return folder + "/" + kPrefix + std::to_string(rank) + ".json";
}

std::vector<size_t> waiting_runs(const Sweep& sweep) {
  std::vector<size_t> waiting;
  for (size_t i = 0; i < sweep.runs.size(); ++i) {
    if (sweep.results[i].state == SweepResult::State::waiting) waiting.push_back(i);
  }
  return waiting;
}

}  // namespace

std::vector<size_t> own_runs(const Sweep& sweep, const Communicator& processes) {
  std::vector<size_t> waiting = waiting_runs(sweep), own;
  if (processes.size() == 1) return waiting;
  // The largest first, each to the process that has the least so far.
  std::ranges::stable_sort(waiting, std::greater(), [&](size_t i) { return sweep.runs[i].flops; });
  std::vector<double> flops(static_cast<size_t>(processes.size()));
  for (const size_t i : waiting) {
    const auto least = std::ranges::min_element(flops);
    *least += sweep.runs[i].flops;
    if (least - flops.begin() == processes.rank()) own.push_back(i);
  }
  std::ranges::sort(own);
  return own;
}

void write_made_runs(const std::string& folder, int rank, const MadeRuns& made) {
  const nlohmann::json object = {
      {"done", made.done}, {"failed", made.failed}, {"ended", made.ended}, {"interrupted", made.interrupted}};
  write_file_atomic(path_of(folder, rank), object.dump() + "\n");
}

MadeRuns read_made_runs(const std::string& folder, int rank) {
  const std::string path = path_of(folder, rank);
  MadeRuns made;
  if (!std::filesystem::exists(path)) return made;
  const nlohmann::json object = read_json_file(path);
  try {
    object.at("done").get_to(made.done);
    object.at("failed").get_to(made.failed);
    object.at("ended").get_to(made.ended);
    object.at("interrupted").get_to(made.interrupted);
  } catch (const nlohmann::json::exception&) {
    fail(
        "{}: expected done, failed, ended and interrupted, as rank {} writes them; start the sweep again "
        "with "
        "--resume",
        path, rank);
  }
  return made;
}

void remove_made_runs(const std::string& folder) {
  for (const FolderEntry& entry : list_folder(folder)) {
    if (entry.name.starts_with(kPrefix)) std::filesystem::remove(folder + "/" + entry.name);
  }
}

}  // namespace gpt
