#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "io/gguf.h"
#include "kernels/quant.h"
#include "model/model_source.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

// Every quantization block of every type is bit-identical to the reference package after dequantization.
// GPT_QUANTS may name a larger file.
TEST(Gguf, BlocksHaveTheValuesOfTheReference) {
  const char* larger = std::getenv("GPT_QUANTS");
  const GgufFile file(larger != nullptr ? larger : GPT_SOURCE_DIR "/tests/data/quants.gguf");
  int types = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    if (!tensor.name.ends_with(".blocks")) continue;
    ++types;
    const TensorInfo* values = file.find(tensor.name.substr(0, tensor.name.size() - 6) + "values");
    ASSERT_NE(values, nullptr);
    const int64_t n = checked_size(tensor.shape, tensor.name);
    std::vector<float> mine(static_cast<size_t>(n));
    dequantize_row(tensor.dtype, tensor.bytes.data(), n, mine.data());
    EXPECT_EQ(std::memcmp(mine.data(), values->bytes.data(), values->bytes.size()), 0) << tensor.name;
  }
  EXPECT_EQ(types, 9);
}

// Each file in the folder is a separate model, so the user must name one.
TEST(Gguf, AFolderOfFilesIsRefusedWithTheNameOfOne) {
  const test::TempDir dir;
  std::ofstream(dir.file("notes.txt")) << "text";
  EXPECT_TRUE(test::names(test::error_of([&] { config_of_model(dir.path()); }), {dir.path(), "config.json"}));
  std::ofstream(dir.file("some.gguf")) << "GGUF";
  EXPECT_TRUE(test::names(test::error_of([&] { config_of_model(dir.path()); }),
                          {dir.path(), "GGUF", dir.file("some.gguf")}));
}

}  // namespace
}  // namespace gpt
