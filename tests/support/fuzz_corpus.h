#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/rng.h"

namespace gpt::test {

// Runs a fuzz target on the committed inputs of a fuzzer and on mutations of them. Checks that the target
// accepts each committed input. The target may accept or reject the mutations, but must not crash.
inline void try_corpus(const char* name, int (*target)(const uint8_t*, size_t)) {
  RandomStream random(14, RandomSite::test);
  int accepted = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(GPT_SOURCE_DIR "/fuzz/corpus/" + std::string(name))) {
    const std::string good = read_file(entry.path().string());
    const auto run = [&](const std::string& bytes) {
      return target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    };
    EXPECT_EQ(run(good), 1) << entry.path();
    accepted += 1;
    for (int round = 0; round < 100; ++round) {
      std::string bad = good;
      for (int change = 0; change < 3; ++change)
        bad[random.below(bad.size())] = static_cast<char>(random.below(256));
      run(bad);
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace gpt::test
