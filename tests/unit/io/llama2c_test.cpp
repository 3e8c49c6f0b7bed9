#include "io/llama2c.h"

#include <climits>
#include <cstring>

#include "unit/io/io_test_util.h"

namespace gpt {
namespace {

using Ints = std::vector<int32_t>;

// Returns a file with the header numbers, followed by the floats 0, 1, 2, ....
std::string checkpoint(const Ints& header, int64_t n_floats) {
  std::string file(header.size() * 4 + static_cast<size_t>(n_floats) * 4, '\0');
  if (!header.empty()) std::memcpy(file.data(), header.data(), header.size() * 4);
  for (int64_t i = 0; i < n_floats; ++i) {
    const auto x = static_cast<float>(i);
    std::memcpy(file.data() + header.size() * 4 + i * 4, &x, 4);
  }
  return file;
}

// dim 8, hidden 3, 2 layers, 2 heads, 1 kv head, vocabulary 5, context 6.
const Ints kHeader = {8, 3, 2, 2, 1, 5, 6};
constexpr int64_t kLayer = 8 + 64 + 32 + 32 + 64 + 8 + 3 * 24;
constexpr int64_t kFloats = 5 * 8 + 2 * kLayer + 8 + 2 * 6 * 2;

float first(const TensorInfo* t) {
  float x = -1;
  std::memcpy(&x, t->bytes.data(), 4);
  return x;
}

TEST(Llama2c, FindsEveryTensorWhereTheFormatHasIt) {
  const std::string bytes = checkpoint(kHeader, kFloats);
  const Llama2cFile f(as_bytes(bytes), "t");
  EXPECT_EQ(f.header().dim, 8);
  EXPECT_EQ(f.header().n_kv_heads, 1);
  EXPECT_TRUE(f.header().tied);
  EXPECT_EQ(f.tensors().size(), 1u + 9u * 2 + 3);
  EXPECT_EQ(f.find("tok_emb")->shape, (Shape{5, 8}));
  EXPECT_EQ(f.find("wk.1")->shape, (Shape{4, 8}));
  EXPECT_EQ(f.find("w2.0")->shape, (Shape{8, 3}));
  EXPECT_EQ(f.find("w3.1")->shape, (Shape{3, 8}));
  EXPECT_EQ(f.find("freq_cis_imag")->shape, (Shape{6, 2}));
  EXPECT_EQ(f.find("wcls"), nullptr);
  EXPECT_EQ(first(f.find("tok_emb")), 0);
  EXPECT_EQ(first(f.find("rms_att.0")), 40);
  EXPECT_EQ(first(f.find("rms_att.1")), 48);
  EXPECT_EQ(first(f.find("wq.0")), 56);
  EXPECT_EQ(first(f.find("wk.0")), 56 + 128);
  EXPECT_EQ(first(f.find("wo.1")), 56 + 128 + 64 + 64 + 64);
  EXPECT_EQ(first(f.find("freq_cis_real")), kFloats - 24);
  EXPECT_EQ(first(f.find("rms_final")), kFloats - 32);
}

TEST(Llama2c, ANegativeVocabularyMeansUntied) {
  Ints header = kHeader;
  header[5] = -5;
  const std::string bytes = checkpoint(header, kFloats + 40);
  const Llama2cFile f(as_bytes(bytes), "t");
  EXPECT_FALSE(f.header().tied);
  EXPECT_EQ(f.header().vocab_size, 5);
  EXPECT_EQ(first(f.find("wcls")), kFloats);
  EXPECT_EQ(f.find("wcls")->shape, (Shape{5, 8}));
}

TEST(Llama2c, ReadsFromAFile) {
  const TempDir dir;
  write_text(dir.file("m.bin"), checkpoint(kHeader, kFloats));
  const Llama2cFile f(dir.file("m.bin"));
  EXPECT_EQ(f.path(), dir.file("m.bin"));
  EXPECT_EQ(first(f.find("rms_att.1")), 48);
  EXPECT_TRUE(is_aligned(*f.find("wq.0")));
  EXPECT_TRUE(names(error_of([&] { Llama2cFile(dir.file("none.bin")); }), {dir.file("none.bin")}));
}

TEST(Llama2c, RejectsEveryHostileHeader) {
  const auto rejected = [](const Ints& header, int64_t n_floats, std::initializer_list<Fact> facts = {}) {
    const std::string bytes = checkpoint(header, n_floats);
    return refused([&] { Llama2cFile(as_bytes(bytes), "m.bin"); }, "m.bin", facts);
  };
  const auto with = [](size_t field, int32_t value) {
    Ints header = kHeader;
    header[field] = value;
    return header;
  };
  EXPECT_TRUE(rejected({}, 0, {28, 0}));
  EXPECT_TRUE(rejected({8, 3, 2, 2, 1, 5}, 0, {28, 24}));
  const char* fields[] = {"dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"};
  for (size_t field = 0; field < 7; ++field) {
    EXPECT_TRUE(rejected(with(field, 0), kFloats, {fields[field], 0}));
    EXPECT_TRUE(rejected(with(field, INT_MAX), kFloats));
    if (field == 5) continue;  // a negative vocabulary size is valid
    EXPECT_TRUE(rejected(with(field, -1), kFloats, {fields[field], -1}));
    EXPECT_TRUE(rejected(with(field, INT_MIN), kFloats, {fields[field], INT_MIN}));
  }
  EXPECT_TRUE(rejected(with(5, INT_MIN), kFloats, {-int64_t{INT_MIN}, (7 + kFloats) * 4}));
  EXPECT_TRUE(rejected(with(2, INT_MAX), kFloats, {4096, INT_MAX}));
  EXPECT_TRUE(rejected(with(3, 3), kFloats, {"dim", 8, "n_heads", 3}));
  EXPECT_TRUE(rejected(with(3, 8), kFloats, {"dim", "n_heads", 8}));
  EXPECT_TRUE(rejected(with(4, 3), kFloats, {"n_heads", 2, "n_kv_heads", 3}));
  EXPECT_TRUE(rejected({1 << 30, INT_MAX, 4096, 2, 1, INT_MIN, INT_MAX}, 0, {"[2305843009213693952,1,4]"}));
  EXPECT_TRUE(rejected({0x616b3432, 3, 1, 1, 1, 1, 1}, kFloats, {0, 1, 2, 3}));
  EXPECT_TRUE(rejected(kHeader, kFloats - 1, {(7 + kFloats) * 4, (6 + kFloats) * 4}));
  EXPECT_TRUE(rejected(kHeader, kFloats + 1, {(7 + kFloats) * 4, (8 + kFloats) * 4}));
}

// Returns a file of version 1 or 2, with a header of 256 bytes and norms first.
std::string new_checkpoint(int32_t version, Ints header, bool tied, int32_t group_size, int64_t bytes) {
  header.insert(header.begin(), {0x616b3432, version});
  std::string file(256 + static_cast<size_t>(bytes), '\0');
  std::memcpy(file.data(), header.data(), header.size() * 4);
  file[header.size() * 4] = tied ? 1 : 0;
  if (version == 2) std::memcpy(file.data() + header.size() * 4 + 1, &group_size, 4);
  return file;
}
constexpr int64_t kNorms = 5 * 8;
constexpr int64_t kMatrices = 5 * 8 + 2 * (2 * 64 + 2 * 32 + 3 * 24);

TEST(Llama2c, ReadsVersion1) {
  std::string bytes = new_checkpoint(1, kHeader, true, 0, (kNorms + kMatrices) * 4);
  const float one = 1, two = 2;
  std::memcpy(bytes.data() + 256 + kNorms * 4, &one, 4);
  std::memcpy(bytes.data() + 256 + (kNorms + 40) * 4, &two, 4);
  const Llama2cFile f(as_bytes(bytes), "t");
  EXPECT_TRUE(f.header().tied);
  EXPECT_EQ(first(f.find("tok_emb")), 1);
  EXPECT_EQ(first(f.find("wq.0")), 2);
  EXPECT_EQ(f.find("freq_cis_real"), nullptr);
  EXPECT_TRUE(refused([&] { Llama2cFile(as_bytes(bytes).first(bytes.size() - 1), "t"); }, "t",
                      {bytes.size(), bytes.size() - 1}));
  const std::string untied = new_checkpoint(1, kHeader, false, 0, (kNorms + kMatrices + 40) * 4);
  EXPECT_EQ(Llama2cFile(as_bytes(untied), "t").find("wcls")->shape, (Shape{5, 8}));
}

TEST(Llama2c, WidensVersion2) {
  const int64_t bytes = kNorms * 4 + kMatrices + kMatrices / 4 * 4;
  std::string file = new_checkpoint(2, kHeader, true, 4, bytes);
  char* tok = file.data() + 256 + kNorms * 4;  // [5,8] int8, then 10 scales
  tok[0] = 3;
  tok[4] = -2;
  const float scales[] = {0.5f, 4.0f};
  std::memcpy(tok + 40, scales, sizeof scales);
  const Llama2cFile f(as_bytes(file), "t");
  float found[8];
  std::memcpy(found, f.find("tok_emb")->bytes.data(), sizeof found);
  EXPECT_EQ(found[0], 1.5f);
  EXPECT_EQ(found[4], -8.0f);
  EXPECT_EQ(f.tensors().size(), 5u + 1 + 7 * 2);
  const auto with_group = [&](int32_t size, std::initializer_list<Fact> facts) {
    const std::string bad = new_checkpoint(2, kHeader, true, size, bytes);
    return refused([&] { Llama2cFile(as_bytes(bad), "t"); }, "t", facts);
  };
  for (const int32_t size : {0, -1, 3, 16, INT_MAX})
    EXPECT_TRUE(with_group(size, {8, size}));
  EXPECT_TRUE(with_group(8, {256 + bytes}));
  const std::string huge = new_checkpoint(2, {1 << 30, INT_MAX, 4, 1, 1, 1 << 30, 2}, true, 1, 0);
  EXPECT_TRUE(refused([&] { Llama2cFile(as_bytes(huge), "t"); }, "t", {"tok_emb", int64_t{1} << 60, 256}));
}

}  // namespace
}  // namespace gpt
