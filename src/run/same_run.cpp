#include "run/same_run.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "data/token_hash.h"
#include "distributed/same.h"
#include "tensor/device.h"

namespace gpt {
namespace {

std::vector<std::pair<std::string, std::string>> facts_of(const RunIdentity& run) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"program", hex_hash(read_file("/proc/self/exe"))},
      {"instruction set", std::string(run.kernels)},
      {"training text (data_hash)", run.data.train + " " + run.data.sizes + " " + run.data.ids},
      {"base model of the adapter (base_hash)", run.data.base},
      {"validation text (val_data_hash)", run.data.val},
      {"tokenizer (tokenizer_hash)", run.data.tokenizer},
      {"step", std::to_string(run.step)},
      {"initial checkpoint or model (`resume`, `init_from`)", run.begins}};
  if (!run.settings.empty()) {
    const nlohmann::json settings = nlohmann::json::parse(run.settings);
    for (const auto& [key, value] : settings.items())
      facts.emplace_back("value of \"" + key + "\"", value.dump());
  }
  const nlohmann::json config = nlohmann::json::parse(run.config);
  for (const auto& [key, value] : config.items()) {
    if (key != "threads") facts.emplace_back("value of the config key \"" + key + "\"", value.dump());
  }
  return facts;
}

}  // namespace

std::string weights_hash(const Model& model) {
  std::string hashes;
  for (const TensorView& weight : model.weights) {
    const MappedView access(weight, Access::read);
    hashes += hex_hash({access->as<const char>(), extent(*access)});
  }
  return hex_hash(hashes);
}

std::string start_of_run(bool resumes, const std::string& last, const Model* begun) {
  // The manifest contains the checksums of all files.
  if (resumes) return hex_hash(read_file(last + "/manifest.json"));
  return begun == nullptr ? "" : weights_hash(*begun);
}

void require_same_run(Communicator& processes, const RunIdentity& run) {
  if (processes.size() == 1) return;
  for (const auto& [what, own] : facts_of(run))
    require_same(processes, what, own);
}

}  // namespace gpt
