#include "io/torch_file.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "io/safetensors.h"
#include "io/zip.h"
#include "unit/io/io_test_util.h"
#include "unit/io/torch_test_util.h"

namespace gpt {
namespace {

const std::string kData = GPT_SOURCE_DIR "/tests/data/torch/";

testing::AssertionResult rejected(const std::string& bytes, std::initializer_list<Fact> facts = {}) {
  return refused([&] { TorchFile(as_bytes(bytes), "t.pt"); }, "t.pt", facts);
}

// Covers every pickle protocol, as a zip archive and in the format before PyTorch 1.6.
class TorchFormats : public testing::TestWithParam<const char*> {};

TEST_P(TorchFormats, HaveViewsOfEveryType) {
  const TorchFile found(kData + GetParam() + ".pt");
  const SafetensorsFile expected(kData + "views.safetensors");
  EXPECT_EQ(found.tensors().size(), expected.tensors().size());
  for (const TensorInfo& e : expected.tensors()) {
    const TensorInfo* f = found.find(e.name);
    ASSERT_NE(f, nullptr) << e.name;
    EXPECT_EQ(f->dtype, e.dtype) << e.name;
    EXPECT_EQ(f->shape, e.shape) << e.name;
    EXPECT_TRUE(std::equal(f->bytes.begin(), f->bytes.end(), e.bytes.begin(), e.bytes.end())) << e.name;
  }
  EXPECT_EQ(found.settings().value("note", ""), "plain");
  EXPECT_EQ(found.find("nothing"), nullptr);
  EXPECT_TRUE(refused([&] { found.find("mask"); }, found.path(), {"mask", "bool"}));
}

INSTANTIATE_TEST_SUITE_P(All, TorchFormats,
                         testing::Values("views", "views-3", "views-4", "views-5", "views-legacy-2",
                                         "views-legacy-3", "views-legacy-4", "views-legacy-5"));

TEST(TorchFile, TensorsWithoutDimensionsAreNumbersInSettings) {
  for (const char* name : {"scalars.pt", "scalars-legacy.pt"}) {
    const TorchFile file(kData + name);
    const nlohmann::json expected = {{"n_layer", 2},    {"n_head", 2},   {"n_embd", 8},
                                     {"block_size", 6}, {"bias", false}, {"vocab_size", 11},
                                     {"dropout", 0.125}};
    EXPECT_EQ(file.settings()["model_args"], expected) << name;
    const nlohmann::json more = {
        {"f64", -2.5}, {"f32", 2.0}, {"f16", 0.5}, {"negative", -3}, {"one", nullptr}};
    EXPECT_EQ(file.settings()["more"], more) << name;
    EXPECT_EQ(file.find("transformer.wte.weight")->shape, (Shape{11, 8}));
  }
}

// Changing or removing any byte of a file causes an error or different values, but never a crash.
TEST(TorchFile, DamageOfTheOldFormatIsAnError) {
  const std::string whole = read_file(kData + "views-legacy-4.pt");
  for (size_t n = 0; n < whole.size(); ++n)
    EXPECT_TRUE(rejected(whole.substr(0, n))) << n;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '\x7f', '\xff', '.'}) {
      std::string damaged = whole;
      damaged[at] = value;
      error_of([&] { TorchFile(as_bytes(damaged), "t.pt"); });
    }
  }
}

TEST(TorchFile, StripsPrefixesAndKeepsSettings) {
  const TorchFile file(kData + "nanogpt.pt");
  EXPECT_NE(file.find("transformer.h.1.attn.c_attn.weight"), nullptr);
  EXPECT_EQ(file.settings()["model_args"]["block_size"], 6);
  EXPECT_EQ(file.settings()["model_args"]["bias"], false);
  EXPECT_EQ(file.settings()["config"]["dataset"], "openwebtext");
}

TEST(TorchFile, RefusesWhatIsNotPlainTensors) {
  const std::pair<const char*, Fact> cases[] = {{"call", "posix.system"},
                                                {"module", "torch.nn.modules.linear.Linear"},
                                                {"legacy-call", "posix.system"},
                                                {"protocol0", "torch.save"},
                                                {"expanded", "x"},
                                                {"twice", "x"},
                                                {"list", "state_dict"},
                                                {"compressed", "plain/byteorder"}};
  for (const auto& [name, fact] : cases) {
    const std::string path = kData + name + ".bad.pt";
    EXPECT_TRUE(refused([&] { TorchFile{path}; }, path, {fact}));
  }
  EXPECT_TRUE(rejected("hello", {"torch.save"}));
  EXPECT_TRUE(rejected("", {"torch.save"}));
}

TEST(TorchFile, ReadsAnArchiveMadeByHand) {
  const std::string bytes = torch_archive(torch_dict("x", pickle_tensor("0", 6, 1, {2, 2}, {2, 1})));
  const TorchFile file(as_bytes(bytes), "t.pt");
  ASSERT_EQ(file.tensors().size(), 1u);
  EXPECT_EQ(file.tensors()[0].shape, (Shape{2, 2}));
  EXPECT_EQ(file.tensors()[0].bytes.size(), 16u);
}

TEST(TorchFile, ChecksEverySizeAndStride) {
  const auto tensor = [](int64_t elements, int64_t offset, const std::vector<int64_t>& shape,
                         const std::vector<int64_t>& strides, std::initializer_list<Fact> facts) {
    const std::string bytes =
        torch_archive(torch_dict("x", pickle_tensor("0", elements, offset, shape, strides)));
    EXPECT_TRUE(rejected(bytes, {"x"}));
    EXPECT_TRUE(rejected(bytes, facts));
  };
  const int64_t huge = INT64_MAX;
  tensor(7, 0, {6}, {1}, {7, 6});
  tensor(huge, 0, {6}, {1}, {huge, 6});
  tensor(6, 1, {6}, {1}, {"[6]", "[1]", 1, 6});
  tensor(6, huge, {6}, {1}, {"[6]", "[1]", huge, 6});
  tensor(6, 0, {2}, {6}, {"[2]", "[6]", 0, 6});
  tensor(6, 0, {3}, {huge}, {"[3]", "[9223372036854775807]", 0, 6});
  tensor(6, 0, {7}, {0}, {7, 6});
  tensor(6, -1, {6}, {1}, {0, -1});
  tensor(6, 0, {-6}, {1}, {0, -6});
  tensor(6, 5, {6}, {-1}, {0, -1});
  tensor(6, 0, {2, 3}, {3}, {2, 1});
  tensor(6, 0, {int64_t{1} << 32, int64_t{1} << 32}, {0, 0}, {"[4294967296,4294967296]"});
  tensor(6, 0, {0, int64_t{1} << 40, int64_t{1} << 40}, {0, 0, 0}, {"[1,1099511627776,1099511627776]"});
  tensor(6, 0, std::vector<int64_t>(9, 1), std::vector<int64_t>(9, 1), {8, 9});
  EXPECT_TRUE(
      rejected(torch_archive(torch_dict("x", pickle_tensor("../0", 6, 0, {6}, {1}))), {"a/data/../0"}));
}

TEST(Pickle, DamageIsAnError) {
  const std::string tensor = pickle_tensor("0", 6, 0, {6}, {1});
  const std::pair<std::string, Fact> cases[] = {
      {"", "byte 3"},
      {"}}", "byte 5"},
      {"}s", "byte 4"},
      {"}u", "byte 4"},
      {"}(Nu", "byte 6"},
      {"}(NK\1Nu", "byte 9"},
      {"Ns", "byte 4"},
      {"NNNs", "byte 6"},
      {"h\5", 5},
      {"q\1", "byte 4"},
      {"X\377\377\377\377", UINT32_MAX},
      {"\x8a\x09", 9},
      {"cos\nsystem\n", "os.system"},
      {"cbuiltins\neval\n", "builtins.eval"},
      {"\x8c\x02os\x8c\x06system\x93", "os.system"},
      {"ctorch\n", 1},
      {"i", "0x69"},
      {"\x81", "0x81"},
      {"P1\n", "0x50"},
      {"NNR", "byte 5"},
      {"N)R", "byte 5"},
      {"Nb", "byte 4"},
  };
  for (const auto& [pickle, fact] : cases)
    EXPECT_TRUE(rejected(torch_archive(pickle), {fact})) << pickle;
  EXPECT_TRUE(rejected(zip_archive({{"a/data.pkl", "\x80\x01}."}}), {2, 5, 1}));
  EXPECT_TRUE(rejected(zip_archive({{"a/data.pkl", "\x80\x02}"}}), {1, 0}));
}

TEST(Pickle, DeepSharedAndEndlessValuesAreBounded) {
  const std::string x = torch_dict("x", pickle_tensor("0", 6, 0, {6}, {1}));
  // A dict that contains itself, a hundred thousand nested lists, and 2^60 leaves in sixty lines.
  const std::string endless = torch_archive("}q\1" + pickle_text("self") + "h\1s" + x.substr(1));
  EXPECT_EQ(TorchFile(as_bytes(endless), "t.pt").tensors().size(), 1u);
  std::string deep = x + pickle_text("deep");
  for (int i = 0; i < 100000; ++i)
    deep += "]";
  deep += std::string(99999, 'a') + "s";
  const std::string deep_file = torch_archive(deep);
  EXPECT_EQ(TorchFile(as_bytes(deep_file), "t.pt").tensors().size(), 1u);
  std::string laughs = x + pickle_text("laughs") + "K\1";
  for (int i = 0; i < 60; ++i)
    laughs += "q\2h\2\x86";
  const std::string laughs_file = torch_archive(laughs + "s");
  EXPECT_EQ(TorchFile(as_bytes(laughs_file), "t.pt").tensors().size(), 1u);
  EXPECT_TRUE(rejected(torch_archive(std::string((1 << 20) + 2, 'N')), {1 << 20}));
  EXPECT_TRUE(rejected(torch_archive(std::string((1 << 20) + 2, '(')), {1 << 20}));
  EXPECT_TRUE(rejected(torch_archive(std::string((32 << 20) + 1, '(')), {32 << 20}));
}

TEST(ZipFile, ChecksItsDirectory) {
  const std::string good = zip_archive({{"a/x", "hello"}, {"a/y", ""}});
  const auto fails = [](const std::string& bytes, std::initializer_list<Fact> facts) {
    return refused([&] { ZipFile(as_bytes(bytes), "z").read("a/x"); }, "z", facts);
  };
  const ZipFile zip(as_bytes(good), "z");
  EXPECT_EQ(zip.prefix(), "a");
  EXPECT_EQ(zip.read("a/x").size(), 5u);
  EXPECT_TRUE(zip.contains("a/y"));
  EXPECT_TRUE(refused([&] { zip.read("a/z"); }, "z", {"a/z"}));
  EXPECT_TRUE(fails(zip_archive({{"a/x", "1"}, {"a/x", "2"}}), {"a/x"}));
  EXPECT_TRUE(fails("PK\3\4" + std::string(100, '\0'), {"zip"}));
  const size_t end = good.size() - 22;
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string s = good;
    return s.replace(at, bytes.size(), bytes);
  };
  EXPECT_TRUE(fails(with(end + 10, little(65534, 2)), {65534}));            // entries
  EXPECT_TRUE(fails(with(end + 12, little(0xfffffff0, 4)), {0xfffffff0}));  // bytes of the directory
  EXPECT_TRUE(fails(with(end + 16, little(0xfffffff0, 4)), {0xfffffff0}));  // start of the directory
  EXPECT_TRUE(fails(with(end + 16, little(3, 4)), {"zip", 3}));
  const size_t directory = good.find("PK\1\2");
  EXPECT_TRUE(fails(with(directory + 42, little(0xfffffff0, 4)), {"a/x", 0xfffffff0}));
  EXPECT_TRUE(fails(with(directory + 42, little(2, 4)), {"a/x", 2}));
  EXPECT_TRUE(fails(with(directory + 24, little(0xfffffff0, 4)), {0xfffffff0}));
  EXPECT_TRUE(fails(with(directory + 10, little(8, 2)), {"a/x", 8}));
  EXPECT_TRUE(fails(with(directory + 8, little(1, 2)), {"a/x", 1}));
}

}  // namespace
}  // namespace gpt
