#include "model/model_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "kernels/quant.h"
#include "model/families/family.h"
#include "model/model_source.h"
#include "model/presets.h"
#include "model/weight_pages.h"
#include "model/weight_source.h"
#include "tensor/convert.h"
#include "tensor/device.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

bool same_bytes(const TensorInfo& a, const TensorInfo& b) {
  return a.dtype == b.dtype && a.bytes.size() == b.bytes.size() &&
         (a.bytes.data() == b.bytes.data() ||
          std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0);
}

// Returns true for parameters that may be quantized: matrices that matmuls read, and the token embedding.
bool is_product_weight(const ParamSpec& spec) {
  return spec.shape.size() == 2 && spec.role != Role::wpe;
}

std::shared_ptr<WeightPages> pages_of(const TensorFiles& tensors) {
  std::vector<const MappedFile*> files;
  for (const auto& file : tensors.files()) {
    if (file->mapped() != nullptr) files.push_back(file->mapped());
  }
  return std::make_shared<WeightPages>(std::move(files));
}

std::vector<float> dequantized(DType dtype, const std::byte* bytes, int64_t n) {
  std::vector<float> numbers(static_cast<size_t>(n));
  dequantize_row(dtype, bytes, n, numbers.data());
  return numbers;
}

// Throws Error for a folder of gpt sweep, or of a gpt train run without a checkpoint. The message explains
// where a model can be found.
void require_model_in(const fs::path& folder) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return fs::exists(folder / name, ignored); };
  if (has("model.safetensors") || has("model.safetensors.index.json") || has("pytorch_model.bin")) return;
  if (has("sweep.json")) {
    fail("{} is the folder of a sweep, not a model; specify one of its runs, such as {}", folder.string(),
         (folder / "runs" / "NAME").string());
  }
  if (has("metrics.jsonl")) {
    fail(
        "{} is a training run without a checkpoint: gpt train writes one every --save-every steps, at the "
        "end of the run and on Ctrl-C; if the run was killed before its first checkpoint, restart it with "
        "gpt train",
        folder.string());
  }
}

using nlohmann::json;

constexpr const char *kOneFile = "model.safetensors", *kIndexFile = "model.safetensors.index.json";
constexpr const char *kConfigFile = "config.json", *kGenerationFile = "generation_config.json";

uint64_t bytes_of(const NamedTensor& tensor) {
  return static_cast<uint64_t>(checked_size(tensor.shape, tensor.name)) * dtype_size(tensor.dtype);
}

// Distributes the tensors in order over files of at most `shard_bytes` each. A larger tensor gets its own
// file.
std::vector<std::vector<NamedTensor>> cut_shards(std::vector<NamedTensor> tensors, uint64_t shard_bytes) {
  std::vector<std::vector<NamedTensor>> shards(1);
  uint64_t filled = 0;
  for (NamedTensor& tensor : tensors) {
    const uint64_t bytes = bytes_of(tensor);
    if (!shards.back().empty() && bytes > shard_bytes - std::min(filled, shard_bytes)) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

std::string shard_name(size_t i, size_t n) {
  return n == 1 ? kOneFile : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, n);
}

void write_tensors(const std::string& folder, std::vector<NamedTensor> tensors, uint64_t shard_bytes) {
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  const auto shards = cut_shards(std::move(tensors), shard_bytes);
  if (shards.size() == 1) return write_safetensors(folder + "/" + kOneFile, shards[0], metadata);
  uint64_t total = 0;
  json map = json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    write_safetensors(fmt::format("{}/{}", folder, name), shards[i], metadata);
    for (const NamedTensor& tensor : shards[i]) {
      map[tensor.name] = name;
      total += bytes_of(tensor);
    }
  }
  const json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  write_file_atomic(folder + "/" + kIndexFile, index.dump(2) + "\n");
}

// Emits the rows of several tensors, one tensor after the other. Quantized tensors are dequantized first.
void emit_parts(std::vector<TensorView> parts, bool transposed, DType dtype, const EmitBytes& emit) {
  std::vector<std::vector<float>> numbers;
  for (TensorView& part : parts) {
    if (!is_quantized(part.dtype)) continue;
    numbers.emplace_back(static_cast<size_t>(part.size()));
    dequantize_row(part.dtype, MappedView(part, Access::read)->data, part.size(), numbers.back().data());
    part = make_view(numbers.back().data(), DType::f32, part.dims());
  }
  emit_matrix(parts, transposed, dtype, emit);
}

// Converts weights of any floating-point or quantized dtype to the dtype of `numbers`. For quantized weights,
// `numbers` must be fp32.
void copy_numbers(const TensorView& weight, const TensorView& numbers) {
  const MappedView access(weight, Access::read);
  const TensorView& from = *access;
  if (is_quantized(from.dtype)) {
    const MappedView to(numbers, Access::write);
    for (int64_t r = 0; r < from.rows(); ++r)
      dequantize_row(from.dtype, from.slice_rows(r, 1).data, from.cols(), to->row<float>(r));
    return;
  }
  RawMatrix matrix{.bytes = {static_cast<const std::byte*>(from.data), extent(from)},
                   .dtype = from.dtype,
                   .rows = from.rank == 2 ? from.rows() : from.size(),
                   .cols = from.rank == 2 ? from.cols() : 1};
  if (from.transposed) {
    matrix.transposed = true;
    matrix.rows = from.cols();
    matrix.cols = from.ld;
  }
  convert_matrix(matrix, numbers);
}

// Returns the source of the tensor shapes for error messages: "the metadata" or the name of the config file.
std::string described_in(const ModelSource& source) {
  return source.config_path == source.path ? "the metadata"
                                           : fs::path(source.config_path).filename().string();
}

}  // namespace

std::string resolve_model_path(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    fail_not_found(
        "cannot find the model {}: no such file or folder{}", path,
        is_preset(path)
            ? "; the preset of this name has no weights (train a model with gpt train --preset " + path + ")"
            : "");
  }
  const fs::path best = fs::path(path) / "best", last = fs::path(path) / "last";
  const bool has_last = fs::is_directory(last, ignored);
  const bool is_run = has_last || fs::exists(fs::path(path) / "metrics.jsonl", ignored);
  if (is_run && fs::is_directory(best, ignored) && !fs::is_empty(best, ignored)) return best.string();
  if (has_last) return last.string();
  if (fs::is_directory(path, ignored)) require_model_in(path);
  return path;
}

std::string config_note(const std::string& model) {
  const std::string path = model + "/config.json";
  if (!path_exists(path)) return "";
  try {
    const nlohmann::json object = read_json_file(path);
    const Family* const family = find_family(object.value("model_type", ""));
    return family == nullptr || family->note == nullptr ? "" : family->note(object);
  } catch (const std::exception&) {  // loading the model reports the error
    return "";
  }
}

LoadedModel::~LoadedModel() {
  for (const auto& [data, bytes] : mapped_)
    device_->unmap(data, bytes);
}

LoadedModel::LoadedModel(const std::string& path, std::optional<DType> dtype, MatrixOrder order,
                         const ShapeHints& hints, Device* device)
    : LoadedModel(open_model_source(resolve_model_path(path), hints), dtype, order, device) {}

LoadedModel::LoadedModel(ModelSource source, std::optional<DType> dtype, MatrixOrder order, Device* device)
    : source_(std::make_unique<ModelSource>(std::move(source))),
      device_(device != nullptr && device->is_host() ? nullptr : device) {
  const ModelSource& s = *source_;
  // Check n_layer before any allocation that grows with n_layer. Every layer has at least six tensors in the
  // file.
  const auto n_tensors = static_cast<int64_t>(s.tensors->tensors().size());
  if (s.config.n_layer > n_tensors) {
    fail("{}: n_layer = {} is too large for the {} tensors in the file", s.config_path, s.config.n_layer,
         n_tensors);
  }
  try {
    model_ = std::make_unique<Model>(s.config);
  } catch (const Error& error) {
    fail_because(error, "{}: {}", s.config_path, error.what());
  }
  find_naming();
  for (int id = 0; id < model_->table.count(); ++id)
    map_weight(id, dtype, order);
  check_unused();
  if (device_ != nullptr) {
    map_to_device();
  } else {
    model_->pages = pages_of(*s.tensors);
  }
}

void LoadedModel::map_to_device() {
  for (TensorView& view : model_->weights) {
    if (view.device == device_) continue;  // already in device memory, because it was converted
    const std::span<const std::byte> bytes(view.as<const std::byte>(), extent(view));
    view.data = device_->map(bytes);
    view.device = device_;
    mapped_.emplace_back(view.as<std::byte>(), bytes);
  }
}

const std::string& LoadedModel::folder() const {
  return source_->folder;
}

std::vector<std::string> LoadedModel::paths() const {
  std::vector<std::string> paths = {source_->path, source_->config_path};
  for (const auto& file : source_->tensors->files())
    paths.push_back(file->path());
  return paths;
}

const GgufFile* LoadedModel::gguf() const {
  return source_->gguf;
}

const TensorInfo* LoadedModel::find(std::string name) const {
  if (prefix_missing_) name = without_base_prefix(name);
  return source_->tensors->find(name);
}

void LoadedModel::find_naming() {
  const ModelConfig& c = model_->config;
  const auto find = [&](const std::string& name) { return source_->tensors->find(name); };
  naming_ =
      source_->naming != nullptr ? source_->naming : detect_naming(model_->table, c, find, prefix_missing_);
  if (naming_ == nullptr) {
    fail(
        "{}: the tensor names do not match any supported model family; expected names such as \"{}\" "
        "according to {}",
        source_->path, file_place(*export_family(c).namings[0], c, model_->table[0]).tensor,
        described_in(*source_));
  }
}

void LoadedModel::map_weight(int id, std::optional<DType> wanted, MatrixOrder order) {
  const ParamSpec& spec = model_->table[id];
  const FilePlace place = file_place(*naming_, model_->config, spec);
  const TensorInfo* tensor = place.tensor.empty() ? nullptr : find(place.tensor);
  if (tensor == nullptr) {
    fail("{}: the tensor \"{}\" is missing; {} requires it", source_->path,
         place.tensor.empty() ? spec.name : place.tensor, described_in(*source_));
  }
  if (tensor->shape != place.file_shape) {
    fail("{}: tensor \"{}\": expected shape {} according to {}, found {}", source_->path, place.tensor,
         shape_string(place.file_shape), described_in(*source_), shape_string(tensor->shape));
  }
  const bool blocks = is_quantized(tensor->dtype);
  if (!is_float(tensor->dtype) && !blocks) {
    fail("{}: tensor \"{}\": expected a floating-point dtype, found {}", source_->path, place.tensor,
         dtype_name(tensor->dtype));
  }
  origins_.push_back({tensor, place});
  const bool as_stored = spec.shape.size() == 2 && tensor->dtype != DType::f64 && !blocks;
  const DType dtype = wanted.value_or(as_stored ? tensor->dtype : DType::f32);
  const bool usable = tensor->dtype == dtype || (blocks && dtype == DType::f32 && is_product_weight(spec));
  const bool turned = place.transposed && order == MatrixOrder::rows;
  if (!usable || !is_aligned(*tensor) || turned) return convert_weight(*tensor, place, spec, dtype);
  TensorView view = make_view(const_cast<std::byte*>(tensor->bytes.data()), tensor->dtype, spec.shape);
  if (place.transposed) {
    view.transposed = true;
    view.ld = place.file_shape[1];
  }
  const int64_t begin = view.rank == 2 ? view.offset(place.first_row, 0) : place.first_row;
  view.data = view.as<std::byte>() + row_bytes(tensor->dtype, begin);
  model_->weights.push_back(view);
}

void LoadedModel::convert_weight(const TensorInfo& tensor, const FilePlace& place, const ParamSpec& spec,
                                 DType dtype) {
  copies_.emplace_back(static_cast<size_t>(spec.size()) * dtype_size(dtype), "a converted weight", device_);
  model_->weights.push_back(copies_.back().view(0, dtype, spec.shape));
  copied_bytes_ += static_cast<int64_t>(copies_.back().size());
  RawMatrix from{.bytes = tensor.bytes,
                 .dtype = tensor.dtype,
                 .rows = place.file_shape[0],
                 .cols = place.file_shape.size() == 2 ? place.file_shape[1] : 1,
                 .transposed = place.transposed,
                 .first_row = place.first_row};
  std::vector<float> numbers;
  if (is_quantized(tensor.dtype)) {
    numbers = dequantized(tensor.dtype, tensor.bytes.data(), checked_size(tensor.shape, tensor.name));
    from.bytes = std::as_bytes(std::span(numbers));
    from.dtype = DType::f32;
  }
  convert_matrix(from, model_->weights.back());
}

void LoadedModel::check_unused() {
  std::set<const TensorInfo*> used;
  for (const Origin& origin : origins_)
    used.insert(origin.tensor);
  const TensorInfo* wte = origins_[0].tensor;
  for (const TensorInfo* tensor : source_->tensors->tensors()) {
    if (used.count(tensor) > 0) continue;
    const bool tied_head = model_->config.tie_embeddings && tensor->name == head_name(*naming_);
    if (is_buffer_name(tensor->name)) {
      ignored_.push_back({tensor, "a buffer, not a parameter"});
    } else if (tied_head && same_bytes(*tensor, *wte)) {
      ignored_.push_back({tensor, "identical to the token embedding"});
    } else if (is_head_tensor(tensor->name)) {
      ignored_.push_back({tensor, kTaskHead});
    } else {
      fail("{}: the tensor {} does not belong to this architecture{}", source_->path, printable(tensor->name),
           tied_head ? "; it differs from the embedding, so set tie_word_embeddings to false" : "");
    }
  }
  for (const auto& file : source_->tensors->files()) {
    for (const UnsupportedTensor& tensor : file->unsupported()) {
      if (is_buffer_name(tensor.name)) continue;
      fail("{}: the tensor {} of type {} does not belong to this architecture", file->path(),
           printable(tensor.name), tensor.dtype);
    }
  }
}

void LoadedModel::copy_to(const ParamBuffer& weights, const std::function<void(int id)>& copied) const {
  for (int id = 0; id < model_->table.count(); ++id) {
    const TensorView &from = model_->weights[static_cast<size_t>(id)], to = weights[id];
    copy_numbers(from, from.rank == 2 ? to.slice_rows(0, from.rows()) : to);
    for (const auto& file : source_->tensors->files()) {
      if (file->mapped() != nullptr) file->mapped()->release(origins_[static_cast<size_t>(id)].tensor->bytes);
    }
    if (copied) copied(id);
  }
}

bool is_head_tensor(std::string_view name) {
  return name == "score.weight" || name.starts_with("multiple_choice_head.summary.");
}

namespace {

// Computes w += scale B A, where row 0 of w corresponds to row `row` of B.
void add_product(const TensorView& w, const Adapter& adapter, const LowRank& p, int64_t row) {
  const MappedView to(w, Access::read_write), a(adapter.a(p), Access::read), b(adapter.b(p), Access::read);
  for (int64_t r = 0; r < w.rows(); ++r) {
    for (int64_t c = 0; c < w.cols(); ++c) {
      double sum = 0;
      for (int64_t k = 0; k < p.rank; ++k)
        sum += double{b->row<float>(row + r)[k]} * a->row<float>(k)[c];
      to->row<float>(r)[c] += static_cast<float>(p.scale * sum);
    }
  }
}

}  // namespace

int64_t LoadedModel::merge(const Adapter& adapter) {
  int64_t blocks = 0;
  if (model_->config.tie_embeddings && adapter.find(model_->table.find(Role::wte)) != nullptr)
    fail_unsupported(
        "the adapter cannot be merged: it changes lm_head, which shares its matrix with the token embedding "
        "in this model, so the merge would also change the embedding; use the adapter without merging it, "
        "with `adapter`");
  for (const LowRank& p : adapter.products) {
    int64_t row = 0;
    for (int id = p.first; id <= p.last; ++id) {
      TensorView& weight = model_->weights[static_cast<size_t>(id)];
      GPT_ASSERT(!weight.transposed);
      copies_.emplace_back(static_cast<size_t>(weight.size()) * sizeof(float), "merged weights", device_);
      const TensorView merged = copies_.back().view(0, DType::f32, model_->table[id].shape);
      blocks += is_quantized(weight.dtype);
      copy_numbers(weight, merged);
      add_product(merged, adapter, p, row);
      row += merged.rows();
      weight = merged;
      model_->packed->weights_changed(id);
    }
  }
  return blocks;
}

void LoadedModel::average(const std::vector<std::unique_ptr<LoadedModel>>& others) {
  for (const auto& other : others) {
    if (!(other->model().config == model_->config))
      fail(
          "{}: expected the same config as {}, found a different one; average only checkpoints of the same "
          "model",
          other->paths().front(), paths().front());
  }
  const auto n = static_cast<double>(others.size() + 1);
  for (int id = 0; id < model_->table.count(); ++id) {
    TensorView& weight = model_->weights[static_cast<size_t>(id)];
    const auto& shape = model_->table[id].shape;
    const auto read = [&](const TensorView& from, const TensorView& numbers) {
      if (is_quantized(from.dtype))
        fail("{}: expected floating-point weights to average, found {}", model_->table[id].name,
             dtype_name(from.dtype));
      copy_numbers(from, numbers);
    };
    copies_.emplace_back(static_cast<size_t>(weight.size()) * sizeof(float), "averaged weights", device_);
    const TensorView mean = copies_.back().view(0, DType::f32, shape);
    read(weight, mean);
    const auto numbers = [](const TensorView& t) {
      return std::span(t.as<float>(), static_cast<size_t>(t.size()));
    };
    const MappedView to(mean, Access::read_write);
    std::vector<double> sums(numbers(*to).begin(), numbers(*to).end());
    Buffer one(static_cast<size_t>(weight.size()) * sizeof(float), "weights to average", device_);
    for (const auto& other : others) {
      const TensorView its = one.view(0, DType::f32, shape);
      read(other->model().weights[static_cast<size_t>(id)], its);
      const MappedView from(its, Access::read);
      for (size_t i = 0; i < sums.size(); ++i)
        sums[i] += double{numbers(*from)[i]};
    }
    for (size_t i = 0; i < sums.size(); ++i)
      numbers(*to)[i] = static_cast<float>(sums[i] / n);
    weight = mean;
    model_->packed->weights_changed(id);
  }
}

ModelConfig with_biases(ModelConfig config) {
  if (config.norm == NormKind::layer)
    config.norm_bias = config.qkv_bias = config.out_bias = config.mlp_bias = true;
  return config;
}

ModelConfig hf_config(ModelConfig config) {
  if (config.rope_layout == RopeLayout::interleaved && config.position == Position::rope) {
    ModelConfig halves = config;
    halves.rope_layout = RopeLayout::halves;
    if (!export_family(halves).keys.empty()) config = halves;
  }
  const ModelConfig biased = with_biases(config);
  return &export_family(biased) == &family::gpt2 ? biased : config;
}

std::vector<NamedTensor> named_weights(const Model& model, std::span<const TensorView> weights,
                                       const Naming& naming, DType dtype) {
  const ModelConfig& c = model.config;
  // A fused tensor is written once, from all of its parts.
  std::vector<NamedTensor> tensors;
  for (int id = 0; id < model.table.model_count(); ++id) {
    const FilePlace place = file_place(naming, c, model.table[id]);
    if (place.first_row > 0) continue;  // a later part of a tensor that is already in the list
    std::vector<TensorView> parts;
    for (int other = id; other < model.table.model_count(); ++other) {
      if (model.table[other].layer != model.table[id].layer) break;
      if (file_place(naming, c, model.table[other]).tensor == place.tensor) {
        parts.push_back(weights[static_cast<size_t>(other)]);
      }
    }
    const int64_t layer = WeightSource::layer_of(model.table[id], c.n_layer);
    tensors.push_back(
        {place.tensor, dtype, place.file_shape,
         [parts, dtype, transposed = place.transposed, layer, source = model.source](const EmitBytes& emit) {
           if (source != nullptr) source->begin(layer, layer);
           emit_parts(parts, transposed, dtype, emit);
         }});
  }
  return tensors;
}

std::vector<std::string> model_file_names(const Model& model, std::span<const TensorView> weights,
                                          const WriteOptions& options) {
  const Naming& naming = *export_family(model.config).namings[0];
  const auto shards = cut_shards(named_weights(model, weights, naming, options.dtype), options.shard_bytes);
  std::vector<std::string> names = {kConfigFile, kGenerationFile};
  for (size_t i = 0; i < shards.size(); ++i)
    names.push_back(shard_name(i, shards.size()));
  if (shards.size() > 1) names.emplace_back(kIndexFile);
  return names;
}

void write_model(const std::string& folder, const Model& model, std::span<const TensorView> weights,
                 const WriteOptions& options) {
  const ModelConfig& c = model.config;
  const Naming& naming = *export_family(c).namings[0];
  std::vector<NamedTensor> tensors = named_weights(model, weights, naming, options.dtype);
  json config = export_config(c, options.dtype);
  if (options.head != nullptr) {
    std::ranges::copy(options.head->tensors, std::back_inserter(tensors));
    config.update(json::parse(options.head->config));
  }
  write_tensors(folder, std::move(tensors), options.shard_bytes);
  write_file_atomic(folder + "/" + kConfigFile, config.dump(2) + "\n");
  json generation = {{"_from_model_config", true}};
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    if (!config[key].is_null()) generation[key] = config[key];
  }
  write_file_atomic(folder + "/" + kGenerationFile, generation.dump(2) + "\n");
}

}  // namespace gpt
