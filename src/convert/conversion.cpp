#include "convert/conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "convert/format_limits.h"
#include "convert/rope_rows.h"
#include "convert/value_check.h"
#include "io/llama2c.h"
#include "io/llmc.h"
#include "io/safetensors_writer.h"
#include "io/tensor_info.h"
#include "kernels/quant.h"
#include "model/families/checkpoints.h"
#include "model/families/gguf_keys.h"
#include "text/vocab_data.h"

namespace gpt {
namespace {

constexpr int64_t kLlmcPadding = 128;  // llm.c pads the vocabulary to a multiple of this number

// Reorders rows of heads from pairs (i, i + D/2) to pairs (2i, 2i + 1), or back. A bias counts as a matrix
// with one column.
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

// Returns true if the family's config.json has a key for this field.
bool has_key(const Family& family, const ConfigField& field) {
  const std::vector<ConfigKey> keys = all_keys(family);
  return keys.empty() || std::ranges::any_of(keys, [&](const ConfigKey& key) { return key.field == field; });
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
    const bool kept = stored == DType::bf16 || (stored == DType::f16 && options_.to != ModelFormat::llmc);
    options_.dtype = kept && options_.to != ModelFormat::llama2c ? stored : DType::f32;
  }
  if (options_.to == ModelFormat::hf) choose_hf();
  if (options_.to == ModelFormat::gguf) choose_gguf();
  if (options_.to == ModelFormat::llmc) choose_llmc();
  if (options_.to == ModelFormat::llama2c) choose_llama2c();
  list_moves();
}

void Conversion::choose_hf() {
  const ModelConfig config = hf_config(model_->config);
  if (config.rope_layout != model_->config.rope_layout) change_rope_layout(config.rope_layout);
  change_model(config);
  family_ = &export_family(model_->config);
  target_ = family_->name;
  naming_ = family_->namings[0];
}

void Conversion::choose_gguf() {
  family_ = &gguf_family(model_->config);
  if (!family_->gguf.optional_biases) change_model(with_biases(model_->config));
  target_ = std::string("GGUF ") + family_->gguf.architecture;
  naming_ = family_->gguf.naming;
}

void Conversion::choose_llmc() {
  require_llmc(model_->config);
  change_model(with_biases(model_->config));
  if (options_.dtype == DType::f16) fail_parameter("dtype", "expected fp32 or bf16 for llm.c, found fp16");
  target_ = "llm.c";
  naming_ = &kLlmcNaming;
}

void Conversion::choose_llama2c() {
  require_llama2c(model_->config);
  if (model_->config.rope_layout == RopeLayout::halves) change_rope_layout(RopeLayout::interleaved);
  if (options_.dtype != DType::f32)
    fail_parameter("dtype", "expected fp32 for llama2.c, found {}", dtype_name(*options_.dtype));
  target_ = "llama2.c";
  naming_ = &kLlama2cNaming;
}

// Changes the config. Keeps the weights of parameters that both configs have, and creates zeros for new
// biases.
void Conversion::change_model(const ModelConfig& config) {
  if (config == model_->config) return;
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
    made_.emplace_back(static_cast<size_t>(spec.size()) * sizeof(float), "zero biases");
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
  std::vector<GgufParamType> types(static_cast<size_t>(model_->table.count()), {dtype(), dtype()});
  if (options_.to == ModelFormat::gguf) types = gguf_types(*model_, gguf_options());
  for (int id = 0; id < model_->table.count(); ++id)
    moves_.push_back(move_of(id, types[static_cast<size_t>(id)].used));
}

TensorMove Conversion::move_of(int id, DType target) const {
  const ParamSpec& spec = model_->table[id];
  const FilePlace to = file_place(*naming_, model_->config, spec);
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
      options_.to == ModelFormat::gguf ? family_->gguf.rope_layout : model_->config.rope_layout;
  if (is_rotated(spec.role) && model_->config.position == Position::rope && before != after) {
    add("rows reordered for RoPE");
  }
  if (is_quantized(dtype()) && is_quantized(target) && target != dtype()) {
    add(fmt::format("instead of {}", dtype_name(dtype())));
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
  return {.dtype = dtype(), .name = options_.name, .chat_templates = options_.chat_templates};
}

int64_t Conversion::parameters() const {
  return model_->table.total();
}

int64_t Conversion::target_tensors() const {
  std::set<std::string_view> names;  // several parameters may share a tensor
  for (const TensorMove& move : moves_)
    names.insert(move.target);
  return std::ssize(names);
}

int64_t Conversion::bytes() const {
  int64_t total = 0;
  for (const TensorMove& move : moves_) {
    const int64_t cols = move.shape.size() == 2 ? move.shape[1] : 1;
    total += checked_size(move.shape, move.target) / cols * row_bytes(move.target_dtype, cols);
  }
  return total;
}

void Conversion::note_dropout(std::vector<std::string>& notes) const {
  const ModelConfig& c = model_->config;
  std::string lost;
  for (double ModelConfig::*const dropout :
       {&ModelConfig::embd_dropout, &ModelConfig::attn_dropout, &ModelConfig::resid_dropout}) {
    const bool is_kept = options_.to == ModelFormat::hf && has_key(*family_, dropout);
    if (is_kept || c.*dropout <= 0) continue;
    lost += fmt::format("{}{} = {}", lost.empty() ? "" : ", ", field_name(dropout), c.*dropout);
  }
  if (!lost.empty())
    notes.push_back(
        fmt::format("{} cannot store {}: set it again when you train the converted model", target_, lost));
}

// Some formats do not store which tokens end a text.
void Conversion::note_ends(std::vector<std::string>& notes) const {
  const ModelConfig& c = model_->config;
  const std::vector<int64_t>& ends = c.eos_token_ids;
  if (options_.to == ModelFormat::gguf) {
    if (const auto n = std::ssize(kEndKeys); std::ssize(ends) > n)
      notes.push_back(
          fmt::format("GGUF has keys for {} end-of-text tokens; this program also stops at the other "
                      "end-of-text tokens of the model, but llama.cpp does not: {}",
                      n, fmt::join(ends.begin() + n, ends.end(), ", ")));
    const bool bpe = options_.tokenizer != nullptr && options_.tokenizer->vocab_data().model == "gpt2";
    if (bpe && ends.empty() && options_.tokenizer->special_ids().eos < 0)
      notes.push_back(
          fmt::format("the model has no end-of-text token, so llama.cpp will stop at token 11, here {}; use "
                      "a tokenizer with <|endoftext|> to avoid this",
                      c.vocab_size > 11 && options_.tokenizer->vocab_size() > 11
                          ? printable_text(options_.tokenizer->token_bytes(11), 40)
                          : "none"));
    return;
  }
  std::vector<int64_t> assumed;
  if (options_.to == ModelFormat::llmc && c.vocab_size == 50257) assumed = {50256};
  if (options_.to == ModelFormat::llama2c && c.vocab_size > 2) assumed = {2};
  if (options_.to == ModelFormat::hf || ends == assumed) return;
  notes.push_back(fmt::format(
      "{} does not store the end-of-text token: the model has {}, programs that read the file use {}",
      target_, ends.empty() ? "none" : fmt::format("{}", fmt::join(ends, ", ")),
      assumed.empty() ? "none" : fmt::format("{}", assumed.front())));
}

void Conversion::note_fallbacks(std::vector<std::string>& notes) const {
  if (options_.to != ModelFormat::gguf) return;
  std::map<std::pair<DType, DType>, int> counts;
  const std::vector<GgufParamType> types = gguf_types(*model_, gguf_options());
  std::string_view last;  // parameters in the same tensor count once
  for (size_t id = 0; id < types.size(); ++id) {
    if (types[id].wanted == types[id].used || moves_[id].target == last) continue;
    last = moves_[id].target;
    ++counts[{types[id].wanted, types[id].used}];
  }
  for (const auto& [types, count] : counts)
    notes.push_back(
        fmt::format("{} {}, because the length of {} rows is not a multiple of the block size of {}",
                    format_amount(count, "matrix is stored as", "matrices are stored as"),
                    dtype_name(types.second), count == 1 ? "its" : "their", dtype_name(types.first)));
}

void Conversion::note_added_tokens(std::vector<std::string>& notes) const {
  if (options_.to != ModelFormat::gguf || options_.tokenizer == nullptr) return;
  const nlohmann::json root = nlohmann::json::parse(options_.tokenizer->to_json());
  std::vector<std::string> texts;
  for (const nlohmann::json& token : root["added_tokens"]) {
    if (token["lstrip"] == true || token["rstrip"] == true || token["single_word"] == true)
      texts.push_back(printable(token["content"].get<std::string>()));
  }
  if (texts.empty()) return;
  notes.push_back(fmt::format("GGUF cannot store lstrip, rstrip and single_word of the added tokens {}",
                              fmt::join(texts, ", ")));
}

std::vector<std::string> Conversion::notes() const {
  std::vector<std::string> notes;
  note_added_tokens(notes);
  note_fallbacks(notes);
  note_dropout(notes);
  note_ends(notes);
  return notes;
}

std::vector<std::string> Conversion::file_names() const {
  if (options_.to != ModelFormat::hf) return {};
  return model_file_names(*model_, weights_, {.dtype = dtype(), .shard_bytes = options_.shard_bytes});
}

void Conversion::check_range() const {
  for (size_t id = 0; id < origin_ids_.size(); ++id) {
    if (origin_ids_[id] >= 0) check_values(loaded_, origin_ids_[id], moves_[id].target_dtype);
  }
}

void Conversion::write(const std::string& path) const {
  check_range();
  const ModelConfig& c = model_->config;
  if (options_.to == ModelFormat::hf) {
    return write_model(path, *model_, weights_, {.dtype = dtype(), .shard_bytes = options_.shard_bytes});
  }
  if (options_.to == ModelFormat::gguf) {
    write_gguf(path, *model_, weights_, options_.tokenizer, gguf_options());
    return;
  }
  const std::vector<NamedTensor> tensors = named_weights(*model_, weights_, *naming_, dtype());
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
