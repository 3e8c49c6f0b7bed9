#include "io/gguf.h"

#include "unit/io/gguf_bytes.h"
#include "unit/io/io_test_util.h"

namespace gpt {
namespace {

using T = GgufType;
using B = GgufBytes;

std::string message(const std::string& file) {
  return error_of([&] { GgufFile(as_bytes(file), "t"); });
}
std::string message(const GgufBytes& bytes, const std::string& data = "") {
  return message(bytes.file(data));
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
  const GgufFile f(as_bytes(file), "t");
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
  EXPECT_HAS(error_of([&] { f.need_string("absent"); }), "expected the metadata to have \"absent\"");
  EXPECT_HAS(error_of([&] { f.string("u8"); }), "to be a string, found type 0");
  EXPECT_HAS(error_of([&] { f.integer("f32"); }), "to be an integer");
  EXPECT_HAS(error_of([&] { f.integer("ids"); }), "found an array of type 5");
  EXPECT_HAS(error_of([&] { f.strings("text"); }), "to be an array of strings");
  EXPECT_HAS(error_of([&] { f.boolean("u8"); }), "to be a boolean");
}

TEST(Gguf, ReadsTensorsWithTheSlowestDimensionFirst) {
  const std::string data(1024, '\2');
  const std::string file = B().tensor("b", {4, 3}, 0, 64)
                               .tensor("a", {256, 2}, 12, 128)
                               .tensor("c", {}, 1, 0)
                               .tensor("x", {2}, 25, 32)
                               .file(data);
  const GgufFile f(as_bytes(file), "t");
  ASSERT_EQ(f.tensors().size(), 3u);
  EXPECT_EQ(f.find("b")->shape, (Shape{3, 4}));
  EXPECT_EQ(f.find("b")->bytes.size(), 48u);
  EXPECT_EQ(f.find("b")->bytes.data(), as_bytes(file).data() + file.size() - 1024 + 64);
  EXPECT_EQ(f.find("a")->dtype, DType::q4_k);
  EXPECT_EQ(f.find("a")->bytes.size(), 288u);
  EXPECT_TRUE(f.find("c")->shape.empty());
  EXPECT_EQ(f.find("none"), nullptr);
  ASSERT_EQ(f.unsupported().size(), 1u);
  EXPECT_HAS(error_of([&] { f.find("x"); }), "has the type I16");
}

TEST(Gguf, KnowsTheSizeOfEveryTypeThatItComputesWith) {
  const std::pair<uint32_t, uint64_t> bytes_of_256[] = {{0, 1024}, {1, 512},  {2, 144},  {3, 160},
                                                        {6, 176},  {7, 192},  {8, 272},  {12, 144},
                                                        {13, 176}, {14, 210}, {20, 144}, {30, 512}};
  for (const auto& [type, bytes] : bytes_of_256) {
    const B b = B().tensor("t", {256}, type, 0);
    const std::string file = b.file(std::string(bytes, 'x'));
    EXPECT_EQ(GgufFile(as_bytes(file), "t").tensors()[0].bytes.size(), bytes) << type;
    EXPECT_HAS(message(b, std::string(bytes - 1, 'x')), "damaged or incomplete") << type;
  }
}

TEST(Gguf, AlignmentIsWhatTheFileSays) {
  B b = B().add("general.alignment", 64).tensor("a", {1}, 0, 0).tensor("b", {1}, 0, 64);
  b.alignment = 64;
  const std::string file = b.file(std::string(68, 'x'));
  EXPECT_EQ(GgufFile(as_bytes(file), "t").find("b")->bytes.data(), as_bytes(file).data() + file.size() - 4);
  for (const uint32_t bad : {0u, 3u, 48u, 0x80000000u}) {
    EXPECT_HAS(message(B().add("general.alignment", bad)), "power of two") << bad;
  }
  EXPECT_HAS(message(B().add("general.alignment", T::u64, B::raw<uint64_t>(32))),
             "unsigned number of 32 bits");
  EXPECT_HAS(message(B().add("general.alignment", "32")), "unsigned number of 32 bits");
  EXPECT_HAS(message(B().tensor("a", {1}, 0, 4), std::string(64, 'x')), "expected a multiple of 32");
}

TEST(Gguf, RefusesWhatIsNoGguf) {
  EXPECT_HAS(message(""), "not a GGUF file");
  EXPECT_HAS(message("GGU"), "not a GGUF file");
  EXPECT_HAS(message("GGML" + std::string(60, '\0')), "not a GGUF file");
  EXPECT_HAS(message("GGUF\3"), "damaged or incomplete");
  for (const uint32_t version : {0u, 1u, 4u}) {
    B b;
    b.version = version;
    EXPECT_HAS(message(b), "found version " + std::to_string(version));
  }
  B big;
  big.version = 0x03000000;
  EXPECT_HAS(message(big), "big-endian");
}

TEST(Gguf, ChecksCountsBeforeAnythingIsAllocated) {
  for (const uint64_t huge : {uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}, uint64_t{100'000}}) {
    B tensors, entries;
    tensors.n_tensors = entries.n_entries = huge;
    EXPECT_NE(message(tensors).find("tensors"), std::string::npos);
    EXPECT_NE(message(entries).find("metadata entries"), std::string::npos);
    EXPECT_NE(message(B().add("k", T::array, B::raw(T::u8) + B::raw(huge))).find("elements of an array"),
              std::string::npos);
    EXPECT_NE(message(B().add("k", T::array, B::raw(T::string) + B::raw(huge))).find("elements"),
              std::string::npos);
    EXPECT_NE(message(B().add("k", T::string, B::raw(huge))).find("a metadata value"), std::string::npos);
  }
}

TEST(Gguf, RefusesDamagedMetadata) {
  EXPECT_HAS(message(B().add("k", T::array, B::raw(T::array) + B::raw<uint64_t>(0))), "array of arrays");
  EXPECT_HAS(message(B().add("k", static_cast<T>(13), "abcdefgh")), "unknown type 13");
  EXPECT_HAS(message(B().add("k", T::boolean, B::raw<uint8_t>(2))), "expected 0 or 1");
  EXPECT_HAS(message(B().add("k", T::array, B::numbers<uint8_t>(T::boolean, {0, 1, 7}))), "expected 0 or 1");
  EXPECT_HAS(message(B().add("", 1)), "key is empty");
  EXPECT_HAS(message(B().add(std::string(1025, 'k'), 1)), "longer than 1024");
  EXPECT_HAS(message(B().add("k", 1).add("j", 2).add("k", 3)), "\"k\" occurs twice");
  EXPECT_HAS(message(B().add("k", std::string((16 << 20) + 1, 'x'))), "longer than");
  const std::string good = B().add("key", "value").add("list", T::array, B::texts({"a", "b"})).file();
  for (size_t n = 0; n < good.size() - 32; ++n)
    EXPECT_FALSE(message(good.substr(0, n)).empty());
}

TEST(Gguf, RefusesImpossibleTensors) {
  const std::string data(4096, 'x');
  const auto with = [&](const std::vector<uint64_t>& dims, uint32_t type = 0, uint64_t offset = 0) {
    return message(B().tensor("t", dims, type, offset), data);
  };
  EXPECT_HAS(with({0}), "dimensions of 1 or more");
  EXPECT_HAS(with({4, 0, 4}), "dimensions of 1 or more");
  EXPECT_HAS(with({uint64_t{1} << 63}), "dimensions of 1 or more");
  EXPECT_HAS(with({~uint64_t{0}, 2}), "dimensions of 1 or more");
  // Products that wrap to 0, to negative and to something small.
  EXPECT_HAS(with({uint64_t{1} << 32, uint64_t{1} << 32}), "is not possible");
  EXPECT_HAS(with({uint64_t{1} << 32, uint64_t{1} << 31}), "is not possible");
  EXPECT_HAS(with({uint64_t{1} << 62, 4}), "is not possible");
  EXPECT_HAS(with({uint64_t{1} << 61}), "is not possible");
  EXPECT_HAS(with({uint64_t{1} << 61}, 12), "damaged or incomplete");
  EXPECT_HAS(with({1, 1, 1, 1, 1}), "at most 4 dimensions");
  EXPECT_HAS(with({4}, 99), "unknown type 99");
  EXPECT_HAS(with({4}, 4), "unknown type 4");  // Q4_2, long gone
  EXPECT_HAS(with({33}, 2), "whole blocks of 32");
  EXPECT_HAS(with({48, 2}, 20), "rows of IQ4_NL are whole blocks of 32");
  EXPECT_HAS(with({128, 2}, 12), "whole blocks of 256");
  EXPECT_HAS(with({4}, 0, 4096), "damaged or incomplete");
  EXPECT_HAS(with({4}, 0, ~uint64_t{31}), "damaged or incomplete");
  EXPECT_HAS(with({1025}), "damaged or incomplete");
}

TEST(Gguf, RefusesTensorsThatOverlapOrShareANameOrHaveNone) {
  const std::string data(4096, 'x');
  EXPECT_HAS(message(B().tensor("a", {16}, 0, 0).tensor("b", {16}, 0, 32), data), "\"a\" and \"b\" overlap");
  EXPECT_HAS(message(B().tensor("a", {16}, 0, 0).tensor("b", {16}, 0, 0), data), "overlap");
  EXPECT_HAS(message(B().tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32), data), "occurs twice");
  EXPECT_HAS(message(B().tensor("a", {8}, 0, 0).tensor("a", {8}, 25, 32), data), "occurs twice");
  EXPECT_HAS(message(B().tensor("", {8}, 0, 0), data), "is empty");
  EXPECT_HAS(message(B().tensor(std::string(1025, 'n'), {8}, 0, 0), data), "longer than 1024");
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
  EXPECT_HAS(message(b.tensor("layer.5", {1}, 0, 3'200'000), std::string(3'200'004, 'x')),
             "\"layer.5\" occurs twice");
}

}  // namespace
}  // namespace gpt
