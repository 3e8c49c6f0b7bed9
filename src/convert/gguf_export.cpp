#include "convert/gguf_export.h"

#include "base/ranges.h"
#include "convert/format_limits.h"
#include "convert/gguf_vocab.h"
#include "convert/rope_rows.h"
#include "io/gguf_writer.h"
#include "kernels/quant.h"
#include "model/families/gguf_keys.h"
#include "model/rope_table.h"
#include "tensor/convert.h"
#include "tensor/device.h"

namespace gpt {
namespace {

// Returns the value of general.file_type for the dtype of most matrices.
uint32_t file_type(DType dtype) {
  using enum DType;
  constexpr std::pair<DType, uint32_t> kTypes[] = {{f32, 0},   {f16, 1},   {bf16, 32}, {q4_0, 2},
                                                   {q4_1, 3},  {q8_0, 7},  {q5_0, 8},  {q5_1, 9},
                                                   {q4_k, 14}, {q5_k, 16}, {q6_k, 18}, {iq4_nl, 25}};
  const auto* found = find_by(kTypes, &std::pair<DType, uint32_t>::first, dtype);
  GPT_ASSERT(found != nullptr);
  return found->second;
}

// Returns a dtype whose quantization blocks fit rows of n elements. llama.cpp chooses the same dtypes.
DType fitting(DType dtype, int64_t n) {
  if (n % block_size(dtype).elements == 0) return dtype;
  if (n % kQuantBlock != 0) return DType::f16;
  switch (dtype) {
    case DType::q4_k:
      return DType::q5_0;
    case DType::q5_k:
      return DType::q5_1;
    default:
      return DType::q8_0;
  }
}

// A parameter that provides some rows of a file tensor. A vector is a matrix with one column.
struct Part {
  TensorView view;
  int64_t pair_rows = 0;  // rows per head if halves become pairs; 0: rows keep their order
};

void emit_row(DType dtype, const TensorView& view, int64_t r, int64_t cols, const EmitBytes& emit) {
  std::vector<float> x(static_cast<size_t>(cols));
  std::vector<std::byte> row(static_cast<size_t>(row_bytes(dtype, cols)));
  if (is_quantized(dtype) && view.dtype == dtype)
    return emit({MappedView(view.slice_rows(r, 1), Access::read)->as<const std::byte>(), row.size()});
  read_row(view, r, cols, x.data());
  if (is_quantized(dtype)) {
    quantize_row(dtype, x.data(), cols, row.data());
  } else {
    convert_matrix({.bytes = std::as_bytes(std::span(x)), .dtype = DType::f32, .rows = 1, .cols = cols},
                   make_view(row.data(), dtype, {1, cols}));
  }
  emit(row);
}

void emit_parts(DType dtype, const std::vector<Part>& parts, const EmitBytes& emit) {
  for (const Part& part : parts) {
    const bool vector = part.view.rank == 1;
    const int64_t rows = vector ? part.view.size() : part.view.rows(), cols = vector ? 1 : part.view.cols();
    for (int64_t r = 0; r < rows; ++r)
      emit_row(dtype, part.view, part.pair_rows > 0 ? half_of_pair(r, part.pair_rows) : r, cols, emit);
  }
}

class Export {
 public:
  Export(const Model& model, std::span<const TensorView> weights, const GgufExportOptions& options)
      : model_(model), c_(model.config), weights_(weights), options_(options), gguf_(gguf_family(c_).gguf) {}

  GgufMetadata metadata(const Tokenizer* tokenizer) const {
    GgufMetadata m;
    m.add("general.architecture", gguf_.architecture);
    if (!options_.name.empty()) m.add("general.name", options_.name);
    m.add("general.file_type", file_type(options_.dtype));
    if (is_quantized(options_.dtype)) m.add("general.quantization_version", uint32_t{2});
    add_shape(m);
    if (c_.position == Position::rope) add_rope(m);
    if (tokenizer != nullptr) {
      VocabData data = tokenizer->vocab_data();
      add_model_ids(data.special);
      add_vocab(m, std::move(data), c_.vocab_size);
    } else {
      m.add("tokenizer.ggml.model", "no_vocab");
      SpecialIds ids;
      add_model_ids(ids);
      add_special_ids(m, ids);
    }
    add_more_ends(m);
    add_chat_templates(m, options_.chat_templates);
    return m;
  }

  std::vector<NamedTensor> tensors() const {
    std::vector<NamedTensor> list;
    if (c_.rope_scaling.type == RopeScaling::Type::llama3) list.push_back(rope_factors());
    for (int id = 0; id < model_.table.count(); ++id) {
      const ParamSpec& spec = model_.table[id];
      const FilePlace place = file_place(*gguf_.naming, c_, spec);
      if (place.first_row > 0) continue;  // a later part of a tensor that is already in the list
      const DType dtype = type_of(spec).used;
      list.push_back(
          {place.tensor, dtype, place.file_shape,
           [dtype, parts = parts_of(id)](const EmitBytes& emit) { emit_parts(dtype, parts, emit); }});
    }
    return list;
  }

  GgufParamType type_of(const ParamSpec& spec) const {
    if (spec.shape.size() < 2 || spec.role == Role::wpe) return {DType::f32, DType::f32};
    DType wanted = options_.dtype;
    const bool head = spec.role == Role::head_weight || (spec.role == Role::wte && c_.tie_embeddings);
    if (head && is_quantized(wanted) && wanted != DType::q8_0) wanted = DType::q6_k;
    return {wanted, is_quantized(wanted) ? fitting(wanted, spec.shape[1]) : wanted};
  }

 private:
  std::string key(const char* what) const { return fmt::format("{}.{}", gguf_.architecture, what); }
  void add(GgufMetadata& m, const char* what, int64_t value) const {
    m.add(key(what), static_cast<uint32_t>(value));
  }

  void add_shape(GgufMetadata& m) const {
    add(m, "context_length", c_.n_ctx);
    add(m, "embedding_length", c_.n_embd);
    add(m, "block_count", c_.n_layer);
    add(m, "feed_forward_length", c_.d_ff);
    add(m, "attention.head_count", c_.n_head);
    add(m, "attention.head_count_kv", c_.n_kv_head);
    const bool rms = c_.norm == NormKind::rms;
    m.add(key(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"),
          static_cast<float>(c_.norm_eps));
    add(m, "vocab_size", c_.vocab_size);
  }

  void add_rope(GgufMetadata& m) const {
    add(m, "rope.dimension_count", c_.head_dim);
    m.add(key("rope.freq_base"), static_cast<float>(c_.rope_theta));
    if (c_.head_dim * c_.n_head != c_.n_embd) {
      add(m, "attention.key_length", c_.head_dim);
      add(m, "attention.value_length", c_.head_dim);
    }
    const RopeScaling& scaling = c_.rope_scaling;
    if (scaling.type == RopeScaling::Type::llama3) {
      add(m, "rope.scaling.original_context_length", scaling.original_n_ctx);
      m.add(kRopeFactorKey, static_cast<float>(scaling.factor));
      m.add(kRopeLowKey, static_cast<float>(scaling.low_freq_factor));
      m.add(kRopeHighKey, static_cast<float>(scaling.high_freq_factor));
    }
    if (scaling.type != RopeScaling::Type::linear) return;
    m.add(key("rope.scaling.type"), "linear");
    m.add(key("rope.scaling.factor"), static_cast<float>(scaling.factor));
  }

  // Adds all end-of-text tokens except the first, such as an end-of-turn token.
  void add_more_ends(GgufMetadata& m) const {
    const std::vector<int64_t>& ends = c_.eos_token_ids;
    for (size_t i = 1; i < std::min(ends.size(), std::size(kEndKeys)); ++i)
      m.add(kEndKeys[i], static_cast<uint32_t>(ends[i]));
    if (ends.size() <= std::size(kEndKeys)) return;
    const std::vector<int32_t> all(ends.begin(), ends.end());
    m.add(kAllEndsKey, all);
  }

  // The ids in the model's config take precedence, because generation stops at them.
  void add_model_ids(SpecialIds& ids) const {
    if (c_.bos_token_id >= 0) ids.bos = c_.bos_token_id;
    if (!c_.eos_token_ids.empty()) ids.eos = c_.eos_token_ids.front();
  }

  // Returns the factors by which the RoPE frequencies are divided.
  NamedTensor rope_factors() const {
    ModelConfig plain = c_;
    plain.rope_scaling = {};
    const std::vector<double> before = rope_frequencies(rope_of(plain)),
                              after = rope_frequencies(rope_of(c_));
    std::vector<float> factors;
    for (size_t i = 0; i < before.size(); ++i)
      factors.push_back(static_cast<float>(before[i] / after[i]));
    return {kRopeFactors, DType::f32, {std::ssize(factors)}, [factors](const EmitBytes& emit) {
              emit(std::as_bytes(std::span(factors)));
            }};
  }

  // Returns the parameters that are stored in the same tensor as `id`, starting with `id`.
  std::vector<Part> parts_of(int id) const {
    std::vector<Part> parts;
    const std::string tensor = file_place(*gguf_.naming, c_, model_.table[id]).tensor;
    for (int other = id; other < model_.table.count() && model_.table[other].layer == model_.table[id].layer;
         ++other) {
      const ParamSpec& spec = model_.table[other];
      if (file_place(*gguf_.naming, c_, spec).tensor != tensor) continue;
      const bool pairs = c_.position == Position::rope && c_.rope_layout == RopeLayout::halves &&
                         gguf_.rope_layout == RopeLayout::interleaved && is_rotated(spec.role);
      parts.push_back({weights_[static_cast<size_t>(other)], pairs ? c_.head_dim : 0});
    }
    return parts;
  }

  const Model& model_;
  const ModelConfig& c_;
  std::span<const TensorView> weights_;
  const GgufExportOptions& options_;
  const Gguf& gguf_;
};

}  // namespace

void read_row(const TensorView& weight, int64_t r, int64_t cols, float* x) {
  const MappedView row(weight.rank == 1 ? weight.slice_cols(r, cols) : weight.slice_rows(r, 1), Access::read);
  if (is_quantized(weight.dtype)) return dequantize_row(weight.dtype, row->data, cols, x);
  convert_matrix({.bytes = {row->as<const std::byte>(), static_cast<size_t>(cols) * dtype_size(weight.dtype)},
                  .dtype = weight.dtype,
                  .rows = 1,
                  .cols = cols},
                 make_view(x, {1, cols}));
}

std::vector<GgufParamType> gguf_types(const Model& model, const GgufExportOptions& options) {
  const Export file(model, {}, options);
  return transformed(model.table.specs(), [&](const ParamSpec& spec) { return file.type_of(spec); });
}

void write_gguf(const std::string& path, const Model& model, std::span<const TensorView> weights,
                const Tokenizer* tokenizer, const GgufExportOptions& options) {
  const ModelConfig& c = model.config;
  const Gguf& gguf = gguf_family(c).gguf;
  if (!gguf.optional_biases && c.norm == NormKind::layer &&
      !(c.norm_bias && c.qkv_bias && c.out_bias && c.mlp_bias)) {
    fail_unsupported(
        "cannot write this model as GGUF: the architecture {} requires all biases; add zeros for the missing "
        "biases",
        gguf.architecture);
  }
  const Export file(model, weights, options);
  const std::vector<NamedTensor> tensors = file.tensors();
  write_gguf_file(path, file.metadata(tokenizer), tensors);
}

}  // namespace gpt
