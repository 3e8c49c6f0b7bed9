#include "info_subject.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "io/tensor_file.h"
#include "io/tensor_info.h"
#include "model/model_files.h"
#include "model/model_source.h"
#include "model/presets.h"
#include "options.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kByteVocab = 256;

// Returns the keys of a model without derived values. A value that equals its derived default is omitted, so
// that it is derived again if the settings it depends on change.
json keys_of_model(const ModelConfig& c) {
  json keys = given_model_keys_json(c);
  if (c.d_ff == 4 * c.n_embd) keys.erase("d_ff");
  if (c.n_kv_head == c.n_head) keys.erase("n_kv_head");
  if (c.head_dim * c.n_head == c.n_embd) keys.erase("head_dim");
  return keys;
}

using StoredTypes = std::vector<std::pair<DType, int64_t>>;

StoredTypes stored_types(const TensorFiles& files) {
  std::map<DType, int64_t> bytes;
  for (const TensorInfo* tensor : files.tensors())
    bytes[tensor->dtype] += std::ssize(tensor->bytes);
  StoredTypes types(bytes.begin(), bytes.end());
  std::ranges::stable_sort(types, std::ranges::greater(), &StoredTypes::value_type::second);
  return types;
}

struct OnDisk {
  ModelConfig config;
  StoredTypes stored = {};
};

// Reads the config of a model on disk. Does not open the weight files if a config.json is sufficient.
OnDisk read_from_disk(const std::string& name) {
  std::error_code ignored;
  require_model_or_preset(name);
  const fs::path folder = fs::path(name).parent_path();
  const bool of_run =
      fs::path(name).filename() == "config.json" && fs::is_directory(folder / "last", ignored);
  const fs::path path = resolve_model_path(of_run ? (folder.empty() ? "." : folder.string()) : name);
  if (path.extension() == ".json") return {read_model_config(path.string())};
  const fs::path config = (fs::is_directory(path, ignored) ? path : path.parent_path()) / "config.json";
  constexpr std::string_view kOwnConfig[] = {".gguf", ".bin", ".pt", ".pth"};
  const bool own_config = std::ranges::find(kOwnConfig, path.extension().string()) != std::end(kOwnConfig);
  if (!own_config && fs::exists(config, ignored)) return {read_model_config(config.string())};
  const ModelSource source = open_model_source(path.string(), {});
  return {source.config, stored_types(*source.tensors)};
}

struct Spec {
  std::string name;
  std::vector<std::pair<std::string, std::string>> keys;
};

// Parses NAME:key=value,key=value. If a file of that exact name exists, the whole text is the name.
Spec parse_spec(const std::string& text) {
  const size_t equals = text.find('=');
  const size_t colon = equals == std::string::npos ? equals : text.rfind(':', equals);
  std::error_code ignored;
  if (colon == std::string::npos || fs::exists(text, ignored)) return {text, {}};
  Spec spec{text.substr(0, colon), {}};
  for (const std::string_view word : split(std::string_view(text).substr(colon + 1), ',')) {
    const std::string pair(word);
    const size_t at = pair.find('=');
    if (at == 0 || at == std::string::npos)
      fail_usage("\"{}\": expected NAME:key=value,key=value, found \"{}\"", text.substr(0, 128),
                 pair.substr(0, 64));
    std::string key = pair.substr(0, at);
    std::ranges::replace(key, '-', '_');
    spec.keys.emplace_back(key, pair.substr(at + 1));
  }
  return spec;
}

}  // namespace

InfoSubject find_info_subject(const InfoRequest& request, const ConfigFlags& flags) {
  Spec spec = parse_spec(request.spec);
  if (spec.name.empty()) spec.name = request.model;
  if (spec.name.empty())
    fail_usage("\"{}\" varies MODEL, but there is no MODEL; name one before the colon", request.spec);
  Settings settings;
  StoredTypes stored;
  if (is_preset(spec.name)) {
    settings.add_preset(spec.name);
  } else {
    OnDisk model = read_from_disk(spec.name);
    settings.add_json(keys_of_model(model.config), spec.name);
    stored = std::move(model.stored);
  }
  flags.apply_flags(settings);
  if (!request.schedule.empty()) settings.add_text("schedule", request.schedule, "--schedule");
  settings.begin_source();
  for (const auto& [key, value] : spec.keys)
    settings.add_text(key, value, request.spec);
  RunConfig config = settings.resolve();
  const bool assumed = config.model.vocab_size == 0;
  if (assumed) config.model.vocab_size = kByteVocab;
  complete(config.model);
  return {.name = request.spec,
          .counts = ModelCounts(config.model),
          .train = config.train,
          .batch = request.batch_size > 0 ? request.batch_size : config.train.batch_size,
          .sequences = std::max<int64_t>(1, request.batch_size),
          .devices = request.devices,
          .assumed_vocab = assumed,
          .stored = std::move(stored)};
}

}  // namespace gpt
