#include "../fuzz/targets.h"
#include "base/rng.h"
#include "support/mutate.h"
#include "unit/io/io_test_util.h"

// Runs the fuzz targets on seeded mutations of their corpora, so that every build tests them.
namespace gpt {
namespace {

using test::corpus;
using test::mutate;
using Target = int (*)(const uint8_t*, size_t);

// A file is rejected immediately if its length field does not match its header. Half of the mutants get a
// corrected length field, so that they reach the later checks.
void repair_length(const std::string& original, std::string& s) {
  const size_t old_end = 8 + static_cast<size_t>(static_cast<unsigned char>(original[0])) +
                         256 * static_cast<size_t>(static_cast<unsigned char>(original[1]));
  const size_t body = original.size() - old_end;
  if (s.size() >= 8 + body) s.replace(0, 8, little_endian(s.size() - 8 - body));
}

void run(const std::string& name, Target target, int n) {
  const auto files = corpus(name);
  ASSERT_FALSE(files.empty());
  for (const auto& [file, bytes] : files) {
    SCOPED_TRACE(file);
    ASSERT_EQ(target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), 1);
    int accepted = 0;
    for (int i = 0; i < n; ++i) {
      RandomStream random(1, RandomSite::test, static_cast<uint64_t>(i));
      std::string mutant = mutate(bytes, random);
      if (name == "safetensors" && random.below(2) == 0) repair_length(bytes, mutant);
      // An exact heap copy lets AddressSanitizer detect a read of the first byte past the end.
      const std::vector<uint8_t> exact(mutant.begin(), mutant.end());
      ASSERT_NO_THROW(accepted += target(exact.data(), exact.size())) << i;
    }
    EXPECT_LT(accepted, n);
  }
}

TEST(Mutation, Safetensors) {
  run("safetensors", fuzz_safetensors, 2000);
}
TEST(Mutation, Json) {
  run("json", fuzz_json, 2000);
}
TEST(Mutation, Llama2c) {
  run("llama2c", fuzz_llama2c, 2000);
}
TEST(Mutation, Llmc) {
  run("llmc", fuzz_llmc, 2000);
}
TEST(Mutation, Torch) {
  run("torch", fuzz_torch, 2000);
}
TEST(Mutation, ShardIndex) {
  run("index", fuzz_index, 2000);
}
TEST(Mutation, Gguf) {
  run("gguf", fuzz_gguf, 4000);
}

}  // namespace
}  // namespace gpt
