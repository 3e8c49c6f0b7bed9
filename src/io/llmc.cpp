#include "io/llmc.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "io/tensor_layout.h"

namespace gpt {
namespace {

constexpr size_t kHeaderNumbers = 256;
constexpr int64_t kLlmcHeaderBytes = kHeaderNumbers * sizeof(int32_t);
constexpr int32_t kVersionFp32 = 3, kVersionBf16 = 5;
constexpr int64_t kMaxLlmcLayers = 4096;  // bounds the tensor list; the largest models have about 130 layers

std::vector<TensorGroup> groups(const LlmcHeader& h) {
  const int64_t c = h.channels;
  return {{"wte", false, {h.vocab_size, c}, (h.padded_vocab_size - h.vocab_size) * c},
          {"wpe", false, {h.max_seq_len, c}},
          {"ln1w", true, {c}},
          {"ln1b", true, {c}},
          {"qkvw", true, {3 * c, c}},
          {"qkvb", true, {3 * c}},
          {"attprojw", true, {c, c}},
          {"attprojb", true, {c}},
          {"ln2w", true, {c}},
          {"ln2b", true, {c}},
          {"fcw", true, {4 * c, c}},
          {"fcb", true, {4 * c}},
          {"fcprojw", true, {c, 4 * c}},
          {"fcprojb", true, {c}},
          {"lnfw", false, {c}},
          {"lnfb", false, {c}}};
}

LlmcHeader read_llmc_header(std::span<const std::byte> bytes, const std::string& what) {
  if (bytes.size() < static_cast<size_t>(kLlmcHeaderBytes)) {
    fail("{} is not an llm.c checkpoint: expected at least {} bytes, found {}", what, kLlmcHeaderBytes,
         bytes.size());
  }
  std::array<int32_t, 8> raw;
  std::memcpy(raw.data(), bytes.data(), sizeof raw);
  if (static_cast<uint32_t>(raw[0]) != kLlmcMagic) {
    fail("{} is not an llm.c checkpoint: expected the magic number {}, found {}", what, kLlmcMagic, raw[0]);
  }
  if (raw[1] != kVersionFp32 && raw[1] != kVersionBf16) {
    fail("{}: expected an llm.c checkpoint of version 3 (fp32) or 5 (bf16), found {}; export it again", what,
         raw[1]);
  }
  const LlmcHeader h{.dtype = raw[1] == kVersionFp32 ? DType::f32 : DType::bf16,
                     .max_seq_len = raw[2],
                     .vocab_size = raw[3],
                     .num_layers = raw[4],
                     .num_heads = raw[5],
                     .channels = raw[6],
                     .padded_vocab_size = raw[7]};
  constexpr std::array<const char*, 6> kNames = {"max_seq_len", "vocab_size", "num_layers",
                                                 "num_heads",   "channels",   "padded_vocab_size"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (raw[i + 2] < 1) {
      fail("{} is not an llm.c checkpoint: expected a positive {}, found {}", what, kNames[i], raw[i + 2]);
    }
  }
  if (h.num_layers > kMaxLlmcLayers) {
    fail("{} is not an llm.c checkpoint: expected at most {} layers, found {}", what, kMaxLlmcLayers,
         h.num_layers);
  }
  if (h.padded_vocab_size < h.vocab_size || h.channels % h.num_heads != 0) {
    fail(
        "{} is not an llm.c checkpoint: expected a padded vocabulary of at least {} and heads that divide {} "
        "channels, found {} and {}",
        what, h.vocab_size, h.channels, h.padded_vocab_size, h.num_heads);
  }
  return h;
}

}  // namespace

LlmcFile::LlmcFile(const std::string& path) : TensorFile(path), file_(path) {
  parse(file_.bytes());
}

LlmcFile::LlmcFile(std::span<const std::byte> bytes, const std::string& what) : TensorFile(what) {
  parse(bytes);
}

void LlmcFile::parse(std::span<const std::byte> bytes) {
  header_ = read_llmc_header(bytes, path());
  const std::vector<TensorGroup> all = groups(header_);
  const uint64_t expected = layout_bytes(all, header_.num_layers, header_.dtype, kLlmcHeaderBytes,
                                         fmt::format("{} is not an llm.c checkpoint", path()));
  if (bytes.size() != expected) {
    fail(
        "{} is damaged or incomplete: its header ({} channels, {} layers, vocabulary {}) requires {} bytes, "
        "found {}",
        path(), header_.channels, header_.num_layers, header_.padded_vocab_size, expected, bytes.size());
  }
  set_tensors(layout_tensors(all, header_.num_layers, header_.dtype, bytes, kLlmcHeaderBytes));
}

void write_llmc(const std::string& path, const LlmcHeader& h, std::span<const NamedTensor> tensors) {
  std::array<int32_t, kHeaderNumbers> raw{};
  const std::array<int64_t, 8> start = {kLlmcMagic,    h.dtype == DType::f32 ? kVersionFp32 : kVersionBf16,
                                        h.max_seq_len, h.vocab_size,
                                        h.num_layers,  h.num_heads,
                                        h.channels,    h.padded_vocab_size};
  std::transform(start.begin(), start.end(), raw.begin(), [](int64_t n) { return static_cast<int32_t>(n); });
  write_layout(path, std::as_bytes(std::span(raw)), groups(h), h.num_layers, h.dtype, tensors);
}

}  // namespace gpt
