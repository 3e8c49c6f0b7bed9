#include "convert/adapter_tensors.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/printable.h"
#include "convert/rope_rows.h"
#include "tensor/convert.h"
#include "tensor/device.h"

namespace gpt {
namespace {

// Returns the row in the file for each row of B in the model.
std::vector<int64_t> file_rows(const Model& model, const LowRank& product, RopeLayout layout) {
  const ModelConfig& c = model.config;
  const bool differs = c.position == Position::rope && c.rope_layout != layout;
  std::vector<int64_t> rows;
  for (int id = product.first; id <= product.last; ++id) {
    const auto begin = std::ssize(rows);
    const int64_t n = model.table[id].shape[0];
    rows.resize(static_cast<size_t>(begin + n));
    const bool moves = differs && is_rotated(model.table[id].role);
    for (int64_t r = 0; r < n; ++r) {
      const int64_t half = moves ? half_of_pair(r, c.head_dim) : r;
      const auto [here, there] =
          c.rope_layout == RopeLayout::interleaved ? std::pair(r, half) : std::pair(half, r);
      rows[static_cast<size_t>(begin + here)] = begin + there;
    }
  }
  return rows;
}

int64_t rows_of(const Model& model, const AdapterModule& module) {
  int64_t rows = 0;
  for (int id = module.first; id <= module.last; ++id)
    rows += model.table[id].shape[0];
  return rows;
}

std::vector<float> numbers(const TensorInfo& tensor, const std::string& what) {
  std::vector<float> x(static_cast<size_t>(checked_size(tensor.shape, tensor.name)));
  convert_matrix(
      {.bytes = tensor.bytes, .dtype = tensor.dtype, .rows = tensor.shape[0], .cols = tensor.shape[1]},
      make_view(x.data(), {tensor.shape[0], tensor.shape[1]}));
  if (!std::ranges::all_of(x, [](float value) { return std::isfinite(value); }))
    fail("{}: the tensor {} has non-finite values", what, printable(tensor.name));
  return x;
}

}  // namespace

std::vector<AdapterModule> loadable_modules(const Model& model, const Naming& naming) {
  constexpr std::string_view kWeight = ".weight";
  std::vector<AdapterModule> modules = adapter_modules(model.config, model.table, naming);
  std::string head = head_name(naming);
  if (head.ends_with(kWeight)) head.erase(head.size() - kWeight.size());
  const int id = model.table.find(model.config.tie_embeddings ? Role::wte : Role::head_weight);
  modules.push_back({head, id, id});
  return modules;
}

void AdapterTensors::add(const AdapterModule& module, size_t half, const TensorInfo& tensor) {
  if (!is_float(tensor.dtype) || tensor.shape.size() != 2)
    fail("{}: tensor {}: expected a matrix of floating-point values, found {} {}", what_,
         printable(tensor.name), dtype_name(tensor.dtype), shape_string(tensor.shape));
  const int64_t wanted = half == 0 ? model_.table[module.first].shape[1] : rows_of(model_, module);
  const int64_t found = tensor.shape[half == 0 ? 1 : 0], rank = tensor.shape[half];
  if (found != wanted || rank < 1)
    fail("{}: tensor {}: expected {} for this model, found {}", what_, printable(tensor.name),
         half == 0 ? fmt::format("[rank,{}]", wanted) : fmt::format("[{},rank]", wanted),
         shape_string(tensor.shape));
  Pair& pair = pairs_.try_emplace(module.first, Pair{module}).first->second;
  if (pair.halves[half] != nullptr)
    fail("{}: {} and {} belong to the same matrix of the model", what_, printable(pair.halves[half]->name),
         printable(tensor.name));
  pair.halves[half] = &tensor;
}

std::shared_ptr<const Adapter> AdapterTensors::make(
    const std::function<double(const AdapterModule&, int64_t)>& scale, RopeLayout layout, double dropout,
    Device* device) const {
  std::vector<LowRank> products;
  for (const auto& [first, pair] : pairs_) {
    const TensorInfo *a = pair.halves[0], *b = pair.halves[1];
    if (a == nullptr || b == nullptr)
      fail("{}: {} has lora_{} but no lora_{}", what_, pair.module.name, a == nullptr ? "B" : "A",
           a == nullptr ? "A" : "B");
    if (a->shape[0] != b->shape[1])
      fail("{}: {}: lora_A has rank {}, but lora_B has rank {}", what_, pair.module.name, a->shape[0],
           b->shape[1]);
    products.push_back({first, pair.module.last, a->shape[0], scale(pair.module, a->shape[0])});
  }
  if (products.empty()) fail("{}: expected tensors of an adapter, found none", what_);
  auto adapter = std::make_shared<Adapter>(model_.table, std::move(products), dropout);
  adapter->allocate(DType::f32, device);
  for (const LowRank& p : adapter->products) {
    const Pair& pair = pairs_.at(p.first);
    const std::vector<float> a = numbers(*pair.halves[0], what_), b = numbers(*pair.halves[1], what_);
    const MappedView to_a(adapter->a(p), Access::write), to_b(adapter->b(p), Access::write);
    std::ranges::copy(a, to_a->as<float>());
    const std::vector<int64_t> rows = file_rows(model_, p, layout);
    for (size_t r = 0; r < rows.size(); ++r)
      std::copy_n(b.data() + rows[r] * p.rank, p.rank, to_b->row<float>(static_cast<int64_t>(r)));
  }
  return adapter;
}

NamedTensor adapter_tensor(std::string name, const Model& model, const TensorView& view,
                           const LowRank& product, bool is_b, RopeLayout layout, double factor) {
  std::vector<int64_t> rows(static_cast<size_t>(view.rows()));
  if (is_b) {
    const std::vector<int64_t> there = file_rows(model, product, layout);
    for (size_t r = 0; r < there.size(); ++r)
      rows[static_cast<size_t>(there[r])] = static_cast<int64_t>(r);
  } else {
    for (size_t r = 0; r < rows.size(); ++r)
      rows[r] = static_cast<int64_t>(r);
  }
  return {std::move(name),
          DType::f32,
          {view.rows(), view.cols()},
          [view, rows = std::move(rows), factor](const EmitBytes& emit) {
            const MappedView access(view, Access::read);
            std::vector<float> row(static_cast<size_t>(view.cols()));
            for (const int64_t r : rows) {
              std::copy_n(access->row<float>(r), row.size(), row.begin());
              for (float& x : row)
                x = static_cast<float>(factor * x);
              emit(std::as_bytes(std::span(row)));
            }
          }};
}

AdapterSettings with_short_targets(AdapterSettings s, const std::vector<AdapterModule>& modules,
                                   const ParamTable& table) {
  std::map<std::string, std::set<int64_t>> layers;  // layers of each target, by its name inside the block
  std::set<int64_t> all;
  std::vector<std::string> outside;  // targets outside of the transformer blocks
  for (const AdapterModule& module : modules) {
    const int64_t layer = table[module.first].layer;
    const bool named = std::ranges::find(s.targets, module.name) != s.targets.end();
    if (layer < 0 && named) outside.push_back(module.name);
    if (layer < 0) continue;
    all.insert(layer);
    if (!named) continue;
    const std::string block = fmt::format(".{}.", layer);
    const size_t at = module.name.find(block);
    layers[at == std::string::npos ? module.name : module.name.substr(at + block.size())].insert(layer);
  }
  if (!std::ranges::all_of(layers, [&](const auto& entry) { return entry.second == all; })) return s;
  s.targets = std::move(outside);
  for (const auto& [name, unused] : layers)
    s.targets.push_back(name);
  return s;
}

}  // namespace gpt
