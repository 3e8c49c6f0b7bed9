#include "base/problems.h"

#include <gtest/gtest.h>

namespace gpt {
namespace {

void refuse(const char* parameter) {
  fail_parameter(parameter, "is wrong");
}

TEST(Problems, NoneReportsNothing) {
  Problems problems;
  EXPECT_TRUE(problems.collect([] {}));
  EXPECT_TRUE(problems.empty());
  EXPECT_NO_THROW(problems.report());
}

TEST(Problems, OneIsThrownAsItWas) {
  Problems problems;
  EXPECT_FALSE(problems.collect([] { refuse("lr"); }));
  try {
    problems.report();
    ADD_FAILURE();
  } catch (const Errors&) {
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.object(), "lr");
  }
  Problems missing;
  missing.collect([] { fail("no file"); });
  EXPECT_THROW(missing.report(), Error);
}

std::vector<std::string> parameters(const Problems& problems) {
  std::vector<std::string> names;
  try {
    problems.report();
  } catch (const Errors& several) {
    EXPECT_EQ(several.code(), ErrorCode::invalid_argument);
    for (const std::exception_ptr& error : several.errors()) {
      try {
        std::rethrow_exception(error);
      } catch (const Error& one) {
        names.emplace_back(one.code() == ErrorCode::invalid_argument ? one.object() : one.what());
      }
    }
  }
  return names;
}

TEST(Problems, SeveralAreThrownTogether) {
  Problems inner, outer;
  inner.collect([] { refuse("steps"); });
  inner.collect([] { fail("no file"); });
  outer.collect([] { refuse("lr"); });
  outer.collect([&] { inner.report(); });
  EXPECT_EQ(parameters(outer), (std::vector<std::string>{"lr", "steps", "no file"}));
}

TEST(Problems, OfWrongUseOnly) {
  Problems problems, inner;
  problems.collect([] { refuse("lr"); });
  problems.collect_usage([] { fail("no file"); });
  inner.collect([] { fail("no file"); });
  inner.collect([] { refuse("steps"); });
  problems.collect_usage([&] { inner.report(); });
  EXPECT_EQ(parameters(problems), (std::vector<std::string>{"lr", "steps"}));
}

}  // namespace
}  // namespace gpt
