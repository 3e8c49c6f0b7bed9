// Reads and writes adapters in llama.cpp's format. The file has the general.type "adapter" and the tensors
// NAME.lora_a [rank,in] and NAME.lora_b [out,rank]. The result is y = x W^T + alpha / rank (x A^T) B^T. If
// the file has no alpha, the factor alpha / rank is 1.

#include <algorithm>
#include <map>
#include <string_view>

#include "base/file.h"
#include "base/printable.h"
#include "convert/adapter_tensors.h"
#include "convert/format_limits.h"
#include "io/gguf.h"
#include "io/gguf_writer.h"
#include "model/families/gguf_keys.h"

namespace gpt {
namespace {

constexpr const char *kType = "general.type", *kKind = "adapter.type", *kAlpha = "adapter.lora.alpha";
constexpr const char* kInvocation = "adapter.alora.invocation_tokens";
constexpr std::string_view kGgufSuffixes[] = {".weight.lora_a", ".weight.lora_b"};

void check_kind(const GgufFile& file) {
  if (file.string(kType).value_or("model") != "adapter")
    fail("{}: {}: expected \"adapter\", found {}", file.path(), kType,
         printable(file.string(kType).value_or("nothing")));
  if (file.need_string(kKind) != "lora")
    fail("{}: {}: expected \"lora\", found {}", file.path(), kKind, printable(file.need_string(kKind)));
  if (file.has(kInvocation))
    fail_unsupported("{}: {} is not supported, because it changes the output of the adapter", file.path(),
                     kInvocation);
}

std::pair<std::string, size_t> gguf_module_of(const TensorInfo& tensor, const std::string& path) {
  for (size_t half = 0; half < 2; ++half) {
    if (tensor.name.ends_with(kGgufSuffixes[half]))
      return {tensor.name.substr(0, tensor.name.size() - kGgufSuffixes[half].size()), half};
  }
  fail("{}: the tensor {} is not part of an adapter: expected NAME.weight.lora_a and .lora_b", path,
       printable(tensor.name));
}

double scale_of(double alpha, int64_t rank) {
  return alpha == 0 ? 1 : alpha / static_cast<double>(rank);
}

}  // namespace

bool is_gguf_adapter(const std::string& path) {
  const GgufFile file(path);
  return file.string(kType).value_or("model") == "adapter";
}

LoadedAdapter load_gguf_adapter(const std::string& path, const Model& model, Device* device) {
  const GgufFile file(path);
  check_kind(file);
  const Gguf& gguf = gguf_family(file).gguf;
  const auto modules = loadable_modules(model, *gguf.naming);
  AdapterTensors tensors(model, path);
  for (const TensorInfo& tensor : file.tensors()) {
    const auto [module, half] = gguf_module_of(tensor, path);
    const auto found = std::ranges::find(modules, module, &AdapterModule::name);
    if (found == modules.end())
      fail("{}: {} is not a matrix of this model that an adapter can change, such as {}", path,
           printable(module), modules.empty() ? "none" : modules[0].name);
    tensors.add(*found, half, tensor);
  }
  if (!file.unsupported().empty())
    fail("{}: the tensor {} of type {} is not part of an adapter", path,
         printable(file.unsupported()[0].name), file.unsupported()[0].dtype);
  const double alpha = file.number(kAlpha).value_or(0);
  const auto scale = [&](const AdapterModule&, int64_t rank) { return scale_of(alpha, rank); };
  LoadedAdapter loaded{tensors.make(scale, gguf.rope_layout, 0, device),
                       {},
                       AdapterFormat::gguf,
                       std::string(file.string("general.basename").value_or(""))};
  const LowRank& first = loaded.adapter->products[0];
  loaded.settings.rank = first.rank;
  loaded.settings.alpha = first.scale * static_cast<double>(first.rank);
  const bool has_head = loaded.adapter->find(modules.back().first) != nullptr;
  // Otherwise, the targets are all modules except the head.
  if (has_head || loaded.adapter->products.size() + 1 != modules.size()) {
    loaded.settings.targets.clear();
    for (const AdapterModule& module : loadable_modules(model, adapter_naming(model.config))) {
      if (loaded.adapter->find(module.first) != nullptr) loaded.settings.targets.push_back(module.name);
    }
  }
  return loaded;
}

AdapterFacts gguf_adapter_facts(const std::string& path) {
  const GgufFile file(path);
  check_kind(file);
  AdapterFacts facts{.format = AdapterFormat::gguf,
                     .base = std::string(file.string("general.basename").value_or("")),
                     .architecture = std::string(file.need_string("general.architecture"))};
  std::map<std::string, int64_t> targets;
  for (const TensorInfo& tensor : file.tensors()) {
    const auto [module, half] = gguf_module_of(tensor, path);
    if (half == 0 && !tensor.shape.empty()) {
      ++facts.matrices;
      facts.settings.rank = tensor.shape[0];
      ++targets[module.substr(module.rfind('.') + 1)];
    }
    facts.parameters += checked_size(tensor.shape, tensor.name);
  }
  facts.settings.alpha = file.number(kAlpha).value_or(0);
  if (facts.settings.alpha == 0) facts.settings.alpha = static_cast<double>(facts.settings.rank);
  facts.settings.targets.clear();
  for (const auto& [name, count] : targets)
    facts.settings.targets.push_back(name);
  return facts;
}

void write_adapter_gguf(const std::string& path, const Model& model, const Adapter& adapter,
                        const std::string& name) {
  const Gguf& gguf = gguf_family(model.config).gguf;
  const LowRank& first = adapter.products[0];
  const double alpha = first.scale * static_cast<double>(first.rank);
  GgufMetadata m;
  m.add("general.architecture", gguf.architecture);
  m.add(kType, "adapter");
  m.add(kKind, "lora");
  if (!name.empty()) m.add("general.name", name);
  m.add("general.file_type", uint32_t{0});
  m.add(kAlpha, static_cast<float>(alpha));
  std::vector<NamedTensor> tensors;
  for (const AdapterModule& module : loadable_modules(model, *gguf.naming)) {
    const LowRank* p = adapter.find(module.first);
    if (p == nullptr) continue;
    if (model.config.tie_embeddings && model.table[module.first].layer < 0)
      fail(
          "cannot write this adapter as GGUF: it changes lm_head, which shares its matrix with the "
          "embedding; convert it to peft");
    // The file has one alpha for all matrices. If a matrix has a different scale, B is multiplied by the
    // ratio of the scales.
    const double factor = p->scale / scale_of(static_cast<float>(alpha), p->rank);
    const std::string tensor = module.name;
    tensors.push_back(adapter_tensor(tensor + std::string(kGgufSuffixes[0]), model, adapter.a(*p), *p, false,
                                     gguf.rope_layout, 1));
    tensors.push_back(adapter_tensor(tensor + std::string(kGgufSuffixes[1]), model, adapter.b(*p), *p, true,
                                     gguf.rope_layout, factor));
  }
  write_gguf_file(path, m, tensors);
}

}  // namespace gpt
