#include "trace/torch_random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gpt {
namespace {

// PyTorch prints four digits.
void expect_close(std::span<const float> found, const std::vector<double>& printed) {
  ASSERT_EQ(found.size(), printed.size());
  for (size_t i = 0; i < printed.size(); ++i)
    EXPECT_NEAR(found[i], printed[i], 0.5001e-4) << i;
}

std::vector<float> normals(TorchRandom& random, size_t n) {
  std::vector<float> out(n);
  random.normal(out);
  return out;
}

// All expected values are from PyTorch 2.15 on x86 with torch.manual_seed and torch.randn.
TEST(TorchRandom, FewNormalNumbersComeInPairs) {
  TorchRandom random(100);
  expect_close(normals(random, 10),
               {.3607, -.2859, -.3938, .2429, -1.3833, -2.3134, -.3172, -.8660, 1.7482, -.2759});
}

TEST(TorchRandom, ManyNormalNumbersComeInSixteens) {
  TorchRandom random(100);
  // For 21 values, the last sixteen are generated again. Then two calls of 3 values use pairs, of which one
  // value is left over.
  expect_close(normals(random, 21),
               {.1268, 1.3564, .5632,   -.1039, -.3575, -.5721,  -1.2546, .0486, .2753,  -2.1550, 1.6426,
                .2108, .7139,  -1.7736, -.2205, 2.7467, -1.0480, 1.1239,  .1751, 1.1398, -.2145});
  expect_close(normals(random, 3), {-.2961, -.4142, -.3812});
  expect_close(normals(random, 3), {1.6067, .1170, .4408});
}

TEST(TorchRandom, UniformNumbersStayInTheirRange) {
  TorchRandom random(7);
  std::vector<float> out(4);
  random.uniform(out, 0, 1);
  expect_close(out, {0.5349, 0.1988, 0.6592, 0.6569});
  std::vector<float> many(10000);
  random.uniform(many, -0.5f, 0.25f);
  for (const float x : many)
    ASSERT_TRUE(x >= -0.5f && x < 0.25f) << x;
}

// torch.manual_seed(5); torch.empty(40).bernoulli_(0.5)
TEST(TorchRandom, BernoulliKeepsWhatIsBelow) {
  TorchRandom random(5);
  std::string kept;
  for (const bool k : random.bernoulli(40, 0.5))
    kept += k ? '1' : '0';
  EXPECT_EQ(kept, "0111100001110111110001110111000011011010");
}

}  // namespace
}  // namespace gpt
