#include "convert/adapter_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "convert/adapter_config.h"
#include "convert/adapter_tensors.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "kernels/quant.h"
#include "model/families/family.h"
#include "tensor/convert.h"
#include "tensor/device.h"

namespace gpt {

namespace fs = std::filesystem;

std::string adapter_folder(const std::string& path) {
  for (const char* part : {"best", "last"}) {
    const fs::path folder = fs::path(path) / part;
    if (path_exists((folder / kAdapterConfig).string())) return folder.string();
  }
  return path;
}

namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kSuffixes[] = {".lora_A.weight", ".lora_B.weight"};
constexpr uint64_t kMaxConfigBytes = uint64_t{32} << 20;

bool is_gguf(const std::string& path) {
  return path.ends_with(".gguf");
}

struct PeftFiles {
  explicit PeftFiles(const std::string& path)
      : folder(adapter_folder(path)),
        config_path((fs::path(folder) / kAdapterConfig).string()),
        config(read_config(path)),
        tensors((fs::path(folder) / kAdapterTensors).string()) {
    for (const UnsupportedTensor& t : tensors.unsupported())
      fail("{}: the tensor {} of type {} is not part of an adapter", tensors.path(), printable(t.name),
           t.dtype);
  }
  AdapterConfig read_config(const std::string& path) const {
    if (!path_exists(config_path))
      fail("cannot read the adapter {}: expected a PEFT folder with {} or a .gguf file", path,
           kAdapterConfig);
    return read_adapter_config(read_file(config_path, kMaxConfigBytes), config_path);
  }

  std::string folder, config_path;
  AdapterConfig config;
  SafetensorsFile tensors;
};

// Splits the name of a tensor into the module, such as "transformer.h.0.attn.c_attn", and the half: 0 for A,
// 1 for B.
std::pair<std::string, size_t> module_of(const TensorInfo& tensor, const std::string& path) {
  for (size_t half = 0; half < 2; ++half) {
    const std::string& name = tensor.name;
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffixes[half])) continue;
    if (name.size() <= kPrefix.size() + kSuffixes[half].size()) continue;
    return {name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffixes[half].size()), half};
  }
  if (tensor.name.find(".lora_embedding_") != std::string::npos)
    fail_unsupported("{}: the tensor {} belongs to an adapter for an embedding, which is not supported", path,
                     printable(tensor.name));
  fail("{}: the tensor {} is not part of an adapter: expected {}MODULE.lora_A.weight and .lora_B.weight",
       path, printable(tensor.name), kPrefix);
}

// Returns the name of the base model's tensor if the given tensor is a copy of it, else "". PEFT saves copies
// of the embedding and head matrices with an adapter for the head, and loads them with the adapter.
std::string copied_tensor(const TensorInfo& tensor) {
  constexpr std::string_view kBase = ".base_layer";
  if (!tensor.name.starts_with(kPrefix) || tensor.name.find(".lora_") != std::string::npos) return "";
  std::string name = tensor.name.substr(kPrefix.size());
  if (const size_t at = name.find(kBase); at != std::string::npos) name.erase(at, kBase.size());
  return name;
}

// Converts values to a different dtype.
std::vector<std::byte> converted(std::span<const std::byte> bytes, DType from, DType to) {
  const auto n = static_cast<int64_t>(bytes.size() / dtype_size(from));
  std::vector<std::byte> out(static_cast<size_t>(n) * dtype_size(to));
  convert_matrix({.bytes = bytes, .dtype = from, .rows = 1, .cols = n}, make_view(out.data(), to, {1, n}));
  return out;
}

// Returns true if two matrices are equal after conversion to the dtype of one of them. PEFT may have trained
// in a different dtype.
bool same_values(const TensorInfo& copy, const TensorView& weight) {
  const auto cols = static_cast<size_t>(copy.shape[1]);
  const size_t copy_bytes = cols * dtype_size(copy.dtype), weight_bytes = cols * dtype_size(weight.dtype);
  const MappedView base(weight, Access::read);
  bool as_weight = true, as_copy = true;
  for (int64_t r = 0; r < copy.shape[0]; ++r) {
    const auto a = copy.bytes.subspan(static_cast<size_t>(r) * copy_bytes, copy_bytes);
    const std::span b(base->slice_rows(r, 1).as<const std::byte>(), weight_bytes);
    as_weight = as_weight && std::ranges::equal(converted(a, copy.dtype, weight.dtype), b);
    as_copy = as_copy && std::ranges::equal(converted(b, weight.dtype, copy.dtype), a);
  }
  return as_weight || as_copy;
}

// Throws Error unless a copy is equal to this model's matrix. A quantized matrix cannot be compared and is
// accepted.
void check_copy(const TensorInfo& tensor, const Model& model, const std::string& path) {
  const Naming& naming = adapter_naming(model.config);
  const std::string name = copied_tensor(tensor);
  for (const Role role : {Role::wte, Role::head_weight}) {
    const int id = model.table.find(role);
    if (id < 0) continue;
    const std::string own = file_place(naming, model.config, model.table[id]).tensor;
    const bool tied_head = model.config.tie_embeddings && name == head_name(naming);
    if (name != own && name != without_base_prefix(own) && !tied_head) continue;
    const TensorView& weight = model.weights[static_cast<size_t>(id)];
    if (tensor.shape != model.table[id].shape)
      fail("{}: the tensor {}: expected shape {} for this model, found {}", path, printable(tensor.name),
           shape_string(model.table[id].shape), shape_string(tensor.shape));
    if (is_float(tensor.dtype) && (is_quantized(weight.dtype) || same_values(tensor, weight))) return;
    fail(
        "{}: the tensor {} differs from the tensor of this model; merge the adapter with PEFT into the model "
        "that it was trained for",
        path, printable(tensor.name));
  }
  fail("{}: the tensor {} is not part of an adapter: expected {}MODULE.lora_A.weight and .lora_B.weight",
       path, printable(tensor.name), kPrefix);
}

void check_module(const PeftFiles& files, const std::string& module, int64_t layer) {
  const AdapterConfig& c = files.config;
  if (c.has_target(module, layer)) return;
  const char* why = c.excluded.has(module)                 ? "is listed in exclude_modules"
                    : !c.targets || c.targets->has(module) ? "is not in layers_to_transform"
                                                           : "is not in target_modules";
  fail("{}: the adapter has tensors for {}, which {}", files.config_path, module,
       layer < 0 && !c.targets ? "target_modules \"all-linear\" does not include" : why);
}

// Requires tensors for every matrix that target_modules selects. If tensors are missing, the adapter was most
// likely made for a model with fewer layers.
void check_complete(const PeftFiles& files, const std::vector<AdapterModule>& modules,
                    const ParamTable& table, const std::set<std::string>& found) {
  for (const AdapterModule& module : modules) {
    const std::string bare = without_base_prefix(module.name);
    if (found.contains(module.name) || found.contains(bare)) continue;
    if (!files.config.has_target(module.name, table[module.first].layer)) continue;
    fail(
        "{}: the adapter has no tensors for {}, which target_modules includes; use the model that it was "
        "trained for{}",
        files.config_path, module.name, files.config.base.empty() ? "" : ", " + printable(files.config.base));
  }
}

LoadedAdapter load_peft(const std::string& path, const Model& model, Device* device) {
  const PeftFiles files(path);
  const std::string& name = files.tensors.path();
  const auto modules = loadable_modules(model, adapter_naming(model.config));
  AdapterTensors tensors(model, name);
  AdapterSettings settings = files.config.settings;
  std::set<std::string> modules_found;
  for (const TensorInfo& tensor : files.tensors.tensors()) {
    if (!copied_tensor(tensor).empty()) {
      check_copy(tensor, model, name);
      continue;
    }
    const auto [module, half] = module_of(tensor, name);
    // If the base model has no head, PEFT omits the prefix of the base model from the names, as transformers
    // does.
    const auto found = std::ranges::find_if(modules, [&, &module = module](const AdapterModule& m) {
      return m.name == module || without_base_prefix(m.name) == module;
    });
    if (found == modules.end())
      fail("{}: {} is not a matrix of this model that an adapter can change, such as {}", name,
           printable(module), modules.empty() ? "none" : modules[0].name);
    check_module(files, module, model.table[found->first].layer);
    tensors.add(*found, half, tensor);
    const AdapterSize size = files.config.size(module);
    if (size.rank != settings.rank) settings.rank_pattern[found->name] = size.rank;
    if (size.alpha != settings.alpha) settings.alpha_pattern[found->name] = size.alpha;
    modules_found.insert(module);
  }
  check_complete(files, modules, model.table, modules_found);
  const auto scale = [&](const AdapterModule& module, int64_t rank) {
    const AdapterSize size = adapter_size(module.name, settings);
    if (size.rank != rank)
      fail("{}: {} has rank {}, but {} specifies {}", name, module.name, rank, kAdapterConfig, size.rank);
    return adapter_scale(size, settings.rslora);
  };
  const RopeLayout layout = hf_config(model.config).rope_layout;
  return {tensors.make(scale, layout, settings.dropout, device), settings, AdapterFormat::peft,
          files.config.base};
}

AdapterFacts peft_facts(const std::string& path) {
  const PeftFiles files(path);
  AdapterFacts facts{.settings = files.config.settings, .base = files.config.base, .architecture = {}};
  std::set<std::string> modules;
  for (const TensorInfo& tensor : files.tensors.tensors()) {
    if (!copied_tensor(tensor).empty()) continue;
    modules.insert(module_of(tensor, files.tensors.path()).first);
    facts.parameters += checked_size(tensor.shape, tensor.name);
  }
  facts.matrices = std::ssize(modules);
  return facts;
}

// Returns the settings with which PEFT creates the matrices of the adapter. The targets are module names of
// the model family. rank_pattern and alpha_pattern contain the ranks and alphas that differ from the
// defaults, with the full module name as the key.
AdapterSettings peft_settings(const Adapter& adapter, const std::vector<AdapterModule>& modules,
                              const ParamTable& table, AdapterSettings s) {
  const AdapterSettings given = s;
  const bool all = adapter.products.size() == modules.size() - 1 &&  // all modules except the head
                   table[modules.back().first].layer < 0 && adapter.find(modules.back().first) == nullptr &&
                   s.targets == AdapterSettings().targets;
  if (!all) s.targets.clear();
  s.layers.clear();
  s.rank_pattern.clear();
  s.alpha_pattern.clear();
  for (const AdapterModule& module : modules) {
    const LowRank* p = adapter.find(module.first);
    if (p == nullptr) continue;
    if (!all) s.targets.push_back(module.name);
    AdapterSize size = {p->rank, adapter_size(module.name, given).alpha};
    if (adapter_scale(size, s.rslora) != p->scale)
      size.alpha = p->scale / adapter_scale({p->rank, 1}, s.rslora);
    if (size.rank != s.rank) s.rank_pattern[module.name] = size.rank;
    if (size.alpha != s.alpha) s.alpha_pattern[module.name] = size.alpha;
  }
  return all ? s : with_short_targets(std::move(s), modules, table);
}

}  // namespace

std::string chat_template_of(const std::vector<std::string>& adapters) {
  for (const std::string& adapter : adapters) {
    const std::string path = adapter_folder(parse_adapter(adapter).path) + "/chat_template.jinja";
    if (path_exists(path)) return path;
  }
  return "";
}

bool is_adapter(const std::string& path) {
  if (!path_exists(path)) return false;
  return is_gguf(path) ? is_gguf_adapter(path)
                       : path_exists((fs::path(adapter_folder(path)) / kAdapterConfig).string());
}

LoadedAdapter load_adapter(const std::string& path, const Model& model, Device* device) {
  if (!path_exists(path)) fail_not_found("cannot find the adapter {}: no such file or folder", path);
  return is_gguf(path) ? load_gguf_adapter(path, model, device) : load_peft(path, model, device);
}

AdapterFacts adapter_facts(const std::string& path) {
  return is_gguf(path) ? gguf_adapter_facts(path) : peft_facts(path);
}

AdapterChoice parse_adapter(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || path_exists(text)) return {text};
  const auto scale = parse_number<double>(std::string_view(text).substr(equals + 1));
  if (!scale || !std::isfinite(*scale) || equals == 0)
    fail_parameter("adapter", "expected DIR or DIR=SCALE, found \"{}\"", text.substr(0, 128));
  return {text.substr(0, equals), *scale};
}

std::shared_ptr<const Adapter> load_adapters(const std::vector<std::string>& choices, const Model& model,
                                             Device* device) {
  if (choices.empty()) return nullptr;
  std::vector<WeightedAdapter> adapters;
  for (const std::string& choice : choices) {
    const auto [path, scale] = parse_adapter(choice);
    adapters.push_back({load_adapter(path, model, device).adapter, scale});
  }
  return sum_of_adapters(model.table, adapters, device);
}

void write_adapter(const std::string& folder, const Model& model, const Adapter& adapter,
                   const AdapterSettings& settings, const std::string& base) {
  const Naming& naming = adapter_naming(model.config);
  const auto modules = loadable_modules(model, naming);
  const RopeLayout layout = hf_config(model.config).rope_layout;
  std::vector<NamedTensor> tensors;
  for (const AdapterModule& module : modules) {
    const LowRank* p = adapter.find(module.first);
    if (p == nullptr) continue;
    const std::string name = std::string(kPrefix) + module.name;
    tensors.push_back(
        adapter_tensor(name + std::string(kSuffixes[0]), model, adapter.a(*p), *p, false, layout, 1));
    tensors.push_back(
        adapter_tensor(name + std::string(kSuffixes[1]), model, adapter.b(*p), *p, true, layout, 1));
  }
  write_safetensors((fs::path(folder) / kAdapterTensors).string(), tensors, {{"format", "pt"}});
  const auto json = adapter_config_json(peft_settings(adapter, modules, model.table, settings), base,
                                        naming.transposed_blocks);
  write_file_atomic((fs::path(folder) / kAdapterConfig).string(), json.dump(2) + "\n");
}

}  // namespace gpt
