// Compares scores with values of scikit-learn 1.9.1 and SciPy 1.17.1.

#include "finetune/scores.h"

#include <gtest/gtest.h>

#include "support/names.h"

namespace gpt::test {
namespace {

Confusion confusion(const std::vector<int>& truths, const std::vector<int>& answers, int64_t classes) {
  Confusion m(classes);
  for (size_t i = 0; i < truths.size(); ++i)
    m.add(truths[i], answers[i]);
  return m;
}

const std::vector<int> kTruths = {2, 0, 2, 2, 0, 1, 1, 0, 2, 1}, kAnswers = {0, 0, 2, 2, 0, 2, 1, 0, 2, 0};

TEST(Scores, OfClasses) {
  const Confusion m = confusion(kTruths, kAnswers, 3);
  EXPECT_DOUBLE_EQ(accuracy(m), 0.7);
  EXPECT_NEAR(macro_f1(m), 0.6666666666666666, 1e-12);
  EXPECT_NEAR(matthews(m), 0.5818573654517124, 1e-12);
  // A class that does not occur changes nothing.
  const Confusion wider = confusion(kTruths, kAnswers, 5);
  EXPECT_DOUBLE_EQ(macro_f1(wider), macro_f1(m));
  EXPECT_DOUBLE_EQ(matthews(wider), matthews(m));
}

TEST(Scores, OfOneAnswerAreZero) {
  const Confusion m = confusion({0, 1, 1}, {1, 1, 1}, 2);
  EXPECT_DOUBLE_EQ(matthews(m), 0);
  EXPECT_NEAR(macro_f1(m), 0.4, 1e-12);
  EXPECT_DOUBLE_EQ(accuracy(Confusion(2)), 0);
}

TEST(Scores, Correlations) {
  const std::vector<double> x = {1, 2, 2, 4, 5, 0.5}, y = {2, 1, 4, 3, 7, 1};
  EXPECT_NEAR(pearson(x, y), 0.8046231012651626, 1e-12);
  EXPECT_NEAR(spearman(x, y), 0.75, 1e-12);
  EXPECT_DOUBLE_EQ(pearson(x, std::vector<double>(6, 3.0)), 0);
  EXPECT_DOUBLE_EQ(spearman(x, x), 1);
}

TEST(Scores, ConfusionAsText) {
  const std::string classes[] = {"no", "yes"};
  EXPECT_EQ(confusion_text(confusion({0, 1, 1}, {1, 1, 1}, 2), classes),
            "label \\ prediction  no  yes\n"
            "------------------  --  ---\n"
            "no                   0    1\n"
            "yes                  0    2\n");
  EXPECT_TRUE(test::names(confusion_text(confusion({0, 1, 1}, {1, 1, 1}, 2), classes, 1), {"no", "yes", 1}));
}

TEST(Scores, CellsOfCsv) {
  EXPECT_EQ(csv_cell("a b"), "a b");
  EXPECT_EQ(csv_cell("a,\"b\""), "\"a,\"\"b\"\"\"");
}

}  // namespace
}  // namespace gpt::test
