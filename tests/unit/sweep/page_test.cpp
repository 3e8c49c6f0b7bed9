#include "sweep/page.h"

#include <gtest/gtest.h>

namespace gpt {
namespace {

// The sweep has two budgets, two sizes and a fitted law. The lines of the law are pale, so the legend must
// name them.
TEST(SweepPage, LegendNamesTheLawOnce) {
  Sweep sweep;
  Findings findings;
  for (const double budget : {1e9, 2e9}) {
    for (const double parameters : {1000.0, 4000.0}) {
      SweepRun run;
      run.parameters = parameters;
      run.tokens = budget / (6 * parameters);
      run.budget = budget;
      findings.means.push_back({.run = sweep.runs.size(), .loss = 2, .seeds = 1});
      sweep.runs.push_back(run);
      sweep.results.push_back({.state = SweepResult::State::done, .loss = 2});
    }
  }
  findings.fit = LossFit{};
  const Chart chart = size_chart(sweep, findings);
  ASSERT_EQ(chart.series.size(), 4u);
  EXPECT_NE(chart.series[2].name.empty(), chart.series[3].name.empty());
}

}  // namespace
}  // namespace gpt
