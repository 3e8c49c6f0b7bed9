#include <gtest/gtest.h>

#include <fstream>

#include "convert/gguf_export.h"
#include "model/inference.h"
#include "model/model_files.h"
#include "model/weight_cache.h"
#include "support/backend.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

// Tests that weights need no private memory if kernels can read them in the dtype of the file.

namespace gpt::test {
namespace {

// Returns the bytes of weights that inference copies while loading and packing.
int64_t bytes_copied(const LoadedModel& loaded, DType weights, Isa isa, bool in_place = true) {
  ThreadPool pool(1);
  const int64_t before = loaded.model().packed->bytes();
  Inference inference(
      loaded.model(), backend(pool, isa),
      {.dtype = inference_types(weights).activations, .weights = weights, .in_place = in_place});
  std::vector<float> logits(static_cast<size_t>(5 * loaded.model().config.vocab_size));
  inference.append_all(0, std::vector<int32_t>{3, 1, 4, 1, 5},
                       make_view(logits.data(), {5, loaded.model().config.vocab_size}));
  return loaded.copied_bytes() + loaded.model().packed->bytes() - before;
}

SmallConfig with_whole_blocks(const std::string& family) {
  return {family, family,
          R"({"vocab_size": 64, "n_embd": 256, "d_ff": 512, "n_head": 4, "n_layer": 1, "n_ctx": 16})"};
}

TEST(InPlace, GgufFilesOfAllTypesAreNotCopied) {
  for (const char* family : {"llama", "gpt2", "qwen2"}) {
    const RandomModel random(make_config(with_whole_blocks(family)), DType::f32);
    for (const DType dtype :
         {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,
          DType::q5_1, DType::iq4_nl, DType::q4_k, DType::q5_k, DType::q6_k}) {
      TempDir dir;
      const std::string path = dir.file("m.gguf");
      write_gguf(path, random.model, random.model.weights, nullptr, {.dtype = dtype});
      for (const Isa isa : available_isas()) {
        const LoadedModel loaded(path, std::nullopt, MatrixOrder::rows, {}, device());
        EXPECT_EQ(bytes_copied(loaded, is_quantized(dtype) ? DType::f32 : dtype, isa), 0)
            << family << " " << dtype_name(dtype) << " " << isa_name(isa);
      }
    }
  }
}

TEST(InPlace, MatricesOfSafetensorsAreNotCopied) {
  for (const char* family : {"llama", "gpt2", "openai-gpt"}) {  // the last two store matrices as [in,out]
    const RandomModel random(make_config(with_whole_blocks(family)), DType::f32);
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      TempDir dir;
      write_model(dir.path(), random.model, random.model.weights, {.dtype = dtype});
      const LoadedModel loaded(dir.path(), std::nullopt, MatrixOrder::as_stored, {}, device());
      int64_t vectors = 0;  // vectors are converted to fp32 in memory
      for (const ParamSpec& spec : loaded.model().table.specs())
        vectors += spec.shape.size() == 1 ? spec.size() * int64_t{sizeof(float)} : 0;
      const int64_t expected = dtype == DType::f32 ? 0 : vectors;
      EXPECT_EQ(bytes_copied(loaded, dtype, best_isa()), expected) << family;
      if (dtype == DType::f32) continue;  // fp32 is packed without in_place
      EXPECT_EQ(bytes_copied(loaded, DType::f32, best_isa(), false), expected) << family;
    }
  }
}

// Returns the private memory of this process in bytes, or -1 if the system does not report it.
int64_t private_memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    int64_t kilobytes = 0;
    if (word == "Anonymous:" && file >> kilobytes) return kilobytes * 1024;
  }
  return -1;
}

TEST(InPlace, GeneratingTakesLittleMemoryBesideTheFile) {
  if (private_memory() < 0) GTEST_SKIP() << "no /proc/self/smaps_rollup";
  TempDir dir;
  const std::string path = dir.file("m.gguf");
  const ModelConfig config = make_config(
      {"", "llama", R"({"vocab_size": 32768, "n_embd": 512, "d_ff": 512, "n_head": 4, "n_layer": 1})"});
  {
    const RandomModel random(config, DType::f32);
    write_gguf(path, random.model, random.model.weights, nullptr, {.dtype = DType::bf16});
  }
  const int64_t before = private_memory();
  const LoadedModel loaded(path, std::nullopt, MatrixOrder::rows, {}, device());
  EXPECT_EQ(bytes_copied(loaded, DType::bf16, best_isa()), 0);
  const int64_t file_bytes = int64_t{2} * 2 * 32768 * 512;
  EXPECT_LT(private_memory() - before, file_bytes / 4);
}

}  // namespace
}  // namespace gpt::test
