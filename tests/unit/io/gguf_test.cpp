#include "io/gguf.h"

#include "unit/io/gguf_bytes.h"
#include "unit/io/io_test_util.h"

namespace gpt {
namespace {

using T = GgufType;
using B = GgufBytes;

testing::AssertionResult refuses(const std::string& file, std::initializer_list<Fact> facts = {}) {
  return refused([&] { GgufFile(as_bytes(file), "m.gguf"); }, "m.gguf", facts);
}
testing::AssertionResult refuses(const GgufBytes& bytes, std::initializer_list<Fact> facts = {},
                                 const std::string& data = "") {
  return refuses(bytes.file(data), facts);
}

TEST(Gguf, ReadsEveryKindOfValue) {
  const std::string file = B().add("u8", T::u8, B::raw<uint8_t>(200))
                               .add("i8", T::i8, B::raw<int8_t>(-5))
                               .add("u16", T::u16, B::raw<uint16_t>(60000))
                               .add("i16", T::i16, B::raw<int16_t>(-300))
                               .add("u32", T::u32, B::raw<uint32_t>(4000000000u))
                               .add("i32", T::i32, B::raw<int32_t>(-70000))
                               .add("u64", T::u64, B::raw<uint64_t>(uint64_t{1} << 62))
                               .add("i64", T::i64, B::raw<int64_t>(-(int64_t{1} << 40)))
                               .add("f32", T::f32, B::raw(1.5f))
                               .add("f64", T::f64, B::raw(-2.25))
                               .add("yes", T::boolean, B::raw<uint8_t>(1))
                               .add("no", T::boolean, B::raw<uint8_t>(0))
                               .add("text", "ein Wort")
                               .add("list", T::array, B::texts({"a", "", "ccc"}))
                               .add("ids", T::array, B::numbers<int32_t>(T::i32, {1, -2, 3}))
                               .add("scores", T::array, B::numbers<float>(T::f32, {0.5f, -1}))
                               .add("none", T::array, B::texts({}))
                               .file();
  const GgufFile f(as_bytes(file), "m.gguf");
  EXPECT_EQ(f.version(), 3u);
  EXPECT_EQ(f.integer("u8"), 200);
  EXPECT_EQ(f.integer("i8"), -5);
  EXPECT_EQ(f.integer("u16"), 60000);
  EXPECT_EQ(f.integer("i16"), -300);
  EXPECT_EQ(f.integer("u32"), 4000000000);
  EXPECT_EQ(f.integer("i32"), -70000);
  EXPECT_EQ(f.integer("u64"), int64_t{1} << 62);
  EXPECT_EQ(f.need_integer("i64"), -(int64_t{1} << 40));
  EXPECT_EQ(f.number("f32"), 1.5);
  EXPECT_EQ(f.need_number("f64"), -2.25);
  EXPECT_EQ(f.number("i8"), -5.0);
  EXPECT_EQ(f.boolean("yes"), true);
  EXPECT_EQ(f.boolean("no"), false);
  EXPECT_EQ(f.need_string("text"), "ein Wort");
  EXPECT_EQ(f.strings("list"), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_EQ(f.integers("ids"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(f.numbers("scores"), (std::vector<float>{0.5f, -1}));
  EXPECT_TRUE(f.strings("none")->empty());
  EXPECT_FALSE(f.string("absent").has_value());
  EXPECT_EQ(f.metadata().size(), 17u);
  EXPECT_EQ(f.metadata()[12].key, "text");
  EXPECT_TRUE(refused([&] { f.need_string("absent"); }, "m.gguf", {"absent"}));
  EXPECT_TRUE(refused([&] { f.string("u8"); }, "m.gguf", {"u8", 0}));
  EXPECT_TRUE(refused([&] { f.integer("f32"); }, "m.gguf", {"f32", 6}));
  EXPECT_TRUE(refused([&] { f.integer("ids"); }, "m.gguf", {"ids", 5}));
  EXPECT_TRUE(refused([&] { f.strings("text"); }, "m.gguf", {"text", 8}));
  EXPECT_TRUE(refused([&] { f.boolean("u8"); }, "m.gguf", {"u8", 0}));
}

TEST(Gguf, ReadsTensorsWithTheSlowestDimensionFirst) {
  const std::string data(1024, '\2');
  const std::string file = B().tensor("b", {4, 3}, 0, 64)
                               .tensor("a", {256, 2}, 12, 128)
                               .tensor("c", {}, 1, 0)
                               .tensor("x", {2}, 25, 32)
                               .file(data);
  const GgufFile f(as_bytes(file), "m.gguf");
  ASSERT_EQ(f.tensors().size(), 3u);
  EXPECT_EQ(f.find("b")->shape, (Shape{3, 4}));
  EXPECT_EQ(f.find("b")->bytes.size(), 48u);
  EXPECT_EQ(f.find("b")->bytes.data(), as_bytes(file).data() + file.size() - 1024 + 64);
  EXPECT_EQ(f.find("a")->dtype, DType::q4_k);
  EXPECT_EQ(f.find("a")->bytes.size(), 288u);
  EXPECT_TRUE(f.find("c")->shape.empty());
  EXPECT_EQ(f.find("none"), nullptr);
  ASSERT_EQ(f.unsupported().size(), 1u);
  EXPECT_TRUE(refused([&] { f.find("x"); }, "m.gguf", {"x", "I16"}));
}

TEST(Gguf, KnowsTheSizeOfEveryTypeThatItComputesWith) {
  const std::pair<uint32_t, uint64_t> bytes_of_256[] = {{0, 1024}, {1, 512},  {2, 144},  {3, 160},
                                                        {6, 176},  {7, 192},  {8, 272},  {12, 144},
                                                        {13, 176}, {14, 210}, {20, 144}, {30, 512}};
  for (const auto& [type, bytes] : bytes_of_256) {
    const B b = B().tensor("t", {256}, type, 0);
    const std::string file = b.file(std::string(bytes, 'x'));
    EXPECT_EQ(GgufFile(as_bytes(file), "t").tensors()[0].bytes.size(), bytes) << type;
    EXPECT_TRUE(refuses(b, {"t", bytes, bytes - 1}, std::string(bytes - 1, 'x'))) << type;
  }
}

TEST(Gguf, AlignmentIsWhatTheFileSays) {
  B b = B().add("general.alignment", 64).tensor("a", {1}, 0, 0).tensor("b", {1}, 0, 64);
  b.alignment = 64;
  const std::string file = b.file(std::string(68, 'x'));
  EXPECT_EQ(GgufFile(as_bytes(file), "t").find("b")->bytes.data(), as_bytes(file).data() + file.size() - 4);
  for (const uint32_t bad : {0u, 3u, 48u, 0x80000000u}) {
    EXPECT_TRUE(
        refuses(B().add("general.alignment", bad), {"general.alignment", GgufLimits::alignment, bad}));
  }
  EXPECT_TRUE(
      refuses(B().add("general.alignment", T::u64, B::raw<uint64_t>(32)), {"general.alignment", 4, 10}));
  EXPECT_TRUE(refuses(B().add("general.alignment", "32"), {"general.alignment", 4, 8}));
  EXPECT_TRUE(refuses(B().tensor("x", {1}, 0, 4), {"x", 4, 32}, std::string(64, 'x')));
}

TEST(Gguf, RefusesWhatIsNoGguf) {
  EXPECT_TRUE(refuses("", {"GGUF", "\"\""}));
  EXPECT_TRUE(refuses("GGU", {"GGUF", "GGU"}));
  EXPECT_TRUE(refuses("GGML" + std::string(60, '\0'), {"GGUF", "GGML"}));
  EXPECT_TRUE(refuses("GGUF\3", {4, 1}));
  for (const uint32_t version : {0u, 1u, 4u}) {
    B b;
    b.version = version;
    EXPECT_TRUE(refuses(b, {"GGUF", 2, 3, version}));
  }
  B big;
  big.version = 0x03000000;
  EXPECT_TRUE(refuses(big, {"GGUF", 2, 3, "big-endian"}));
}

TEST(Gguf, ChecksCountsBeforeAnythingIsAllocated) {
  for (const uint64_t huge : {uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}, uint64_t{100'000}}) {
    B tensors, entries;
    tensors.n_tensors = entries.n_entries = huge;
    EXPECT_TRUE(refuses(tensors, {huge}));
    EXPECT_TRUE(refuses(entries, {huge}));
    EXPECT_TRUE(refuses(B().add("k", T::array, B::raw(T::u8) + B::raw(huge)), {huge}));
    EXPECT_TRUE(refuses(B().add("k", T::array, B::raw(T::string) + B::raw(huge)), {huge}));
    EXPECT_TRUE(refuses(B().add("k", T::string, B::raw(huge)), {huge}));
  }
}

TEST(Gguf, RefusesDamagedMetadata) {
  EXPECT_TRUE(refuses(B().add("k", T::array, B::raw(T::array) + B::raw<uint64_t>(0)), {"k"}));
  EXPECT_TRUE(refuses(B().add("k", static_cast<T>(13), "abcdefgh"), {"k", 13}));
  EXPECT_TRUE(refuses(B().add("k", T::boolean, B::raw<uint8_t>(2)), {"k", 0, 1, 2}));
  EXPECT_TRUE(refuses(B().add("k", T::array, B::numbers<uint8_t>(T::boolean, {0, 1, 7})), {"k", 0, 1, 7}));
  EXPECT_TRUE(refuses(B().add("", 1)));
  EXPECT_TRUE(refuses(B().add(std::string(1025, 'k'), 1), {1024, 1025}));
  EXPECT_TRUE(refuses(B().add("k", 1).add("j", 2).add("k", 3), {"k"}));
  EXPECT_TRUE(refuses(B().add("k", std::string((16 << 20) + 1, 'x')), {16 << 20, (16 << 20) + 1}));
  const std::string good = B().add("key", "value").add("list", T::array, B::texts({"a", "b"})).file();
  for (size_t n = 0; n < good.size() - 32; ++n)
    EXPECT_TRUE(refuses(good.substr(0, n)));
}

TEST(Gguf, RefusesImpossibleTensors) {
  const std::string data(4096, 'x');
  const auto with = [&](const std::vector<uint64_t>& dims, std::initializer_list<Fact> facts,
                        uint32_t type = 0, uint64_t offset = 0) {
    const B bytes = B().tensor("t", dims, type, offset);
    EXPECT_TRUE(refuses(bytes, {"t"}, data));
    EXPECT_TRUE(refuses(bytes, facts, data));
  };
  with({0}, {1, "[0]"});
  with({4, 0, 4}, {1, "[4,0,4]"});
  with({uint64_t{1} << 63}, {1, "[-9223372036854775808]"});
  with({~uint64_t{0}, 2}, {1, "[2,-1]"});
  // The products overflow to 0, to negative values and to small values.
  with({uint64_t{1} << 32, uint64_t{1} << 32}, {"[4294967296,4294967296]"});
  with({uint64_t{1} << 32, uint64_t{1} << 31}, {"[2147483648,4294967296]"});
  with({uint64_t{1} << 62, 4}, {"[4,4611686018427387904]"});
  with({uint64_t{1} << 61}, {"[2305843009213693952]"});
  with({uint64_t{1} << 61}, {(uint64_t{1} << 61) / 256 * 144, 4096}, 12);
  with({1, 1, 1, 1, 1}, {4, 5});
  with({4}, {99}, 99);
  with({4}, {4}, 4);  // Q4_2, which no longer exists
  with({33}, {"Q4_0", 32, "[33]"}, 2);
  with({48, 2}, {"IQ4_NL", 32, "[2,48]"}, 20);
  with({128, 2}, {"Q4_K", 256, "[2,128]"}, 12);
  with({4}, {16, 4096}, 0, 4096);
  with({4}, {16, ~uint64_t{31}, 4096}, 0, ~uint64_t{31});
  with({1025}, {4100, 4096});
}

TEST(Gguf, RefusesTensorsThatOverlapOrShareANameOrHaveNone) {
  const std::string data(4096, 'x');
  EXPECT_TRUE(refuses(B().tensor("x", {16}, 0, 0).tensor("y", {16}, 0, 32), {"x", "y"}, data));
  EXPECT_TRUE(refuses(B().tensor("x", {16}, 0, 0).tensor("y", {16}, 0, 0), {"x", "y"}, data));
  EXPECT_TRUE(refuses(B().tensor("x", {8}, 0, 0).tensor("x", {8}, 0, 32), {"x"}, data));
  EXPECT_TRUE(refuses(B().tensor("x", {8}, 0, 0).tensor("x", {8}, 25, 32), {"x"}, data));
  EXPECT_TRUE(refuses(B().tensor("", {8}, 0, 0), {}, data));
  EXPECT_TRUE(refuses(B().tensor(std::string(1025, 'n'), {8}, 0, 0), {1024, 1025}, data));
}

TEST(Gguf, SurvivesAHundredThousandTensorsAndStrings) {
  B b;
  std::vector<std::string> words;
  for (uint64_t i = 0; i < 100'000; ++i) {
    b.tensor("layer." + std::to_string(i * 7919 % 100'000), {1}, 0, i * 32);
    words.push_back(std::to_string(i));
  }
  for (uint32_t i = 0; i < 60'000; ++i)
    b.add("key." + std::to_string(i * 7919 % 60'000), i);
  b.add("words", T::array, B::texts(words));
  const std::string file = b.file(std::string(3'200'000, 'x'));
  const GgufFile f(as_bytes(file), "t");
  EXPECT_EQ(f.tensors().size(), 100'000u);
  EXPECT_EQ(f.find("layer.7919"), &f.tensors()[1]);
  EXPECT_EQ(f.integer("key.7919"), 1);
  EXPECT_EQ(f.strings("words")->back(), "99999");
  EXPECT_TRUE(refuses(b.tensor("layer.5", {1}, 0, 3'200'000), {"layer.5"}, std::string(3'200'004, 'x')));
}

}  // namespace
}  // namespace gpt
