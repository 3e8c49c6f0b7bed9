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

std::string rejected(const std::string& bytes) {
  return error_of([&] { TorchFile(as_bytes(bytes), "t.pt"); });
}

// In every pickle protocol, as a zip archive and as before PyTorch 1.6.
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
  EXPECT_HAS(error_of([&] { found.find("mask"); }), "has the type bool");
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

// Each byte of a file changed or missing is an error, or a file of other values: never a crash.
TEST(TorchFile, DamageOfTheOldFormatIsAnError) {
  const std::string whole = read_file(kData + "views-legacy-4.pt");
  for (size_t n = 0; n < whole.size(); ++n)
    EXPECT_NE(rejected(whole.substr(0, n)), "no error") << n;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '\x7f', '\xff', '.'}) {
      std::string damaged = whole;
      damaged[at] = value;
      rejected(damaged);
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
  const std::pair<const char*, const char*> cases[] = {
      {"call", "names \"posix.system\""},        {"module", "names \"torch.nn.modules.linear.Linear\""},
      {"legacy-call", "names \"posix.system\""}, {"protocol0", "pickle protocol 2"},
      {"expanded", "repeats elements"},          {"twice", "\"x\" occurs twice"},
      {"list", "expected a dict of tensors"},    {"compressed", "compressed or encrypted"}};
  for (const auto& [name, message] : cases)
    EXPECT_HAS(error_of([&, name = name] { TorchFile(kData + name + ".bad.pt"); }), message);
  EXPECT_HAS(rejected("hello"), "expected a zip archive");
  EXPECT_HAS(rejected(""), "expected a zip archive");
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
                         const std::vector<int64_t>& strides) {
    return rejected(torch_archive(torch_dict("x", pickle_tensor("0", elements, offset, shape, strides))));
  };
  const int64_t huge = INT64_MAX;
  EXPECT_HAS(tensor(7, 0, {6}, {1}), "shorter than it should be");
  EXPECT_HAS(tensor(huge, 0, {6}, {1}), "shorter than it should be");
  EXPECT_HAS(tensor(6, 1, {6}, {1}), "beyond its storage");
  EXPECT_HAS(tensor(6, huge, {6}, {1}), "beyond its storage");
  EXPECT_HAS(tensor(6, 0, {2}, {6}), "beyond its storage");
  EXPECT_HAS(tensor(6, 0, {3}, {huge}), "beyond its storage");
  EXPECT_HAS(tensor(6, 0, {7}, {0}), "repeats elements");
  EXPECT_HAS(tensor(6, -1, {6}, {1}), "0 or more");
  EXPECT_HAS(tensor(6, 0, {-6}, {1}), "0 or more");
  EXPECT_HAS(tensor(6, 5, {6}, {-1}), "0 or more");
  EXPECT_HAS(tensor(6, 0, {2, 3}, {3}), "as many strides");
  EXPECT_HAS(tensor(6, 0, {int64_t{1} << 32, int64_t{1} << 32}, {0, 0}), "not possible");
  EXPECT_HAS(tensor(6, 0, {0, int64_t{1} << 40, int64_t{1} << 40}, {0, 0, 0}), "not possible");
  EXPECT_HAS(tensor(6, 0, std::vector<int64_t>(9, 1), std::vector<int64_t>(9, 1)), "up to 8 dimensions");
  EXPECT_HAS(rejected(torch_archive(torch_dict("x", pickle_tensor("../0", 6, 0, {6}, {1})))), "no entry");
}

TEST(Pickle, DamageIsAnError) {
  const std::string tensor = pickle_tensor("0", 6, 0, {6}, {1});
  const std::pair<std::string, const char*> cases[] = {
      {"", "a value is missing"},
      {"}}", "left over"},
      {"}s", "a value is missing"},
      {"}u", "a mark is missing"},
      {"}(Nu", "a key has no value"},
      {"}(NK\1Nu", "a key has no value"},
      {"Ns", "a value is missing"},
      {"NNNs", "expected a list or a dict"},
      {"h\5", "nothing was remembered"},
      {"q\1", "nothing to remember"},
      {"X\377\377\377\377", "damaged or incomplete"},
      {"\x8a\x09", "more than 64 bits"},
      {"cos\nsystem\n", "names \"os.system\""},
      {"cbuiltins\neval\n", "names \"builtins.eval\""},
      {"\x8c\x02os\x8c\x06system\x93", "names \"os.system\""},
      {"ctorch\n", "damaged or incomplete"},
      {"i", "operation 0x69"},
      {"\x81", "operation 0x81"},
      {"P1\n", "operation 0x50"},
      {"NNR", "no global"},
      {"N)R", "no global"},
      {"Nb", "expected a list or a dict"},
  };
  for (const auto& [pickle, message] : cases)
    EXPECT_HAS(rejected(torch_archive(pickle)), message);
  EXPECT_HAS(rejected(zip_archive({{"a/data.pkl", "\x80\x01}."}})), "protocol 2 to 5");
  EXPECT_HAS(rejected(zip_archive({{"a/data.pkl", "\x80\x02}"}})), "damaged or incomplete");
}

TEST(Pickle, DeepSharedAndEndlessValuesAreBounded) {
  const std::string x = torch_dict("x", pickle_tensor("0", 6, 0, {6}, {1}));
  // a dict that contains itself, a hundred thousand lists inside each other, 2^60 leaves in sixty lines
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
  EXPECT_HAS(rejected(torch_archive(std::string((1 << 20) + 2, 'N'))), "values");
  EXPECT_HAS(rejected(torch_archive(std::string((1 << 20) + 2, '('))), "too many values");
  EXPECT_HAS(rejected(torch_archive(std::string((32 << 20) + 1, '('))), "at most 33554432 bytes");
}

TEST(ZipFile, ChecksItsDirectory) {
  const std::string good = zip_archive({{"a/x", "hello"}, {"a/y", ""}});
  const auto error = [](const std::string& bytes) {
    return error_of([&] { ZipFile(as_bytes(bytes), "z").read("a/x"); });
  };
  const ZipFile zip(as_bytes(good), "z");
  EXPECT_EQ(zip.prefix(), "a");
  EXPECT_EQ(zip.read("a/x").size(), 5u);
  EXPECT_TRUE(zip.contains("a/y"));
  EXPECT_HAS(error_of([&] { zip.read("a/z"); }), "no entry \"a/z\"");
  EXPECT_HAS(error(zip_archive({{"a/x", "1"}, {"a/x", "2"}})), "occurs twice");
  EXPECT_HAS(error("PK\3\4" + std::string(100, '\0')), "no end of a zip archive");
  const size_t end = good.size() - 22;
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string s = good;
    return s.replace(at, bytes.size(), bytes);
  };
  EXPECT_HAS(error(with(end + 10, little(65534, 2))), "does not fit");       // entries
  EXPECT_HAS(error(with(end + 12, little(0xfffffff0, 4))), "does not fit");  // bytes of the directory
  EXPECT_HAS(error(with(end + 16, little(0xfffffff0, 4))), "does not fit");  // where it begins
  EXPECT_HAS(error(with(end + 16, little(3, 4))), "not one");
  const size_t directory = good.find("PK\1\2");
  EXPECT_HAS(error(with(directory + 42, little(0xfffffff0, 4))), "outside of the file");
  EXPECT_HAS(error(with(directory + 42, little(2, 4))), "has no header");
  EXPECT_HAS(error(with(directory + 24, little(0xfffffff0, 4))), "more bytes");
  EXPECT_HAS(error(with(directory + 10, little(8, 2))), "compressed");
  EXPECT_HAS(error(with(directory + 8, little(1, 2))), "encrypted");
}

}  // namespace
}  // namespace gpt
