#include "io/llama2c.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/ranges.h"
#include "io/byte_reader.h"
#include "io/tensor_layout.h"

namespace gpt {
namespace {

constexpr int64_t kLegacyHeaderBytes = 7 * sizeof(int32_t);
constexpr int64_t kHeaderBytes = 256;  // header size of versions 1 and 2
constexpr int64_t kMaxLayers = 4096;   // bounds the tensor list; the largest models have about 130 layers

constexpr size_t kNorms = 3;

// Returns the tensor groups in file order. Versions 1 and 2 have no freq_cis and store all norms first.
std::vector<TensorGroup> groups_of(const Llama2cHeader& h) {
  const int64_t kv_dim = h.dim / h.n_heads * h.n_kv_heads;
  const Shape table = {h.seq_len, h.dim / h.n_heads / 2};
  std::vector<TensorGroup> all = {{"tok_emb", false, {h.vocab_size, h.dim}},
                                  {"rms_att", true, {h.dim}},
                                  {"wq", true, {h.dim, h.dim}},
                                  {"wk", true, {kv_dim, h.dim}},
                                  {"wv", true, {kv_dim, h.dim}},
                                  {"wo", true, {h.dim, h.dim}},
                                  {"rms_ffn", true, {h.dim}},
                                  {"w1", true, {h.hidden_dim, h.dim}},
                                  {"w2", true, {h.dim, h.hidden_dim}},
                                  {"w3", true, {h.hidden_dim, h.dim}},
                                  {"rms_final", false, {h.dim}}};
  if (h.version == 0)
    all.insert(all.end(), {{"freq_cis_real", false, table}, {"freq_cis_imag", false, table}});
  if (!h.tied) all.push_back({"wcls", false, {h.vocab_size, h.dim}});
  if (h.version > 0) std::ranges::stable_sort(all, {}, [](const TensorGroup& g) { return g.shape.size(); });
  return all;
}

void check_header(const Llama2cHeader& h, const std::string& what) {
  const std::pair<const char*, int64_t> fields[] = {
      {"dim", h.dim},         {"hidden_dim", h.hidden_dim}, {"n_layers", h.n_layers},
      {"n_heads", h.n_heads}, {"n_kv_heads", h.n_kv_heads}, {"vocab_size", h.vocab_size},
      {"seq_len", h.seq_len}};
  for (const auto& [name, value] : fields) {
    if (value < 1)
      fail("{} is not a llama2.c checkpoint: expected a positive {}, found {}", what, name, value);
  }
  if (h.n_layers > kMaxLayers) {
    fail("{} is not a llama2.c checkpoint: expected at most {} layers, found {}", what, kMaxLayers,
         h.n_layers);
  }
  if (h.dim % h.n_heads != 0 || h.dim / h.n_heads % 2 != 0 || h.n_heads % h.n_kv_heads != 0) {
    fail(
        "{} is not a llama2.c checkpoint: expected dim / n_heads to be an even integer and n_kv_heads to "
        "divide n_heads, found dim {}, n_heads {}, n_kv_heads {}",
        what, h.dim, h.n_heads, h.n_kv_heads);
  }
}

// Versions 1 and 2 start with a magic number and the version. Version 0 starts directly with its fields, and
// a negative vocab_size marks an untied output head.
Llama2cHeader read_header(std::span<const std::byte> bytes, const std::string& what) {
  if (bytes.size() < static_cast<size_t>(kLegacyHeaderBytes)) {
    fail("{} is not a llama2.c checkpoint: expected at least {} bytes, found {}", what, kLegacyHeaderBytes,
         bytes.size());
  }
  Llama2cHeader h;
  ByteReader in(bytes, what);
  uint32_t magic = 0;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  if (magic == kLlama2cMagic) {
    in.take(sizeof magic);
    h.version = in.number<int32_t>();
    if (h.version != 1 && h.version != 2) {
      fail("{}: expected a llama2.c checkpoint of version 0, 1 or 2, found {}", what, h.version);
    }
  }
  for (int64_t* field :
       {&h.dim, &h.hidden_dim, &h.n_layers, &h.n_heads, &h.n_kv_heads, &h.vocab_size, &h.seq_len})
    *field = in.number<int32_t>();
  if (h.version == 0) {
    h.tied = h.vocab_size > 0;
    if (!h.tied) h.vocab_size = -h.vocab_size;
  } else {
    h.tied = in.number<uint8_t>() != 0;
  }
  check_header(h, what);
  if (h.version != 2) return h;
  h.group_size = in.number<int32_t>();
  if (h.group_size < 1 || h.dim % h.group_size != 0) {
    fail("{} is not a llama2.c checkpoint: expected a group size that divides {}, found {}", what, h.dim,
         h.group_size);
  }
  return h;
}

void check_size(const Llama2cHeader& h, uint64_t expected, size_t found, const std::string& what) {
  if (found == expected) return;
  fail(
      "{} is not a llama2.c checkpoint, or incomplete: its header (dim {}, {} layers, vocabulary {}) "
      "requires {} bytes, found {}",
      what, h.dim, h.n_layers, h.vocab_size, expected, found);
}

// Dequantizes an int8 matrix, which is stored with its scales after its values.
void widen(std::span<const std::byte> bytes, int64_t n, int64_t group_size, float* to) {
  const auto* values = reinterpret_cast<const int8_t*>(bytes.data());
  const std::byte* scales = bytes.data() + n;
  for (int64_t g = 0; g < n / group_size; ++g) {
    float scale = 0;
    std::memcpy(&scale, scales + g * static_cast<int64_t>(sizeof scale), sizeof scale);
    for (int64_t i = g * group_size; i < (g + 1) * group_size; ++i)
      to[i] = static_cast<float>(values[i]) * scale;
  }
}

// Reserves space for the scales, which version 2 stores after the int8 values of each matrix.
void add_scales(std::span<TensorGroup> matrices, int64_t group_size, size_t file_bytes,
                const std::string& what) {
  for (TensorGroup& group : matrices) {
    const int64_t n = checked_size(group.shape, what);
    if (static_cast<uint64_t>(n) > file_bytes)
      fail("{}: {} needs {} bytes, found {}", what, group.name, n, file_bytes);
    group.padding = n / group_size * static_cast<int64_t>(sizeof(float));
  }
}

}  // namespace

Llama2cFile::Llama2cFile(const std::string& path) : TensorFile(path), file_(path) {
  parse(file_.bytes());
}

Llama2cFile::Llama2cFile(std::span<const std::byte> bytes, const std::string& what) : TensorFile(what) {
  parse(bytes);
}

void Llama2cFile::parse(std::span<const std::byte> bytes) {
  header_ = read_header(bytes, path());
  const Llama2cHeader& h = header_;
  const std::string name = fmt::format("{} is not a llama2.c checkpoint", path());
  std::vector<TensorGroup> all = groups_of(h);
  if (h.version < 2) {
    const int64_t begin = h.version == 0 ? kLegacyHeaderBytes : kHeaderBytes;
    check_size(h, layout_bytes(all, h.n_layers, DType::f32, begin, name), bytes.size(), path());
    return set_tensors(layout_tensors(all, h.n_layers, DType::f32, bytes, begin));
  }
  const auto norms = std::span(all).first(kNorms), matrices = std::span(all).subspan(kNorms);
  add_scales(matrices, h.group_size, bytes.size(), name);
  const auto begin = static_cast<int64_t>(layout_bytes(norms, h.n_layers, DType::f32, kHeaderBytes, name));
  check_size(h, layout_bytes(matrices, h.n_layers, DType::u8, begin, name), bytes.size(), path());
  std::vector<TensorInfo> tensors = layout_tensors(norms, h.n_layers, DType::f32, bytes, kHeaderBytes);
  for (TensorInfo& t : layout_tensors(matrices, h.n_layers, DType::u8, bytes, begin)) {
    const auto n = checked_size(t.shape, t.name);
    const size_t stored = static_cast<size_t>(n + n / h.group_size * int64_t{sizeof(float)});
    widened_.emplace_back(static_cast<size_t>(n) * sizeof(float), "a dequantized matrix");
    widen({t.bytes.data(), stored}, n, h.group_size, widened_.back().as<float>());
    tensors.push_back({std::move(t.name),
                       DType::f32,
                       std::move(t.shape),
                       {widened_.back().data(), widened_.back().size()}});
  }
  set_tensors(std::move(tensors));
}

void write_llama2c(const std::string& path, const Llama2cHeader& h, std::span<const NamedTensor> tensors) {
  GPT_ASSERT(h.version == 0);
  const std::array<int64_t, 7> numbers = {h.dim,     h.hidden_dim, h.n_layers,
                                          h.n_heads, h.n_kv_heads, h.tied ? h.vocab_size : -h.vocab_size,
                                          h.seq_len};
  const auto raw = transformed(numbers, [](int64_t n) { return static_cast<int32_t>(n); });
  std::vector<NamedTensor> all(tensors.begin(), tensors.end());
  const Shape table = {h.seq_len, h.dim / h.n_heads / 2};
  for (const char* name : {"freq_cis_real", "freq_cis_imag"}) {
    all.push_back({name, DType::f32, table, [n = checked_size(table, name)](const EmitBytes& emit) {
                     const std::vector<float> zeros(static_cast<size_t>(n));
                     emit(std::as_bytes(std::span(zeros)));
                   }});
  }
  write_layout(path, std::as_bytes(std::span(raw)), groups_of(h), h.n_layers, DType::f32, all);
}

}  // namespace gpt
