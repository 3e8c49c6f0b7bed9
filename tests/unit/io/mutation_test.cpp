#include <filesystem>
#include <map>

#include "../fuzz/targets.h"
#include "base/rng.h"
#include "unit/io/io_test_util.h"

// The fuzzers' entry points on seeded mutations of the fuzzers' corpora: what every build can run.
namespace gpt {
namespace {

using Target = int (*)(const uint8_t*, size_t);

std::map<std::string, std::string> corpus(const std::string& name) {
  std::map<std::string, std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(GPT_SOURCE_DIR "/fuzz/corpus/" + name)) {
    files[file.path().filename().string()] = read_text(file.path().string());
  }
  return files;
}

// One to four changes: a bit, a byte, a cut, a repeated part, a number made extreme.
std::string mutate(std::string s, RandomStream& random) {
  const uint64_t changes = 1 + random.below(4);
  for (uint64_t i = 0; i < changes && !s.empty(); ++i) {
    const size_t at = random.below(s.size());
    const size_t length = 1 + random.below(std::min<size_t>(s.size() - at, 16));
    switch (random.below(7)) {
      case 0:
        s[at] = static_cast<char>(s[at] ^ (1 << random.below(8)));
        break;
      case 1:
        s[at] = static_cast<char>(random.below(256));
        break;
      case 2:
        s.erase(at, length);
        break;
      case 3:
        s.insert(random.below(s.size()), s.substr(at, length));
        break;
      case 4:
        s.resize(at);
        break;
      case 5: {
        const size_t digit = s.find_first_of("0123456789", at);
        constexpr std::array kExtremes = {"-1", "4294967296", "9223372036854775807", "18446744073709551615",
                                          "1e9"};
        if (digit != std::string::npos) s.replace(digit, 1, kExtremes[random.below(kExtremes.size())]);
        break;
      }
      default:
        s[at] = "{}[]:,\"\\ 0"[random.below(10)];
    }
  }
  return s;
}

// Files whose length field no longer fits their header are rejected at once; half of the mutants get
// theirs repaired, so that they reach the checks behind it.
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
      // An exact heap copy: an address sanitizer then sees the first byte read past the end.
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
