#include "io/safetensors.h"

#include <cstring>

#include "unit/io/io_test_util.h"

namespace gpt {
namespace {

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, uint64_t begin,
                  uint64_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

std::string error_in(const std::string& file) {
  return error_of([&] { SafetensorsFile(as_bytes(file), "weights.st"); });
}
testing::AssertionResult refuses(const std::string& file, std::initializer_list<Fact> facts) {
  return refused([&] { SafetensorsFile(as_bytes(file), "weights.st"); }, "weights.st", facts);
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const std::string file = safetensors(
      "{" + entry("b", "F32", "[2,1]", 2, 10) + ",\"__metadata__\":{\"format\":\"pt\",\"e\":\"\"}," +
          entry("a", "BF16", "[]", 0, 2) + "," + entry("z", "I64", "[0,3]", 10, 10) + "}   ",
      10);
  const SafetensorsFile f(as_bytes(file), "t");
  ASSERT_EQ(f.tensors().size(), 3u);
  EXPECT_EQ(f.tensors()[0].name, "a");
  EXPECT_EQ(f.tensors()[0].dtype, DType::bf16);
  EXPECT_TRUE(f.tensors()[0].shape.empty());
  EXPECT_EQ(f.tensors()[1].name, "b");
  EXPECT_EQ(f.tensors()[1].shape, (Shape{2, 1}));
  EXPECT_EQ(f.tensors()[1].bytes.size(), 8u);
  EXPECT_EQ(f.tensors()[1].bytes.data(), as_bytes(file).data() + file.size() - 8);
  EXPECT_EQ(f.find("z")->shape, (Shape{0, 3}));
  EXPECT_EQ(f.find("zz"), nullptr);
  EXPECT_EQ(f.find("__metadata__"), nullptr);
  EXPECT_EQ(f.metadata().at("format"), "pt");
  EXPECT_EQ(f.metadata().size(), 2u);
}

TEST(Safetensors, KnowsEveryTypeAndItsSize) {
  const std::pair<const char*, DType> known[] = {
      {"F32", DType::f32}, {"F64", DType::f64}, {"F16", DType::f16}, {"BF16", DType::bf16},
      {"I64", DType::i64}, {"I32", DType::i32}, {"U8", DType::u8}};
  for (const auto& [name, dtype] : known) {
    const size_t bytes = 3 * dtype_size(dtype);
    const std::string good = safetensors("{" + entry("t", name, "[3]", 0, bytes) + "}", bytes);
    EXPECT_EQ(SafetensorsFile(as_bytes(good), "t").find("t")->dtype, dtype) << name;
    const std::string bad = safetensors("{" + entry("t", name, "[3]", 0, bytes + 1) + "}", bytes + 1);
    EXPECT_TRUE(refuses(bad, {"t", name, "[3]", bytes, bytes + 1}));
  }
}

TEST(Safetensors, UnsupportedTypesAreCheckedButFailOnlyWhenAskedFor) {
  const std::pair<const char*, size_t> foreign[] = {{"BOOL", 1}, {"I8", 1},  {"I16", 2},     {"U16", 2},
                                                    {"U32", 4},  {"U64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (const auto& [name, size] : foreign) {
    const std::string good = safetensors("{" + entry("m", name, "[2]", 0, 2 * size) + "," +
                                             entry("w", "U8", "[1]", 2 * size, 2 * size + 1) + "}",
                                         2 * size + 1);
    const SafetensorsFile f(as_bytes(good), "t");
    EXPECT_EQ(f.tensors().size(), 1u);
    ASSERT_EQ(f.unsupported().size(), 1u);
    EXPECT_EQ(f.unsupported()[0].dtype, name);
    EXPECT_NE(f.find("w"), nullptr);
    EXPECT_TRUE(refused([&] { f.find("m"); }, "t", {"m", name}));
    const std::string bad = safetensors("{" + entry("m", name, "[3]", 0, 2 * size) + "}", 2 * size);
    EXPECT_TRUE(refuses(bad, {"m", name, "[3]", 3 * size, 2 * size}));
  }
}

TEST(Safetensors, SaysWhetherATensorIsAligned) {
  std::string header = "{" + entry("a", "U8", "[1]", 0, 1) + "," + entry("b", "F32", "[1]", 1, 5) + "}";
  header.append(8 - header.size() % 8, ' ');
  alignas(8) std::byte buffer[512];
  const std::string file = safetensors(header, 5);
  ASSERT_LE(file.size(), sizeof buffer);
  std::memcpy(buffer, file.data(), file.size());
  const SafetensorsFile f({buffer, file.size()}, "t");
  EXPECT_TRUE(is_aligned(*f.find("a")));
  EXPECT_FALSE(is_aligned(*f.find("b")));
}

TEST(Safetensors, IgnoresUnknownFieldsOfAnEntry) {
  const std::string file = safetensors(
      R"({"a":{"x":1,"y":{"dtype":3,"z":[[],{}]},"dtype":"U8","w":null,"shape":[1],"v":[1,"2",[3]],)"
      R"("data_offsets":[0,1],"u":-1.5,"t":"s"}})",
      1);
  EXPECT_EQ(SafetensorsFile(as_bytes(file), "t").find("a")->bytes.size(), 1u);
}

TEST(Safetensors, SurvivesAHundredThousandTensors) {
  std::string header = "{";
  for (uint64_t i = 0; i < 100'000; ++i) {
    header += (i ? "," : "") + entry("layer." + std::to_string(i * 7919 % 100'000), "U8", "[1]", i, i + 1);
  }
  const std::string file = safetensors(header + "}", 100'000);
  const SafetensorsFile f(as_bytes(file), "t");
  EXPECT_EQ(f.tensors().size(), 100'000u);
  EXPECT_EQ(f.find("layer.7919")->bytes.data(), f.tensors()[1].bytes.data());
  const std::string twice =
      safetensors(header + "," + entry("layer.5", "U8", "[0]", 100'000, 100'000) + "}", 100'000);
  EXPECT_TRUE(refuses(twice, {"layer.5"}));
}

TEST(Safetensors, BoundsWhatAHeaderMayAskFor) {
  EXPECT_TRUE(refuses(safetensors("{" + entry(std::string(1025, 'n'), "U8", "[0]", 0, 0) + "}"), {1024}));
  EXPECT_TRUE(refuses(safetensors("{" + entry("w", "U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) + "}", 1), {"w", 8}));
  const std::string text = "{\"__metadata__\":{\"k\":\"" + std::string(size_t{9} << 20, 'x') + "\"}}";
  EXPECT_TRUE(names(error_in(safetensors(text)), {"weights.st", "column 22", 8 << 20}));
  std::string many = "{\"__metadata__\":{";
  for (int i = 0; i < 5; ++i)
    many += "\"" + std::to_string(i) + "\":\"" + std::string(size_t{7} << 20, 'x') + "\",";
  EXPECT_TRUE(refuses(safetensors(many + "\"e\":\"\"}}"), {32 << 20}));
  std::string keys = "{\"__metadata__\":{\"k\":\"\"";
  for (int i = 0; i < 65'536; ++i)
    keys += ",\"" + std::to_string(i) + "\":\"\"";
  EXPECT_TRUE(refuses(safetensors(keys + "}}"), {65536}));
  std::string tensors = "{" + entry("t", "U8", "[0]", 0, 0);
  for (int i = 0; i < 1 << 18; ++i)
    tensors += "," + entry(std::to_string(i), "U8", "[0]", 0, 0);
  EXPECT_TRUE(refuses(safetensors(tensors + "}"), {262144}));
}

struct Hostile {
  const char* why;
  std::string bytes;
  std::vector<Fact> facts;  // must be in the message for the user
};

std::vector<Hostile> hostile_files() {
  const auto one = [](const std::string& fields, size_t body) {
    return safetensors("{\"w\":{" + fields + "}}", body);
  };
  const auto shaped = [&](const std::string& shape, uint64_t end, size_t body) {
    return safetensors("{" + entry("w", "F32", shape, 0, end) + "}", body);
  };
  const std::string w = entry("w", "U8", "[4]", 0, 4);
  return {
      {"empty file", "", {8, 0}},
      {"seven bytes", std::string(7, '\0'), {8, 7}},
      {"no header", little_endian(0), {"'{'"}},
      {"header longer than the file", little_endian(3) + "{}", {3, 2}},
      {"header length that wraps", little_endian(UINT64_MAX) + "{}", {100000000, UINT64_MAX}},
      {"header length INT64_MIN", little_endian(uint64_t{1} << 63) + "{}", {100000000, uint64_t{1} << 63}},
      {"header over 100 MB", little_endian(100'000'001) + "{}", {100000000, 100000001}},
      {"leading blank", safetensors(" {}"), {"'{'", "\" \""}},
      {"an array", safetensors("[]"), {"'{'", "\"[\""}},
      {"byte order mark", safetensors("\xef\xbb\xbf{}"), {"'{'", "\"\\xef\""}},
      {"unfinished JSON", safetensors("{"), {"JSON", "line 1", "column 2"}},
      {"two values", safetensors("{}{}"), {"JSON", "line 1", "column 3"}},
      {"NUL after the header", safetensors(std::string("{}\0x", 4)), {"JSON", "NUL", "column 3"}},
      {"invalid UTF-8 name", safetensors("{\"\xff\":{}}"), {"JSON", "line 1", "column 3"}},
      {"lone surrogate", safetensors("{\"\\ud800\":{}}"), {"JSON", "line 1", "column 9"}},
      {"empty name", safetensors("{" + entry("", "U8", "[0]", 0, 0) + "}"), {}},
      {"duplicate tensor", safetensors("{" + w + "," + w + "}", 4), {"w", 0, 4}},
      {"duplicate empty tensor",
       safetensors("{" + entry("e", "U8", "[0]", 0, 0) + "," + entry("e", "U8", "[0]", 0, 0) + "}"),
       {"e"}},
      {"duplicate under another spelling",
       safetensors("{" + entry("e", "U8", "[0]", 0, 0) + "," + entry("\\u0065", "U8", "[0]", 0, 0) + "}"),
       {"e"}},
      {"duplicate across supported and not",
       safetensors("{" + entry("e", "U8", "[0]", 0, 0) + "," + entry("e", "BOOL", "[0]", 0, 0) + "}"),
       {"e"}},
      {"duplicate metadata", safetensors(R"({"__metadata__":{},"__metadata__":{}})"), {"__metadata__"}},
      {"duplicate metadata key", safetensors(R"({"__metadata__":{"k":"1","k":"2"}})"), {"k", "__metadata__"}},
      {"duplicate field",
       one(R"("dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0])", 0),
       {"dtype", "w"}},
      {"metadata number", safetensors(R"({"__metadata__":{"k":1}})"), {"k"}},
      {"metadata object", safetensors(R"({"__metadata__":{"k":{}}})"), {"k"}},
      {"metadata string", safetensors(R"({"__metadata__":"x"})"), {"__metadata__"}},
      {"deep metadata", safetensors("{\"__metadata__\":" + std::string(5000, '[')), {"JSON", "column 24", 8}},
      {"deep unknown field", one("\"x\":" + std::string(5000, '['), 0), {"JSON", "column 17", 8}},
      {"entry is a number", safetensors(R"({"w":1})"), {"w"}},
      {"entry is null", safetensors(R"({"w":null})"), {"w", "null"}},
      {"no dtype", one(R"("shape":[0],"data_offsets":[0,0])", 0), {"w", "dtype"}},
      {"no shape", one(R"("dtype":"U8","data_offsets":[0,0])", 0), {"w", "shape"}},
      {"no offsets", one(R"("dtype":"U8","shape":[0])", 0), {"w", "data_offsets"}},
      {"unknown type", safetensors("{" + entry("w", "F31", "[1]", 0, 4) + "}", 4), {"w", "F31"}},
      {"type in small letters", safetensors("{" + entry("w", "f32", "[1]", 0, 4) + "}", 4), {"w", "f32"}},
      {"type is a number", one(R"("dtype":1,"shape":[0],"data_offsets":[0,0])", 0), {"w", "dtype"}},
      {"shape is a number", one(R"("dtype":"U8","shape":1,"data_offsets":[0,1])", 1), {"w", "shape"}},
      {"negative dimension", shaped("[-1]", 4, 4), {"w", "shape"}},
      {"fractional dimension", shaped("[1.0]", 4, 4), {"w", "shape"}},
      {"nested shape", shaped("[[1]]", 4, 4), {"w", "shape"}},
      {"dimension 2^63", shaped("[9223372036854775808]", 4, 4), {"w", uint64_t{1} << 63}},
      {"dimension 2^64", shaped("[18446744073709551616]", 4, 4), {"w", "shape"}},
      {"count wraps to 0 (2^32 * 2^32)",
       shaped("[4294967296,4294967296]", 0, 0),
       {"w", "[4294967296,4294967296]"}},
      {"count wraps to 4", shaped("[4611686018427387905,4]", 16, 16), {"w", "[4611686018427387905,4]"}},
      {"count wraps to negative", shaped("[4294967296,2147483648]", 4, 4), {"w", "[4294967296,2147483648]"}},
      {"bytes wrap to 0 (2^62 * 4)", shaped("[4611686018427387904]", 0, 0), {"w", "[4611686018427387904]"}},
      {"zero hides an overflow",
       shaped("[0,4294967296,4294967296]", 0, 0),
       {"w", "[1,4294967296,4294967296]"}},
      {"larger than the file", shaped("[1000]", 4000, 4), {"w", "[0,4000)", 4}},
      {"shape larger than the range", shaped("[2]", 4, 4), {"w", "[2]", 8, 4}},
      {"shape smaller than the range", shaped("[1]", 8, 8), {"w", "[1]", 4, 8}},
      {"zero dimension with bytes", shaped("[0]", 4, 4), {"w", "[0]", 0, 4}},
      {"end before begin", safetensors("{" + entry("w", "U8", "[0]", 4, 0) + "}", 4), {"w", "[4,0)", 4}},
      {"offsets near 2^64",
       safetensors("{" + entry("w", "U8", "[1]", UINT64_MAX - 1, UINT64_MAX) + "}", 1),
       {"w", "[18446744073709551614,18446744073709551615)", 1}},
      {"negative offset", one(R"("dtype":"U8","shape":[1],"data_offsets":[-1,0])", 1), {"w", "data_offsets"}},
      {"one offset", one(R"("dtype":"U8","shape":[1],"data_offsets":[0])", 1), {"w", "data_offsets"}},
      {"three offsets", one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])", 1), {"w", "data_offsets"}},
      {"hole at the start", safetensors("{" + entry("w", "U8", "[4]", 4, 8) + "}", 8), {"w", 4, 0}},
      {"hole in the middle",
       safetensors("{" + w + "," + entry("q", "U8", "[4]", 8, 12) + "}", 12),
       {"q", 8, 4}},
      {"overlap", safetensors("{" + w + "," + entry("q", "U8", "[4]", 2, 6) + "}", 6), {"q", 2, 4}},
      {"one inside the other",
       safetensors("{" + w + "," + entry("q", "U8", "[2]", 1, 3) + "}", 4),
       {"q", 1, 4}},
      {"trailing bytes", safetensors("{" + w + "}", 5), {4, 5}},
      {"truncated body", safetensors("{" + w + "}", 3), {"w", "[0,4)", 3}},
      {"only a body", safetensors("{}", 1), {0, 1}},
      {"half a byte", safetensors("{" + entry("w", "F4", "[3]", 0, 1) + "}", 1), {"w", "[3]", "F4"}},
  };
}

TEST(Safetensors, RejectsEveryHostileFileWithAUsefulMessage) {
  for (const Hostile& h : hostile_files()) {
    SCOPED_TRACE(h.why);
    const std::string message = error_in(h.bytes);
    EXPECT_TRUE(names(message, {"weights.st"}));
    for (const Fact& fact : h.facts)
      EXPECT_TRUE(names(message, {fact}));
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(Safetensors, RejectsWhatIsNotAFile) {
  const TempDir dir;
  EXPECT_TRUE(names(error_of([&] { SafetensorsFile(dir.file("none")); }), {dir.file("none")}));
  EXPECT_TRUE(names(error_of([&] { SafetensorsFile(dir.path()); }), {dir.path()}));
  EXPECT_TRUE(names(error_of([&] { SafetensorsFile("/dev/null"); }), {"/dev/null"}));
  write_text(dir.file("empty"), "");
  EXPECT_TRUE(refused([&] { SafetensorsFile(dir.file("empty")); }, dir.file("empty"), {8, 0}));
}

TEST(Safetensors, StaysValidWhenMoved) {
  const TempDir dir;
  write_text(dir.file("m"), safetensors("{" + entry("a", "U8", "[4]", 0, 4) + "}", 4));
  SafetensorsFile first(dir.file("m"));
  const SafetensorsFile second(std::move(first));
  EXPECT_EQ(second.find("a")->bytes[3], std::byte{1});
}

}  // namespace
}  // namespace gpt
