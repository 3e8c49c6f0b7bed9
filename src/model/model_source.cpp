#include "model/model_source.h"

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "io/llama2c.h"
#include "io/llmc.h"
#include "io/torch_file.h"
#include "model/families/checkpoints.h"
#include "model/families/gguf_keys.h"
#include "model/json_value.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string folder_of(const std::string& path) {
  const std::string folder = fs::is_directory(path) ? path : fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::unique_ptr<TensorFiles> one_file(std::unique_ptr<TensorFile> file) {
  std::vector<std::unique_ptr<TensorFile>> files;
  files.push_back(std::move(file));
  return std::make_unique<TensorFiles>(std::move(files));
}

// Opens a checkpoint of llama2.c or llm.c.
template <class File, class ConfigOf>
void open_c_file(ModelSource& source, ConfigOf config_of, const Naming& naming) {
  auto file = std::make_unique<File>(source.path);
  source.config = config_of(file->header());
  source.naming = &naming;
  source.tensors = one_file(std::move(file));
}

// Returns the path of the config file for a checkpoint of nanochat, or "". The config of model_000650.pt is
// stored in meta_000650.json.
std::string meta_path(const ModelSource& source) {
  const std::string stem = fs::path(source.path).stem().string();
  return stem.starts_with("model_") ? source.folder + "/meta_" + stem.substr(6) + ".json" : "";
}

void open_torch(ModelSource& source, const ShapeHints& hints) {
  auto file = std::make_unique<TorchFile>(source.path);
  const json args = file->settings().value("model_args", json());
  source.tensors = one_file(std::move(file));
  source.config_path = source.folder + "/config.json";
  const std::string meta = meta_path(source);
  if (args.is_object()) {
    source.config_path = source.path;
    source.config = nanogpt_config(args, source.path);
    source.naming = &kNanoGptNaming;
  } else if (!meta.empty() && fs::exists(meta)) {
    source.config_path = meta;
    source.config = nanochat_config(meta, *source.tensors, source.path);
  } else {
    json config;
    if (fs::exists(source.config_path)) config = read_json_file(source.config_path);
    if (is_mingpt_config(config) || (config.is_null() && has_gpt2_names(*source.tensors))) {
      if (config.is_null()) source.config_path = source.path;
      source.config = gpt2_shape(*source.tensors, config, hints, source.path);
    } else if (!config.is_null()) {
      source.config = model_config_from_json(config, source.config_path);
    } else {
      fail(
          "cannot read the model {}: the file does not contain the model's shape, so expected a config.json "
          "in {}",
          source.path, source.folder);
    }
  }
}

// Returns the checkpoint file in a training folder of minGPT or nanoGPT. Returns any other folder unchanged.
std::string checkpoint_in(const std::string& folder) {
  const auto has = [&](const char* name) { return fs::exists(fs::path(folder) / name); };
  if (!has("config.json") && has("ckpt.pt")) return folder + "/ckpt.pt";
  const bool others = has("model.safetensors") || has("model.safetensors.index.json") ||
                      has("pytorch_model.bin") || has("pytorch_model.bin.index.json");
  return !others && has("model.pt") ? folder + "/model.pt" : folder;
}

void check_hints(const ModelSource& source, const ShapeHints& hints) {
  if (hints.n_head != 0 && hints.n_head != source.config.n_head) {
    fail_usage("`n_head` {}: {} specifies {}; omit `n_head`", hints.n_head, source.config_path,
               source.config.n_head);
  }
  const std::string act = to_json_value(source.config.act);
  if (!hints.act.empty() && hints.act != act)
    fail_usage("`act` {}: {} specifies {}; omit `act`", hints.act, source.config_path, act);
}

void open_gguf(ModelSource& source) {
  auto file = std::make_unique<GgufFile>(source.path);
  source.config = gguf_config(*file);
  source.config_path = source.path;
  source.naming = gguf_family(*file).gguf.naming;
  source.gguf = file.get();
  source.tensors = one_file(std::move(file));
}

// Throws Error for a folder of GGUF files, because each of these files is a separate model.
void refuse_gguf_folder(const std::string& path) {
  if (!fs::is_directory(path)) return;
  for (const FolderEntry& entry : list_folder(path)) {
    if (entry.name.ends_with(".gguf"))
      fail("cannot read the model {}: it is a folder of GGUF files; specify one of them, such as {}", path,
           (fs::path(path) / entry.name).string());
  }
}

void open_with_config(ModelSource& source) {
  source.config_path = source.folder + "/config.json";
  if (!fs::exists(source.config_path)) {
    if (fs::exists(source.folder + "/adapter_config.json"))
      fail(
          "{0} is an adapter, not a model; merge it into its model first: gpt convert MODEL OUT --adapter "
          "{0} (chat, generate, eval and serve also accept MODEL --adapter {0})",
          source.path);
    refuse_gguf_folder(source.path);
    fail("cannot read the model {}: expected a config.json in {}", source.path, source.folder);
  }
  source.config = read_model_config(source.config_path);
  source.tensors = std::make_unique<TensorFiles>(open_tensors(source.path));
}

bool begins_as_torch_file(const std::string& path) {
  return is_torch_file(MappedFile(path).bytes());
}

uint32_t first_number(const std::string& path) {
  const MappedFile file(path);
  uint32_t number = 0;
  if (file.bytes().size() >= sizeof number) std::memcpy(&number, file.bytes().data(), sizeof number);
  return number;
}

}  // namespace

ModelSource open_model_source(const std::string& path, const ShapeHints& hints) {
  ModelSource source;
  source.path = fs::is_directory(path) ? checkpoint_in(path) : path;
  source.folder = folder_of(path);
  source.config_path = source.path;
  const std::string& file = source.path;
  if (fs::is_directory(file) || file.ends_with(".safetensors") || file.ends_with(".json")) {
    open_with_config(source);
  } else if (file.ends_with(".pt") || file.ends_with(".pth") || begins_as_torch_file(file)) {
    open_torch(source, hints);
  } else if (first_number(file) == kLlmcMagic) {
    open_c_file<LlmcFile>(source, llmc_config, kLlmcNaming);
  } else if (file.ends_with(".bin")) {
    open_c_file<Llama2cFile>(source, llama2c_config, kLlama2cNaming);
  } else if (path.ends_with(".gguf")) {
    open_gguf(source);
  } else {
    fail(
        "cannot determine the format of the model {}: expected a folder, .safetensors, .index.json, .gguf, "
        ".pt or .bin",
        path);
  }
  check_hints(source, hints);
  return source;
}

ModelConfig config_of_model(const std::string& path) {
  ModelConfig config = open_model_source(resolve_model_path(path), {}).config;
  complete(config);
  return config;
}

}  // namespace gpt
