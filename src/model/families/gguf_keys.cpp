#include "model/families/gguf_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "model/json_value.h"
#include "model/rope_table.h"

namespace gpt {
namespace {

constexpr const char* kArchitectureKey = "general.architecture";

// Metadata keys without the prefix of the architecture. The keys in kRead are read; the keys in kHarmless
// have no effect.
constexpr std::string_view kRead[] = {"context_length",
                                      "embedding_length",
                                      "block_count",
                                      "feed_forward_length",
                                      "vocab_size",
                                      "attention.head_count",
                                      "attention.head_count_kv",
                                      "attention.key_length",
                                      "attention.value_length",
                                      "attention.layer_norm_epsilon",
                                      "attention.layer_norm_rms_epsilon",
                                      "rope.dimension_count",
                                      "rope.freq_base",
                                      "rope.scaling.type",
                                      "rope.scaling.factor",
                                      "rope.scaling.original_context_length",
                                      "rope.scale_linear",
                                      "expert_count",
                                      "expert_used_count"};
// llama.cpp does not use sliding windows in these architectures.
constexpr std::string_view kHarmless[] = {"rope.scaling.finetuned", "tensor_data_layout",
                                          "attention.sliding_window"};

// A key that only other models of the architecture use, and the value with which it has no effect.
struct Neutral {
  std::string_view key;
  double value;
};
constexpr Neutral kNeutral[] = {{"use_parallel_residual", 0},
                                {"attention.causal", 1},
                                {"attention.max_alibi_bias", 0},
                                {"attention.clamp_kqv", 0},
                                {"rope.scaling.attn_factor", 1},
                                {"logit_scale", 1},
                                {"embedding_scale", 1},
                                {"residual_scale", 1},
                                {"leading_dense_block_count", 0},
                                {"nextn_predict_layers", 0},
                                {"pooling_type", 0}};

class ConfigReader {
 public:
  explicit ConfigReader(const GgufFile& file)
      : file_(file),
        family_(gguf_family(file)),
        prefix_(std::string(family_.gguf.architecture) + "."),
        c_(family_config(family_)) {}

  ModelConfig read() {
    check_keys();
    if (c_.position == Position::rope) c_.rope_layout = family_.gguf.rope_layout;
    read_shape();
    read_heads();
    read_norm();
    if (c_.position == Position::rope) read_rope();
    read_switches();
    read_special_ids();
    return c_;
  }

 private:
  std::string key(const char* what) const { return prefix_ + what; }
  std::optional<int64_t> integer(const char* what) const { return file_.integer(key(what)); }
  std::optional<double> number(const char* what) const { return file_.number(key(what)); }
  bool has_tensor(const std::string& tensor) const { return file_.find(tensor) != nullptr; }

  void check_keys() const {
    for (const GgufEntry& e : file_.metadata()) {
      if (e.key.starts_with(prefix_)) check_key(e, e.key.substr(prefix_.size()));
    }
    if (integer("expert_count").value_or(0) != 0) {
      fail_unsupported("{}: mixture-of-experts models are not supported, found {} = {}", file_.path(),
                       key("expert_count"), *integer("expert_count"));
    }
    const std::string_view kind = file_.string("general.type").value_or("model");
    if (kind != "model") fail("{}: expected a model, found general.type = {}", file_.path(), printable(kind));
    const int64_t parts = file_.integer("split.count").value_or(1);
    if (parts > 1) {
      fail("{} is one of {} files of a split model; merge the files first with llama-gguf-split --merge",
           file_.path(), parts);
    }
  }

  void check_key(const GgufEntry& e, std::string_view rest) const {
    const auto is = [&](std::string_view known) { return rest == known; };
    if (std::ranges::any_of(kRead, is) || std::ranges::any_of(kHarmless, is)) return;
    if (rest.starts_with("expert_")) return;  // settings of experts, which this model does not have
    const auto neutral = std::ranges::find_if(kNeutral, [&](const Neutral& n) { return n.key == rest; });
    if (neutral == std::end(kNeutral))
      fail_unsupported("{}: the setting {} is not supported", file_.path(), printable(e.key));
    const double value =
        e.type == GgufType::boolean ? static_cast<double>(*file_.boolean(e.key)) : *file_.number(e.key);
    if (value == neutral->value) return;
    fail_unsupported("{}: the setting {} = {} is not supported; expected {}", file_.path(), printable(e.key),
                     value, neutral->value);
  }

  void read_shape() {
    c_.n_ctx = file_.need_integer(key("context_length"));
    c_.n_embd = file_.need_integer(key("embedding_length"));
    c_.n_layer = file_.need_integer(key("block_count"));
    c_.d_ff = file_.need_integer(key("feed_forward_length"));
    const TensorInfo* embedding = file_.find("token_embd.weight");
    if (embedding == nullptr || embedding->shape.size() != 2) {
      fail("{}: expected a matrix \"token_embd.weight\"", file_.path());
    }
    c_.vocab_size = embedding->shape[0];
  }

  // Returns an integer that is stored as a single number or as a list with one number per layer. Throws Error
  // unless all numbers of the list are equal.
  int64_t same_in_all_layers(const char* what) const {
    const GgufEntry* e = file_.entry(key(what));
    if (e == nullptr || !e->is_array) return file_.need_integer(key(what));
    const std::vector<int64_t> all = *file_.integers(key(what));
    if (all.empty() || std::ranges::any_of(all, [&](int64_t n) { return n != all[0]; })) {
      fail("{}: {}: expected the same value for all layers", file_.path(), key(what));
    }
    return all[0];
  }

  void read_heads() {
    c_.n_head = same_in_all_layers("attention.head_count");
    c_.n_kv_head =
        file_.has(key("attention.head_count_kv")) ? same_in_all_layers("attention.head_count_kv") : c_.n_head;
    // In a config, 0 means "not given". In a GGUF file, 0 would mean a model without attention.
    if (c_.n_head < 1 || c_.n_kv_head < 1) {
      const char* const what = c_.n_head < 1 ? "attention.head_count" : "attention.head_count_kv";
      fail("{}: {}: expected at least one head, found {}", file_.path(), key(what),
           c_.n_head < 1 ? c_.n_head : c_.n_kv_head);
    }
    c_.head_dim = integer("attention.key_length").value_or(c_.n_embd / c_.n_head);
    const int64_t value = integer("attention.value_length").value_or(c_.head_dim);
    if (value != c_.head_dim) {
      fail("{}: {}: expected the same value as attention.key_length ({}), found {}", file_.path(),
           key("attention.value_length"), c_.head_dim, value);
    }
  }

  void read_norm() {
    const bool rms = c_.norm == NormKind::rms;
    c_.norm_eps =
        file_.need_number(key(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"));
  }

  void read_rope() {
    c_.rope_theta = number("rope.freq_base").value_or(10000);
    const int64_t rotated = integer("rope.dimension_count").value_or(c_.head_dim);
    if (rotated != c_.head_dim) {
      fail("{}: expected rotary positions in all {} channels of a head, found {} = {}", file_.path(),
           c_.head_dim, key("rope.dimension_count"), rotated);
    }
    read_rope_scaling();
    if (const TensorInfo* factors = file_.find(kRopeFactors)) read_rope_factors(*factors);
  }

  // Follows llama.cpp: the default type is linear, a factor of 0 means no scaling, and the newer key takes
  // precedence.
  void read_rope_scaling() {
    const std::string_view type = file_.string(key("rope.scaling.type")).value_or("linear");
    if (type != "none" && type != "linear") {
      fail_unsupported("{}: {} = {} is not supported; expected none or linear", file_.path(),
                       key("rope.scaling.type"), printable(type));
    }
    const double factor = number("rope.scaling.factor").value_or(number("rope.scale_linear").value_or(0));
    if (type == "none" || factor == 0 || factor == 1) return;
    if (file_.find(kRopeFactors) != nullptr) {
      fail_unsupported("{}: {} = {} together with {} is not supported; expected only one of them",
                       file_.path(), key("rope.scaling.factor"), factor, kRopeFactors);
    }
    c_.rope_scaling = {.type = RopeScaling::Type::linear, .factor = factor};
  }

  // The file contains the scaling factor of each frequency, but not always the original context length. This
  // function tries all plausible lengths until the formula of Llama 3 gives the factors in the file.
  void read_rope_factors(const TensorInfo& tensor) {
    if (tensor.dtype != DType::f32 || tensor.shape != Shape{c_.head_dim / 2} || c_.head_dim % 2 != 0) {
      fail("{}: expected {} to contain {} fp32 values", file_.path(), kRopeFactors, c_.head_dim / 2);
    }
    std::vector<float> factors(tensor.bytes.size() / sizeof(float));
    std::memcpy(factors.data(), tensor.bytes.data(), tensor.bytes.size());
    // If all wavelengths are short, no entry of the tensor is equal to the full factor. Only the gpt.cpp key
    // then specifies the full factor.
    const double factor = file_.number(kRopeFactorKey).value_or(*std::ranges::max_element(factors));
    RopeScaling scaling{.type = RopeScaling::Type::llama3, .factor = factor};
    scaling.low_freq_factor = file_.number(kRopeLowKey).value_or(scaling.low_freq_factor);
    scaling.high_freq_factor = file_.number(kRopeHighKey).value_or(scaling.high_freq_factor);
    std::vector<int64_t> lengths = {integer("rope.scaling.original_context_length").value_or(1)};
    for (int64_t length = 1; length <= (int64_t{1} << 20); length *= 2)
      lengths.push_back(length);
    for (const int64_t length : lengths) {
      scaling.original_n_ctx = length;
      c_.rope_scaling = scaling;
      if (factor > 0 && has_factors(factors)) return;
    }
    fail_unsupported(
        "{}: {} contains rotary frequency factors that differ from the formula of Llama 3, which is not "
        "supported",
        file_.path(), kRopeFactors);
  }

  bool has_factors(const std::vector<float>& factors) const {
    ModelConfig plain = c_;
    plain.rope_scaling = {};
    const std::vector<double> before = rope_frequencies(rope_of(plain)),
                              after = rope_frequencies(rope_of(c_));
    for (size_t i = 0; i < factors.size(); ++i) {
      if (!(std::abs(before[i] / after[i] - factors[i]) <= 1e-4 * factors[i])) return false;
    }
    return true;
  }

  void read_switches() {
    c_.tie_embeddings = !has_tensor("output.weight");
    if (!family_.gguf.optional_biases) return;
    c_.qkv_bias = has_tensor("blk.0.attn_q.bias");
    c_.out_bias = has_tensor("blk.0.attn_output.bias");
    c_.mlp_bias = has_tensor("blk.0.ffn_down.bias");
  }

  void read_special_ids() {
    // Files commonly use an id beyond the vocabulary for "none".
    const auto known = [&](int64_t id) { return id < c_.vocab_size ? id : -1; };
    const auto add_end = [&](int64_t id) {
      if (known(id) >= 0 && std::ranges::count(c_.eos_token_ids, id) == 0) c_.eos_token_ids.push_back(id);
    };
    c_.bos_token_id = known(file_.integer("tokenizer.ggml.bos_token_id").value_or(-1));
    for (const char* key : kEndKeys)
      add_end(file_.integer(key).value_or(-1));
    for (const int64_t id : file_.integers(kAllEndsKey).value_or(std::vector<int64_t>{}))
      add_end(id);
  }

  const GgufFile& file_;
  const Family& family_;
  std::string prefix_;
  ModelConfig c_;
};

constexpr Naming tensor_names(bool fused_qkv) {
  return {
      .outside = {"token_embd.{1}", "position_embd.{1}", "output_norm.{1}", "output.{1}"},
      .block = "blk.{0}.",
      .norms = {"attn_norm.{1}", "ffn_norm.{1}"},
      .qkv = fused_qkv ? LayerNames{"attn_qkv.{1}"} : LayerNames{"attn_q.{1}", "attn_k.{1}", "attn_v.{1}"},
      .linear = {"attn_output.{1}", "ffn_up.{1}", "ffn_down.{1}", "ffn_gate.{1}"},
  };
}

}  // namespace

constinit const Naming kGgufNaming = tensor_names(false);
constinit const Naming kGgufFusedNaming = tensor_names(true);

const Family& gguf_family(const GgufFile& file) {
  const std::string_view name = file.need_string(kArchitectureKey);
  std::vector<std::string_view> known;
  for (const Family* family : families()) {
    if (family->gguf.architecture == nullptr) continue;
    if (family->gguf.architecture == name) return *family;
    known.emplace_back(family->gguf.architecture);
  }
  fail_unsupported("{}: the architecture {} is not supported; expected {}", file.path(), printable(name),
                   fmt::join(known, ", "));
}

ModelConfig gguf_config(const GgufFile& file) {
  return ConfigReader(file).read();
}

}  // namespace gpt
