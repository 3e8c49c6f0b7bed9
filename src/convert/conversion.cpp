#include "convert/conversion.h"

#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "convert/rope_rows.h"
#include "io/llama2c.h"
#include "io/llmc.h"
#include "io/safetensors_writer.h"
#include "io/tensor_info.h"

namespace gpt {
namespace {

constexpr int64_t kLlmcPadding = 128;  // llm.c's vocabularies are multiples of it

// Rows of heads from pairs (i, i + D/2) to pairs (2i, 2i + 1), or back. One bias is a matrix of one column.
void reorder_rows(const TensorView& from, const TensorView& to, int64_t head_dim, RopeLayout layout) {
  const bool matrix = from.rank == 2;
  const int64_t rows = matrix ? from.rows() : from.size();
  const auto bytes = static_cast<size_t>(row_bytes(from.dtype, matrix ? from.cols() : 1));
  const auto* in = from.as<const std::byte>();
  auto* out = to.as<std::byte>();
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t half = half_of_pair(r, head_dim);
    const auto [source, target] = layout == RopeLayout::interleaved ? std::pair(half, r) : std::pair(r, half);
    std::memcpy(out + static_cast<size_t>(target) * bytes, in + static_cast<size_t>(source) * bytes, bytes);
  }
}

void require(bool holds, const char* format, const char* what) {
  if (!holds) fail("this model cannot be written for {}: it needs {}", format, what);
}

std::string note_of(const FilePlace& from, const FilePlace& to, const ParamSpec& spec) {
  std::string note;
  const auto add = [&](const std::string& text) { note += (note.empty() ? "" : ", ") + text; };
  const auto rows = [&](const FilePlace& place) {
    const int64_t height = place.transposed ? place.file_shape[1] : place.file_shape[0];
    if (height == spec.shape[0]) return std::string();
    return fmt::format("rows {} to {}", place.first_row, place.first_row + spec.shape[0] - 1);
  };
  if (!rows(from).empty()) add("from " + rows(from));
  if (!rows(to).empty()) add("to " + rows(to));
  if (from.transposed != to.transposed) add("transposed");
  return note;
}

}  // namespace

Conversion::Conversion(const LoadedModel& loaded, const ConversionOptions& options)
    : loaded_(loaded),
      options_(options),
      model_(std::make_unique<Model>(loaded.model().config)),
      weights_(loaded.model().weights) {
  for (int id = 0; id < model_->table.count(); ++id)
    origin_ids_.push_back(id);
  if (!options_.dtype) {
    const DType stored = loaded.origins()[0].tensor->dtype;
    options_.dtype = stored == DType::bf16 || stored == DType::f16 ? stored : DType::f32;
  }
  switch (options_.to) {
    case ModelFormat::hf:
      choose_hf();
      break;
    case ModelFormat::gguf:
      choose_gguf();
      break;
    case ModelFormat::llmc:
      choose_llmc();
      break;
    case ModelFormat::llama2c:
      choose_llama2c();
      break;
  }
  list_moves();
}

void Conversion::choose_hf() {
  if (model_->config.rope_layout == RopeLayout::interleaved && model_->config.position == Position::rope) {
    ModelConfig halves = model_->config;
    halves.rope_layout = RopeLayout::halves;
    if (export_family(halves) != "gpt.cpp") change_rope_layout(RopeLayout::halves);
  }
  add_biases();
  target_ = export_family(model_->config);
  naming_ = export_naming(model_->config);
}

void Conversion::choose_gguf() {
  add_biases();
  const std::string architecture = gguf_architecture(model_->config);
  target_ = "GGUF " + architecture;
  naming_ = architecture == "gpt2" ? Naming::gguf_gpt2 : Naming::gguf_llama;
}

void Conversion::choose_llmc() {
  add_biases();
  const ModelConfig& c = model_->config;
  require(export_family(c) == "gpt2" && c.tie_embeddings && c.act == Act::gelu_tanh &&
              c.d_ff == 4 * c.n_embd && c.norm_eps == 1e-5,
          "llm.c", "GPT-2 with the tanh GELU, an MLP of 4 x n_embd, tied embeddings and norm_eps 1e-5");
  if (options_.dtype == DType::f16) fail_usage("--dtype: llm.c has fp32 and bf16, found fp16");
  target_ = "llm.c";
  naming_ = Naming::llmc;
}

void Conversion::choose_llama2c() {
  if (model_->config.rope_layout == RopeLayout::halves) {
    ModelConfig c = model_->config;
    require(export_family(c) == "llama", "llama2.c", "a Llama");
    change_rope_layout(RopeLayout::interleaved);
  }
  ModelConfig c = model_->config;
  c.rope_layout = RopeLayout::halves;
  require(export_family(c) == "llama" && !c.qkv_bias && !c.mlp_bias && c.q_dim() == c.n_embd &&
              c.norm_eps == 1e-5 && c.rope_theta == 10000 && c.rope_scaling.type == RopeScaling::Type::none,
          "llama2.c",
          "a Llama without biases, head_dim = n_embd / n_head, norm_eps 1e-5, rope_theta 10000 unscaled");
  options_.dtype = DType::f32;
  target_ = "llama2.c";
  naming_ = Naming::llama2c;
}

// A GPT-2 that lacks biases is one whose biases are zero.
void Conversion::add_biases() {
  ModelConfig biased = model_->config;
  if (biased.norm != NormKind::layer) return;
  biased.norm_bias = biased.qkv_bias = biased.out_bias = biased.mlp_bias = true;
  if (biased == model_->config || export_family(biased) != "gpt2") return;
  change_model(biased);
}

// Another config, with the weights that both have.
void Conversion::change_model(const ModelConfig& config) {
  const std::unique_ptr<Model> old = std::exchange(model_, std::make_unique<Model>(config));
  const std::vector<TensorView> weights = std::exchange(weights_, {});
  const std::vector<int> ids = std::exchange(origin_ids_, {});
  for (const ParamSpec& spec : model_->table.specs()) {
    const int id = old->table.find(spec.role, spec.layer);
    origin_ids_.push_back(id < 0 ? -1 : ids[static_cast<size_t>(id)]);
    if (id >= 0) {
      weights_.push_back(weights[static_cast<size_t>(id)]);
      continue;
    }
    made_.emplace_back(static_cast<size_t>(spec.size()) * sizeof(float), "biases of zero");
    weights_.push_back(make_view(made_.back().data(), DType::f32, spec.shape));
  }
}

void Conversion::change_rope_layout(RopeLayout layout) {
  ModelConfig config = model_->config;
  config.rope_layout = layout;
  change_model(config);
  for (int id = 0; id < model_->table.count(); ++id) {
    if (!is_rotated(model_->table[id].role)) continue;
    TensorView& view = weights_[static_cast<size_t>(id)];
    const int64_t cols = view.rank == 2 ? view.cols() : 1;
    made_.emplace_back(static_cast<size_t>(view.size() / cols * row_bytes(view.dtype, cols)),
                       "reordered rows");
    const TensorView to = make_view(made_.back().data(), view.dtype, view.dims());
    reorder_rows(view, to, config.head_dim, layout);
    view = to;
  }
}

void Conversion::list_moves() {
  std::vector<DType> types(static_cast<size_t>(model_->table.count()), dtype());
  if (options_.to == ModelFormat::gguf) types = gguf_types(*model_, gguf_options());
  for (int id = 0; id < model_->table.count(); ++id)
    moves_.push_back(move_of(id, types[static_cast<size_t>(id)]));
}

TensorMove Conversion::move_of(int id, DType target) const {
  const ParamSpec& spec = model_->table[id];
  const FilePlace to = file_place(naming_, model_->config, spec);
  GPT_ASSERT(!to.tensor.empty());
  const int origin_id = origin_ids_[static_cast<size_t>(id)];
  if (origin_id < 0) {
    return {"-", DType::f32, spec.shape, spec.name, spec.shape, to.tensor, target, to.file_shape, "zeros"};
  }
  const LoadedModel::Origin& origin = loaded_.origins()[static_cast<size_t>(origin_id)];
  std::string note = note_of(origin.place, to, spec);
  const auto add = [&](const std::string& text) { note += (note.empty() ? "" : ", ") + text; };
  const RopeLayout before = loaded_.model().config.rope_layout;
  const RopeLayout after =
      options_.to == ModelFormat::gguf ? RopeLayout::interleaved : model_->config.rope_layout;
  if (is_rotated(spec.role) && model_->config.position == Position::rope && before != after) {
    add("rows reordered for rope");
  }
  if (is_quantized(dtype()) && is_quantized(target) && target != dtype()) {
    add(fmt::format("not {}", dtype_name(dtype())));
  }
  return {origin.tensor->name,
          origin.tensor->dtype,
          origin.tensor->shape,
          spec.name,
          spec.shape,
          to.tensor,
          target,
          to.file_shape,
          std::move(note)};
}

GgufExportOptions Conversion::gguf_options() const {
  return {.dtype = dtype(), .name = options_.name, .chat_template = options_.chat_template};
}

int64_t Conversion::bytes() const {
  int64_t total = 0;
  for (const TensorMove& move : moves_) {
    const int64_t cols = move.shape.size() == 2 ? move.shape[1] : 1;
    total += checked_size(move.shape, move.target) / cols * row_bytes(move.target_dtype, cols);
  }
  return total;
}

void Conversion::write(const std::string& path) const {
  const ModelConfig& c = model_->config;
  if (options_.to == ModelFormat::hf) {
    return write_model(path, *model_, weights_, {.dtype = dtype(), .shard_bytes = options_.shard_bytes});
  }
  if (options_.to == ModelFormat::gguf) {
    write_gguf(path, *model_, weights_, options_.tokenizer, gguf_options());
    return;
  }
  const std::vector<NamedTensor> tensors = named_weights(*model_, weights_, naming_, dtype());
  if (options_.to == ModelFormat::llmc) {
    const int64_t padded = (c.vocab_size + kLlmcPadding - 1) / kLlmcPadding * kLlmcPadding;
    return write_llmc(path, {dtype(), c.n_ctx, c.vocab_size, c.n_layer, c.n_head, c.n_embd, padded}, tensors);
  }
  write_llama2c(path,
                {.dim = c.n_embd,
                 .hidden_dim = c.d_ff,
                 .n_layers = c.n_layer,
                 .n_heads = c.n_head,
                 .n_kv_heads = c.n_kv_head,
                 .vocab_size = c.vocab_size,
                 .seq_len = c.n_ctx,
                 .tied = c.tie_embeddings},
                tensors);
}

}  // namespace gpt
