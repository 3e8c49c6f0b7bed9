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
    EXPECT_HAS(error_of([&] { SafetensorsFile(as_bytes(bad), "t"); }), "needs");
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
    EXPECT_HAS(error_of([&] { f.find("m"); }), name);
    const std::string bad = safetensors("{" + entry("m", name, "[3]", 0, 2 * size) + "}", 2 * size);
    EXPECT_HAS(error_of([&] { SafetensorsFile(as_bytes(bad), "t"); }), "needs");
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
  EXPECT_HAS(error_of([&] { SafetensorsFile(as_bytes(twice), "t"); }), "\"layer.5\" occurs twice");
}

TEST(Safetensors, BoundsWhatAHeaderMayAskFor) {
  const auto message = [](const std::string& header, size_t body = 0) {
    const std::string file = safetensors(header, body);
    return error_of([&] { SafetensorsFile(as_bytes(file), "t"); });
  };
  EXPECT_HAS(message("{" + entry(std::string(1025, 'n'), "U8", "[0]", 0, 0) + "}"), "longer than 1024");
  EXPECT_HAS(message("{" + entry("a", "U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) + "}", 1), "more than 8 dimensions");
  EXPECT_HAS(message("{\"__metadata__\":{\"k\":\"" + std::string(size_t{9} << 20, 'x') + "\"}}"),
             "string longer");
  std::string many = "{\"__metadata__\":{";
  for (int i = 0; i < 5; ++i)
    many += "\"" + std::to_string(i) + "\":\"" + std::string(size_t{7} << 20, 'x') + "\",";
  EXPECT_HAS(message(many + "\"e\":\"\"}}"), "names and metadata take more than");
  std::string keys = "{\"__metadata__\":{\"k\":\"\"";
  for (int i = 0; i < 65'536; ++i)
    keys += ",\"" + std::to_string(i) + "\":\"\"";
  EXPECT_HAS(message(keys + "}}"), "at most 65536 metadata entries");
  std::string tensors = "{" + entry("t", "U8", "[0]", 0, 0);
  for (int i = 0; i < 1 << 18; ++i)
    tensors += "," + entry(std::to_string(i), "U8", "[0]", 0, 0);
  EXPECT_HAS(message(tensors + "}"), "at most 262144 tensors");
}

struct Hostile {
  const char* why;
  std::string bytes;
  const char* message;  // must be part of what the user reads
};

std::vector<Hostile> hostile_files() {
  const auto one = [](const std::string& fields, size_t body) {
    return safetensors("{\"a\":{" + fields + "}}", body);
  };
  const auto shaped = [&](const std::string& shape, uint64_t end, size_t body) {
    return safetensors("{" + entry("a", "F32", shape, 0, end) + "}", body);
  };
  const std::string a = entry("a", "U8", "[4]", 0, 4);
  return {
      {"empty file", "", "at least 8 bytes"},
      {"seven bytes", std::string(7, '\0'), "at least 8 bytes"},
      {"no header", little_endian(0), "start with '{'"},
      {"header longer than the file", little_endian(3) + "{}", "should have 3 bytes, found 2"},
      {"header length that wraps", little_endian(UINT64_MAX) + "{}", "at most 100000000"},
      {"header length INT64_MIN", little_endian(uint64_t{1} << 63) + "{}", "at most 100000000"},
      {"header over 100 MB", little_endian(100'000'001) + "{}", "at most 100000000"},
      {"leading blank", safetensors(" {}"), "start with '{'"},
      {"an array", safetensors("[]"), "start with '{'"},
      {"byte order mark", safetensors("\xef\xbb\xbf{}"), "start with '{'"},
      {"unfinished JSON", safetensors("{"), "not valid JSON"},
      {"two values", safetensors("{}{}"), "not valid JSON"},
      {"NUL after the header", safetensors(std::string("{}\0x", 4)), "NUL"},
      {"invalid UTF-8 name", safetensors("{\"\xff\":{}}"), "not valid JSON"},
      {"lone surrogate", safetensors("{\"\\ud800\":{}}"), "not valid JSON"},
      {"empty name", safetensors("{" + entry("", "U8", "[0]", 0, 0) + "}"), "empty name"},
      {"duplicate tensor", safetensors("{" + a + "," + a + "}", 4), "at byte"},
      {"duplicate empty tensor",
       safetensors("{" + entry("e", "U8", "[0]", 0, 0) + "," + entry("e", "U8", "[0]", 0, 0) + "}"),
       "occurs twice"},
      {"duplicate under another spelling",
       safetensors("{" + entry("e", "U8", "[0]", 0, 0) + "," + entry("\\u0065", "U8", "[0]", 0, 0) + "}"),
       "occurs twice"},
      {"duplicate across supported and not",
       safetensors("{" + entry("e", "U8", "[0]", 0, 0) + "," + entry("e", "BOOL", "[0]", 0, 0) + "}"),
       "occurs twice"},
      {"duplicate metadata", safetensors(R"({"__metadata__":{},"__metadata__":{}})"), "duplicate key"},
      {"duplicate metadata key", safetensors(R"({"__metadata__":{"k":"1","k":"2"}})"),
       R"(duplicate key "k" in "__metadata__")"},
      {"duplicate field", one(R"("dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0])", 0),
       "duplicate key \"dtype\" in"},
      {"metadata number", safetensors(R"({"__metadata__":{"k":1}})"), "expected a string for the metadata"},
      {"metadata object", safetensors(R"({"__metadata__":{"k":{}}})"), "expected a string for the metadata"},
      {"metadata string", safetensors(R"({"__metadata__":"x"})"), "expected an object"},
      {"deep metadata", safetensors("{\"__metadata__\":" + std::string(5000, '[')), "nested deeper than 8"},
      {"deep unknown field", one("\"x\":" + std::string(5000, '['), 0), "nested deeper than 8"},
      {"entry is a number", safetensors(R"({"a":1})"), "expected an object for \"a\""},
      {"entry is null", safetensors(R"({"a":null})"), "expected an object for \"a\""},
      {"no dtype", one(R"("shape":[0],"data_offsets":[0,0])", 0), "has no dtype"},
      {"no shape", one(R"("dtype":"U8","data_offsets":[0,0])", 0), "has no shape"},
      {"no offsets", one(R"("dtype":"U8","shape":[0])", 0), "has no data_offsets"},
      {"unknown type", safetensors("{" + entry("a", "F31", "[1]", 0, 4) + "}", 4), "unknown type \"F31\""},
      {"type in small letters", safetensors("{" + entry("a", "f32", "[1]", 0, 4) + "}", 4), "unknown type"},
      {"type is a number", one(R"("dtype":1,"shape":[0],"data_offsets":[0,0])", 0), "a string for dtype"},
      {"shape is a number", one(R"("dtype":"U8","shape":1,"data_offsets":[0,1])", 1), "an array for shape"},
      {"negative dimension", shaped("[-1]", 4, 4), "found a negative number"},
      {"fractional dimension", shaped("[1.0]", 4, 4), "found a fraction"},
      {"nested shape", shaped("[[1]]", 4, 4), "found an array"},
      {"dimension 2^63", shaped("[9223372036854775808]", 4, 4), "impossible dimension"},
      {"dimension 2^64", shaped("[18446744073709551616]", 4, 4), "found a fraction or huge"},
      {"count wraps to 0 (2^32 * 2^32)", shaped("[4294967296,4294967296]", 0, 0), "not possible"},
      {"count wraps to 4", shaped("[4611686018427387905,4]", 16, 16), "not possible"},
      {"count wraps to negative", shaped("[4294967296,2147483648]", 4, 4), "not possible"},
      {"bytes wrap to 0 (2^62 * 4)", shaped("[4611686018427387904]", 0, 0), "not possible"},
      {"zero hides an overflow", shaped("[0,4294967296,4294967296]", 0, 0), "not possible"},
      {"larger than the file", shaped("[1000]", 4000, 4), "inside the 4 bytes"},
      {"shape larger than the range", shaped("[2]", 4, 4), "needs 8 bytes, found 4"},
      {"shape smaller than the range", shaped("[1]", 8, 8), "needs 4 bytes, found 8"},
      {"zero dimension with bytes", shaped("[0]", 4, 4), "needs 0 bytes, found 4"},
      {"end before begin", safetensors("{" + entry("a", "U8", "[0]", 4, 0) + "}", 4), "[4,0)"},
      {"offsets near 2^64", safetensors("{" + entry("a", "U8", "[1]", UINT64_MAX - 1, UINT64_MAX) + "}", 1),
       "inside the 1 bytes"},
      {"negative offset", one(R"("dtype":"U8","shape":[1],"data_offsets":[-1,0])", 1), "two whole numbers"},
      {"one offset", one(R"("dtype":"U8","shape":[1],"data_offsets":[0])", 1), "two whole numbers"},
      {"three offsets", one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])", 1), "two whole numbers"},
      {"hole at the start", safetensors("{" + entry("a", "U8", "[4]", 4, 8) + "}", 8), "neither overlap nor"},
      {"hole in the middle", safetensors("{" + a + "," + entry("b", "U8", "[4]", 8, 12) + "}", 12),
       "neither overlap nor"},
      {"overlap", safetensors("{" + a + "," + entry("b", "U8", "[4]", 2, 6) + "}", 6), "neither overlap nor"},
      {"one inside the other", safetensors("{" + a + "," + entry("b", "U8", "[2]", 1, 3) + "}", 4),
       "neither overlap"},
      {"trailing bytes", safetensors("{" + a + "}", 5), "cover 4 bytes, found 5"},
      {"truncated body", safetensors("{" + a + "}", 3), "inside the 3 bytes"},
      {"only a body", safetensors("{}", 1), "cover 0 bytes, found 1"},
      {"half a byte", safetensors("{" + entry("a", "F4", "[3]", 0, 1) + "}", 1), "whole bytes"},
  };
}

TEST(Safetensors, RejectsEveryHostileFileWithAUsefulMessage) {
  for (const Hostile& h : hostile_files()) {
    SCOPED_TRACE(h.why);
    const std::string message = error_of([&] { SafetensorsFile(as_bytes(h.bytes), "weights.st"); });
    EXPECT_HAS(message, "weights.st");
    EXPECT_HAS(message, h.message);
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(Safetensors, RejectsWhatIsNotAFile) {
  const TempDir dir;
  EXPECT_HAS(error_of([&] { SafetensorsFile(dir.file("none")); }), "none");
  EXPECT_HAS(error_of([&] { SafetensorsFile(dir.path()); }), "regular file");
  EXPECT_HAS(error_of([&] { SafetensorsFile("/dev/null"); }), "regular file");
  write_text(dir.file("empty"), "");
  EXPECT_HAS(error_of([&] { SafetensorsFile(dir.file("empty")); }), "at least 8 bytes");
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
