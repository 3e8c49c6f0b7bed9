#include "base/fault_point.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "base/error.h"
#include "support/names.h"

namespace gpt {
namespace {

volatile std::sig_atomic_t terms = 0, hangups = 0;

class FaultPoint : public testing::Test {
 protected:
  FaultPoint() {
    terms = 0;
    hangups = 0;
    std::signal(SIGTERM, [](int) { terms = terms + 1; });
    std::signal(SIGHUP, [](int) { hangups = hangups + 1; });
  }
  ~FaultPoint() override {
    ::unsetenv(kFaultPoint);
    std::signal(SIGTERM, SIG_DFL);
    std::signal(SIGHUP, SIG_DFL);
  }
  static void arm(const char* value) { ::setenv(kFaultPoint, value, 1); }
};

TEST_F(FaultPoint, RaisesSignalsAtThePlaceThatIsNamed) {
  fault_point("a");
  arm("a=TERM");
  fault_point("b");
  fault_point("ab");
  fault_point("a", 1);
  EXPECT_EQ(terms, 0);
  fault_point("a");
  EXPECT_EQ(terms, 1);
  arm("a:2=HUP+TERM+HUP");
  for (int64_t i = 0; i < 4; ++i)
    fault_point("a", i);
  EXPECT_EQ(terms, 2);
  EXPECT_EQ(hangups, 2);
  EXPECT_EXIT((arm("a:7"), fault_point("a", 7)), testing::KilledBySignal(SIGKILL), "");
}

TEST_F(FaultPoint, RefusesAnUnknownSignal) {
  arm("a=BUS");
  EXPECT_ERROR(fault_point("a"), ErrorCode::invalid_argument);
  EXPECT_NO_THROW(fault_point("b"));
}

}  // namespace
}  // namespace gpt
