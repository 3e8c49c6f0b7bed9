#include <gtest/gtest.h>

#include "../fuzz/data_targets.h"
#include "../fuzz/pack_targets.h"
#include "base/rng.h"
#include "support/mutate.h"

// Runs the fuzz targets on seeded mutations of their corpora, so that every build tests them.
namespace gpt {
namespace {

using Target = int (*)(const uint8_t*, size_t);

void run(const std::string& name, Target target, int n) {
  const auto files = test::corpus(name);
  ASSERT_FALSE(files.empty());
  for (const auto& [file, bytes] : files) {
    SCOPED_TRACE(file);
    ASSERT_EQ(target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), 1);
    for (int i = 0; i < n; ++i) {
      RandomStream random(1, RandomSite::test, static_cast<uint64_t>(i));
      const std::string mutant = test::mutate(bytes, random);
      // An exact heap copy lets AddressSanitizer detect a read of the first byte past the end.
      const std::vector<uint8_t> exact(mutant.begin(), mutant.end());
      ASSERT_NO_THROW(target(exact.data(), exact.size())) << i;
    }
  }
}

TEST(Mutation, TokenShards) {
  run("shard", fuzz_shard, 2000);
}
TEST(Mutation, JsonLines) {
  run("jsonl", fuzz_jsonl, 2000);
}
TEST(Mutation, Records) {
  run("records", fuzz_records, 2000);
}
TEST(Mutation, CompressedText) {
  run("compressed", fuzz_compressed, 2000);
}
TEST(Mutation, CountedWords) {
  run("words", fuzz_words, 2000);
}
TEST(Mutation, IndexesOfPieces) {
  run("piece", fuzz_piece, 2000);
}
TEST(Mutation, PackStates) {
  run("pack_state", fuzz_pack_state, 2000);
}
TEST(Mutation, TextCuts) {
  run("cut", fuzz_cut, 500);
}

}  // namespace
}  // namespace gpt
