#include "sweep/made_runs.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/ranges.h"

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

std::vector<int> deal_runs(const std::vector<double>& flops, int processes) {
  std::vector<size_t> order(flops.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return flops[i]; });
  std::vector<double> given(static_cast<size_t>(processes));
  std::vector<int> makers(flops.size());
  for (const size_t i : order) {
    const auto least = std::ranges::min_element(given);
    *least += flops[i];
    makers[i] = static_cast<int>(least - given.begin());
  }
  return makers;
}

double longest_share(const std::vector<double>& flops, const std::vector<double>& seconds, int processes) {
  const std::vector<int> makers = deal_runs(flops, processes);
  std::vector<double> busy(static_cast<size_t>(processes));
  for (size_t i = 0; i < makers.size(); ++i)
    busy[static_cast<size_t>(makers[i])] += seconds[i];
  return std::ranges::max(busy);
}

std::vector<size_t> own_runs(const Sweep& sweep, const Communicator& processes) {
  const std::vector<size_t> waiting = waiting_runs(sweep);
  const std::vector<int> makers =
      deal_runs(transformed(waiting, [&](size_t i) { return sweep.runs[i].flops; }), processes.size());
  std::vector<size_t> own;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (makers[i] == processes.rank()) own.push_back(waiting[i]);
  }
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
        "{}: expected the keys done, failed, ended and interrupted, written by rank {}; continue the sweep "
        "with `resume`",
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
