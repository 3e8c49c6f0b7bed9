#include "train/same_run.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "data/token_hash.h"
#include "distributed/same.h"

namespace gpt {
namespace {

std::vector<std::pair<std::string, std::string>> facts_of(const RunIdentity& run) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"program", hex_hash(read_file("/proc/self/exe"))},
      {"instruction set", std::string(isa_name(run.isa))},
      {"training text", run.data.train + " " + run.data.sizes + " " + run.data.ids},
      {"model beside the adapter", run.data.base},
      {"validation text", run.data.val},
      {"tokenizer", run.data.tokenizer},
      {"step", std::to_string(run.step)}};
  const nlohmann::json config = nlohmann::json::parse(run.config);
  for (const auto& [key, value] : config.items()) {
    if (key != "threads") facts.emplace_back("value of the config key \"" + key + "\"", value.dump());
  }
  return facts;
}

}  // namespace

void require_same_run(Communicator& processes, const RunIdentity& run) {
  if (processes.size() == 1) return;
  for (const auto& [what, own] : facts_of(run))
    require_same(processes, what, own);
}

}  // namespace gpt
