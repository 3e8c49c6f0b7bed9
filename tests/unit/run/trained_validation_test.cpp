#include "run/trained_validation.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/rng.h"
#include "run/run_data.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

// Returns random text without repetitions.
std::string random_text(uint64_t seed, int64_t bytes) {
  RandomStream random(seed, RandomSite::data, 0, 0);
  std::string text;
  while (std::ssize(text) < bytes)
    text += static_cast<char>('a' + random.below(26));
  return text;
}

class TrainedValidation : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    write_plain_file(dir_.file(name), text);
    return dir_.file(name);
  }
  SharedSamples shared(std::vector<std::string> data, std::vector<std::string> val = {}) const {
    TrainConfig c;
    c.data = std::move(data);
    c.val_data = std::move(val);
    complete(c);
    const RunData loaded = load_run_data(c, 16, "");
    return find_shared_samples(loaded.train, loaded.val);
  }

  TempDir dir_;
};

TEST_F(TrainedValidation, IsFoundInCopiesPartsAndTheEndOfADuplicate) {
  const std::string text = random_text(1, 300000), copy = write("copy.txt", text),
                    one = write("one.txt", text);
  EXPECT_EQ(shared({one}, {copy}).found, 16);
  EXPECT_EQ(shared({one}, {write("part.txt", text.substr(200000, 5000))}).found, 16);
  EXPECT_EQ(shared({one, copy}).found, 16) << "the end of the copy is held out, that of the text is not";
  // A block ends within a sample.
  EXPECT_EQ(shared({one}, {write("edge.txt", text.substr((1 << 16) - 300, 600))}).found, 16);
}

TEST_F(TrainedValidation, IsNotFoundInOtherText) {
  const std::string text = random_text(1, 300000), one = write("one.txt", text);
  EXPECT_EQ(shared({one}).found, 0);
  EXPECT_EQ(shared({one}).length, 200);
  EXPECT_EQ(shared({one}, {write("other.txt", random_text(2, 5000))}).found, 0);
  EXPECT_EQ(shared({"tales:400000"}).found, 0);
  EXPECT_EQ(shared({one}, {write("short.txt", text.substr(0, 40))}).samples, 0) << "too short to tell";
}

TEST_F(TrainedValidation, IsNoted) {
  TrainConfig c;
  const std::string text = random_text(1, 30000);
  c.data = {write("one.txt", text)};
  c.val_data = {write("two.txt", text.substr(100, 2000))};
  complete(c);
  EXPECT_NE(load_run_data(c, 16, "").notes, "");
  // About a third and about a tenth of the validation text occurs in the training text.
  c.val_data = {write("third.txt", text.substr(100, 2000) + random_text(3, 4000))};
  EXPECT_NE(load_run_data(c, 16, "").notes, "");
  c.val_data = {write("tenth.txt", text.substr(100, 1000) + random_text(3, 9000))};
  EXPECT_EQ(load_run_data(c, 16, "").notes, "");
  c.val_data = {write("three.txt", random_text(2, 2000))};
  EXPECT_EQ(load_run_data(c, 16, "").notes, "");
}

}  // namespace
}  // namespace gpt::test
