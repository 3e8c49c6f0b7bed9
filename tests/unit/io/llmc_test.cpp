#include "io/llmc.h"

#include <climits>
#include <cstring>

#include "io/safetensors_writer.h"
#include "unit/io/io_test_util.h"

namespace gpt {
namespace {

using Ints = std::vector<int32_t>;

// 2 layers, 2 heads, 4 channels, vocabulary 5 in 6 rows, context 3.
const Ints kHeader = {20240326, 3, 3, 5, 2, 2, 4, 6};
constexpr int64_t kC = 4, kLayer = 4 * kC + 3 * kC * kC + 3 * kC + kC * kC + kC + 4 * kC * kC + 4 * kC +
                                   4 * kC * kC + kC;
constexpr int64_t kElements = 6 * kC + 3 * kC + 2 * kLayer + 2 * kC;

std::string checkpoint(const Ints& header, int64_t bytes) {
  std::string file(1024 + static_cast<size_t>(bytes), '\1');
  std::fill_n(file.begin(), 1024, '\0');
  std::memcpy(file.data(), header.data(), header.size() * 4);
  return file;
}

TEST(Llmc, FindsEveryTensor) {
  for (const auto& [version, dtype] : {std::pair{3, DType::f32}, {5, DType::bf16}}) {
    Ints header = kHeader;
    header[1] = version;
    const std::string bytes = checkpoint(header, kElements * static_cast<int64_t>(dtype_size(dtype)));
    const LlmcFile f(as_bytes(bytes), "t");
    EXPECT_EQ(f.header().dtype, dtype);
    EXPECT_EQ(f.tensors().size(), 4u + 12 * 2);
    EXPECT_EQ(f.find("wte")->shape, (Shape{5, 4}));
    EXPECT_EQ(f.find("qkvw.1")->shape, (Shape{12, 4}));
    EXPECT_EQ(f.find("fcprojw.0")->shape, (Shape{4, 16}));
    EXPECT_EQ(f.find("nothing"), nullptr);
    const auto at = [&, dtype = dtype](const char* name) {
      return (reinterpret_cast<const char*>(f.find(name)->bytes.data()) - bytes.data() - 1024) /
             static_cast<int64_t>(dtype_size(dtype));
    };
    EXPECT_EQ(at("wpe"), 24) << "behind the padding of wte";
    EXPECT_EQ(at("ln1w.1"), 36 + 4);
    EXPECT_EQ(at("ln1b.0"), 36 + 8);
    EXPECT_EQ(at("lnfb"), kElements - 4);
  }
}

TEST(Llmc, RejectsEveryHostileHeader) {
  const auto rejected = [](const Ints& header, int64_t bytes, std::initializer_list<Fact> facts = {}) {
    const std::string file = checkpoint(header, bytes);
    return refused([&] { LlmcFile(as_bytes(file), "m.bin"); }, "m.bin", facts);
  };
  const auto with = [](size_t field, int32_t value) {
    Ints header = kHeader;
    header[field] = value;
    return header;
  };
  EXPECT_TRUE(refused([&] { LlmcFile(as_bytes("abc"), "m.bin"); }, "m.bin", {1024, 3}));
  EXPECT_TRUE(rejected(with(0, 1), kElements * 4, {20240326, 1}));
  EXPECT_TRUE(rejected(with(1, 1), kElements * 4, {3, 5, 1}));
  const char* fields[] = {"max_seq_len", "vocab_size", "num_layers",
                          "num_heads",   "channels",   "padded_vocab_size"};
  for (size_t field = 2; field < 8; ++field) {
    for (const int32_t value : {0, -1, INT_MIN})
      EXPECT_TRUE(rejected(with(field, value), kElements * 4, {fields[field - 2], value}));
    EXPECT_TRUE(rejected(with(field, INT_MAX), kElements * 4));
  }
  EXPECT_TRUE(rejected(with(4, 5000), kElements * 4, {4096, 5000}));
  EXPECT_TRUE(rejected(with(7, 4), kElements * 4, {5, 4}));
  EXPECT_TRUE(rejected(with(5, 3), kElements * 4, {4, 3}));
  EXPECT_TRUE(
      rejected({20240326, 3, INT_MAX, INT_MAX, 4096, 1, INT_MAX, INT_MAX}, 0, {"[4611686014132420609,1,4]"}));
  EXPECT_TRUE(rejected(kHeader, kElements * 4 - 1, {1024 + kElements * 4, 1023 + kElements * 4}));
  EXPECT_TRUE(rejected(kHeader, kElements * 4 + 1, {1024 + kElements * 4, 1025 + kElements * 4}));
}

TEST(Llmc, WritesWhatItReads) {
  const TempDir dir;
  std::string bytes = checkpoint(kHeader, kElements * 4);
  std::fill_n(bytes.begin() + 1024 + 5 * 4 * 4, 4 * 4, '\0');  // the padding
  const LlmcFile f(as_bytes(bytes), "t");
  std::vector<NamedTensor> tensors;
  for (const TensorInfo& t : f.tensors())
    tensors.push_back({t.name, t.dtype, t.shape, [bytes = t.bytes](const EmitBytes& emit) { emit(bytes); }});
  write_llmc(dir.file("m.bin"), f.header(), tensors);
  EXPECT_EQ(read_text(dir.file("m.bin")), bytes);
}

}  // namespace
}  // namespace gpt
