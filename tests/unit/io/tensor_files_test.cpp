#include "io/tensor_file.h"

#include "unit/io/io_test_util.h"
#include "unit/io/torch_test_util.h"

namespace gpt {
namespace {

// Returns a safetensors file of one-byte tensors.
std::string file_with(const std::vector<std::string>& names, const std::string& dtype = "U8") {
  std::string header = "{";
  for (size_t i = 0; i < names.size(); ++i) {
    header += (i ? ",\"" : "\"") + names[i] + "\":{\"dtype\":\"" + dtype +
              "\",\"shape\":[1],\"data_offsets\":[" + std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  return safetensors(header + "}", names.size());
}

class TensorFilesTest : public testing::Test {
 protected:
  void index(const std::string& map) { write_text(index_, "{\"metadata\":{},\"weight_map\":" + map + "}"); }
  testing::AssertionResult rejected(std::initializer_list<Fact> facts) {
    return refused([&] { open_tensors(dir_.path()); }, index_, facts);
  }
  TempDir dir_;
  std::string index_ = dir_.file("model.safetensors.index.json");
};

TEST_F(TensorFilesTest, OpensAFileOrItsFolder) {
  write_text(dir_.file("model.safetensors"), file_with({"x", "y"}));
  for (const std::string& path : {dir_.path(), dir_.file("model.safetensors"), dir_.path() + "/"}) {
    const TensorFiles files = open_tensors(path);
    EXPECT_EQ(files.tensors().size(), 2u);
    EXPECT_EQ(files.find("y")->name, "y");
    EXPECT_EQ(files.find("z"), nullptr);
  }
}

TEST_F(TensorFilesTest, OpensShards) {
  write_text(dir_.file("m-1.safetensors"), file_with({"b", "a"}));
  write_text(dir_.file("m-2.safetensors"), file_with({"c", "unlisted"}));
  index(R"({"a":"m-1.safetensors","c":"m-2.safetensors","b":"m-1.safetensors"})");
  TensorFiles opened = open_tensors(dir_.path());
  const TensorFiles files = std::move(opened);
  EXPECT_EQ(files.files().size(), 2u);
  EXPECT_EQ(files.tensors().size(), 4u);
  EXPECT_EQ(files.tensors()[0]->name, "b");
  for (const char* name : {"a", "b", "c", "unlisted"})
    EXPECT_EQ(files.find(name)->name, name);
  EXPECT_EQ(open_tensors(dir_.file("model.safetensors.index.json")).tensors().size(), 4u);
}

TEST_F(TensorFilesTest, UnsupportedTypesInShardsFailOnlyWhenAskedFor) {
  write_text(dir_.file("m.safetensors"), file_with({"mask"}, "BOOL"));
  index(R"({"mask":"m.safetensors"})");
  EXPECT_EQ(open_tensors(dir_.path()).find("other"), nullptr);
  EXPECT_TRUE(
      refused([&] { open_tensors(dir_.path()).find("mask"); }, dir_.file("m.safetensors"), {"mask", "BOOL"}));
}

TEST_F(TensorFilesTest, RejectsNamesThatLeaveTheFolder) {
  write_text(dir_.file("a.safetensors"), file_with({"t"}));
  for (const std::string name : {"/etc/passwd", "../a.safetensors", "..", "", "sub/a.safetensors",
                                 "a.safetensors/", ".safetensors", "a.bin"}) {
    index("{\"t\":\"" + name + "\"}");
    EXPECT_TRUE(rejected({".safetensors", "\"" + name + "\""})) << name;
  }
  index(R"({"t":"a\\b.safetensors"})");
  EXPECT_TRUE(rejected({R"("a\b.safetensors")"}));
  index(R"({"t":"a\u0000.safetensors"})");
  EXPECT_TRUE(rejected({R"("a\x00.safetensors")"}));
  index(R"({"t":3})");
  EXPECT_TRUE(rejected({"t"}));
}

TEST_F(TensorFilesTest, RejectsIndexesThatLie) {
  write_text(dir_.file("a.safetensors"), file_with({"t"}));
  write_text(dir_.file("b.safetensors"), file_with({"u"}));
  index(R"({"t":"gone.safetensors"})");
  EXPECT_TRUE(refused([&] { open_tensors(dir_.path()); }, dir_.file("gone.safetensors"), {index_, 1}));
  index(R"({"t":"b.safetensors","u":"b.safetensors"})");
  EXPECT_TRUE(rejected({"t", dir_.file("b.safetensors")}));
  write_text(dir_.file("b.safetensors"), file_with({"u", "t"}));
  index(R"({"t":"a.safetensors","u":"b.safetensors"})");
  EXPECT_TRUE(names(error_of([&] { open_tensors(dir_.path()); }),
                    {"t", dir_.file("a.safetensors"), dir_.file("b.safetensors")}));
  index(R"({"t":"a.safetensors","t":"b.safetensors"})");
  EXPECT_TRUE(rejected({"JSON", "t"}));
  index("{}");
  EXPECT_TRUE(rejected({"weight_map"}));
  index("[]");
  EXPECT_TRUE(rejected({"weight_map"}));
  std::string many = "{";
  for (int i = 0; i < 5000; ++i)
    many += fmt::format("{}\"{}\":\"{}.safetensors\"", i ? "," : "", i, i);
  index(many + "}");
  EXPECT_TRUE(rejected({4096}));
}

TEST_F(TensorFilesTest, OpensPyTorchFilesAndTheirShards) {
  const std::string x = torch_archive(torch_dict("x", pickle_tensor("0", 6, 0, {6}, {1})));
  write_text(dir_.file("pytorch_model.bin"), x);
  EXPECT_EQ(open_tensors(dir_.path()).find("x")->shape, (Shape{6}));
  write_text(dir_.file("model.safetensors"), file_with({"y"}));
  EXPECT_NE(open_tensors(dir_.path()).find("y"), nullptr) << "safetensors go first";
  const TempDir other;
  write_text(other.file("p-1.bin"), x);
  write_text(other.file("p-2.bin"), torch_archive(torch_dict("y", pickle_tensor("0", 6, 0, {2, 3}, {1, 2}))));
  write_text(other.file("pytorch_model.bin.index.json"), R"({"weight_map":{"x":"p-1.bin","y":"p-2.bin"}})");
  EXPECT_EQ(open_tensors(other.path()).tensors().size(), 2u);
  write_text(other.file("pytorch_model.bin.index.json"), R"({"weight_map":{"x":"../p-1.bin"}})");
  EXPECT_TRUE(refused([&] { open_tensors(other.path()); }, other.file("pytorch_model.bin.index.json"),
                      {".bin", "../p-1.bin"}));
}

TEST_F(TensorFilesTest, SaysWhatAFolderLacks) {
  EXPECT_TRUE(names(error_of([&] { open_tensors(dir_.path()); }),
                    {dir_.path(), "model.safetensors", "model.safetensors.index.json"}));
}

}  // namespace
}  // namespace gpt
