#include "io/llama2c.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"

namespace gpt {
namespace {

constexpr size_t kHeaderBytes = 7 * sizeof(int32_t);
constexpr int32_t kNewMagic = 0x616b3432;  // "ak42": versions 1 and 2
constexpr int64_t kMaxLayers = 4096;       // bounds the tensor list; the largest models have some 130

// A tensor of the file, or one per layer.
struct Group {
  const char* name;
  bool per_layer;
  Shape shape;
};

std::vector<Group> groups(const Llama2cHeader& h) {
  const int64_t head_dim = h.dim / h.n_heads;
  const int64_t kv_dim = head_dim * h.n_kv_heads;
  std::vector<Group> all = {
      {"tok_emb", false, {h.vocab_size, h.dim}},
      {"rms_att", true, {h.dim}},
      {"wq", true, {h.dim, h.dim}},
      {"wk", true, {kv_dim, h.dim}},
      {"wv", true, {kv_dim, h.dim}},
      {"wo", true, {h.dim, h.dim}},
      {"rms_ffn", true, {h.dim}},
      {"w1", true, {h.hidden_dim, h.dim}},
      {"w2", true, {h.dim, h.hidden_dim}},
      {"w3", true, {h.hidden_dim, h.dim}},
      {"rms_final", false, {h.dim}},
      {"freq_cis_real", false, {h.seq_len, head_dim / 2}},
      {"freq_cis_imag", false, {h.seq_len, head_dim / 2}},
  };
  if (!h.tied) all.push_back({"wcls", false, {h.vocab_size, h.dim}});
  return all;
}

Llama2cHeader read_header(std::span<const std::byte> bytes, const std::string& what) {
  if (bytes.size() < kHeaderBytes) {
    fail("{} is not a llama2.c checkpoint: expected at least {} bytes, found {}", what, kHeaderBytes,
         bytes.size());
  }
  std::array<int32_t, 7> raw;
  std::memcpy(raw.data(), bytes.data(), kHeaderBytes);
  if (raw[0] == kNewMagic) {
    fail("{} is a llama2.c checkpoint of version 1 or 2; export it again with --version 0", what);
  }
  Llama2cHeader h{.dim = raw[0],
                  .hidden_dim = raw[1],
                  .n_layers = raw[2],
                  .n_heads = raw[3],
                  .n_kv_heads = raw[4],
                  .vocab_size = raw[5],
                  .seq_len = raw[6],
                  .tied = raw[5] > 0};
  if (!h.tied) h.vocab_size = -h.vocab_size;
  const std::array<std::pair<const char*, int64_t>, 7> fields = {{{"dim", h.dim},
                                                                  {"hidden_dim", h.hidden_dim},
                                                                  {"n_layers", h.n_layers},
                                                                  {"n_heads", h.n_heads},
                                                                  {"n_kv_heads", h.n_kv_heads},
                                                                  {"vocab_size", h.vocab_size},
                                                                  {"seq_len", h.seq_len}}};
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
        "{} is not a llama2.c checkpoint: expected n_heads to divide dim into even parts and n_kv_heads to "
        "divide n_heads, found dim {}, n_heads {}, n_kv_heads {}",
        what, h.dim, h.n_heads, h.n_kv_heads);
  }
  return h;
}

// What the header says the file must have, in bytes.
uint64_t expected_bytes(const Llama2cHeader& h, const std::vector<Group>& all, const std::string& what) {
  const std::string name = fmt::format("{} is not a llama2.c checkpoint", what);
  int64_t total = kHeaderBytes;
  for (const Group& group : all) {
    Shape shape = group.shape;
    shape.push_back(group.per_layer ? h.n_layers : 1);
    shape.push_back(sizeof(float));
    if (__builtin_add_overflow(total, checked_size(shape, name), &total)) {
      fail("{}: its header asks for more bytes than any file can have", name);
    }
  }
  return static_cast<uint64_t>(total);
}

}  // namespace

Llama2cFile::Llama2cFile(const std::string& path) : file_(path), path_(path) {
  parse(file_.bytes());
}

Llama2cFile::Llama2cFile(std::span<const std::byte> bytes, const std::string& what) : path_(what) {
  parse(bytes);
}

void Llama2cFile::parse(std::span<const std::byte> bytes) {
  header_ = read_header(bytes, path_);
  const std::vector<Group> all = groups(header_);
  const uint64_t expected = expected_bytes(header_, all, path_);
  if (bytes.size() != expected) {
    fail(
        "{} is not a llama2.c checkpoint, or incomplete: its header (dim {}, {} layers, vocabulary {}) means "
        "{} bytes, found {}",
        path_, header_.dim, header_.n_layers, header_.vocab_size, expected, bytes.size());
  }
  size_t offset = kHeaderBytes;
  for (const Group& group : all) {
    const auto size = static_cast<size_t>(checked_size(group.shape, path_)) * sizeof(float);
    for (int64_t i = 0; i < (group.per_layer ? header_.n_layers : 1); ++i) {
      std::string name = group.per_layer ? fmt::format("{}.{}", group.name, i) : group.name;
      tensors_.push_back({std::move(name), DType::f32, group.shape, bytes.subspan(offset, size)});
      offset += size;
    }
  }
}

const TensorInfo* Llama2cFile::find(std::string_view name) const {
  const auto at =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorInfo& t) { return t.name == name; });
  return at == tensors_.end() ? nullptr : &*at;
}

}  // namespace gpt
