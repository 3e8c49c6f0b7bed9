#include "base/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace gpt {
namespace {

TEST(Format, Durations) {
  EXPECT_EQ(format_duration(0), "0.0 s");
  EXPECT_EQ(format_duration(9.94), "9.9 s");
  EXPECT_EQ(format_duration(9.96), "10 s");
  EXPECT_EQ(format_duration(59.4), "59 s");
  EXPECT_EQ(format_duration(59.6), "1 min 00 s");
  EXPECT_EQ(format_duration(307), "5 min 07 s");
  EXPECT_EQ(format_duration(3599.7), "1 h 00 min");
  EXPECT_EQ(format_duration(3803), "1 h 03 min");
  EXPECT_EQ(format_duration(2 * 86400 + 4 * 3600 + 59), "2 d 04 h");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(std::nan("")), "?");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
}

TEST(Format, CountsKeepThreeDigitsAcrossUnits) {
  EXPECT_EQ(format_count(0.0), "0");
  EXPECT_EQ(format_count(812.0), "812");
  EXPECT_EQ(format_count(999.4), "999");
  EXPECT_EQ(format_count(999.6), "1.00 k");
  EXPECT_EQ(format_count(1000.0), "1.00 k");
  EXPECT_EQ(format_count(10770816.0), "10.8 M");
  EXPECT_EQ(format_count(124439808.0), "124 M");
  EXPECT_EQ(format_count(999999.0), "1.00 M");
  EXPECT_EQ(format_count(9996.0), "10.0 k");
  EXPECT_EQ(format_count(1.75e11), "175 G");
  EXPECT_EQ(format_count(-5.0), "?");
  EXPECT_EQ(format_count(1e300), "1e+285 P");
  EXPECT_EQ(format_count(int64_t{10770816}), "10.8 M");
}

TEST(Format, RatesLossesAndRatios) {
  EXPECT_EQ(format_rate(7.2), "7.2");
  EXPECT_EQ(format_rate(812), "812");
  EXPECT_EQ(format_rate(6051), "6.05 k");
  EXPECT_EQ(format_rate(std::nan("")), "?");
  EXPECT_EQ(format_loss(1.469), "1.4690");
  EXPECT_EQ(format_loss(1e308), "1e+308");
  EXPECT_EQ(format_perplexity(1e200), "1e+200");
  EXPECT_EQ(format_perplexity(4.3456), "4.35");
  EXPECT_EQ(format_perplexity(999.99), "999.99");
  EXPECT_EQ(format_perplexity(999.996), "1,000.00");
  EXPECT_EQ(format_perplexity(47885.927), "47,885.93");
  EXPECT_EQ(format_passes(0.2537), "0.254");
  EXPECT_EQ(format_passes(999.7), "1,000");
  EXPECT_EQ(format_passes(237123), "237,000");
  EXPECT_EQ(format_ratio(3.41249), "3.412");
}

TEST(Format, ListsStopAtSome) {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  EXPECT_EQ(format_list(names, 4), "a, b, c, d");
  EXPECT_EQ(format_list(names, 3), "a, b, c and 1 more");
  EXPECT_EQ(format_list(names, 1), "a and 3 more");
  EXPECT_EQ(format_list({}, 3), "");
  EXPECT_EQ(format_choices(names), "a, b, c or d");
  EXPECT_EQ(format_choices(std::vector<std::string>{"a", "b"}), "a or b");
  EXPECT_EQ(format_choices(std::vector<std::string>{"a"}), "a");
}

TEST(Format, Bytes) {
  EXPECT_EQ(format_bytes(812.0), "812 B");
  EXPECT_EQ(format_bytes(1023.0), "1023 B");
  EXPECT_EQ(format_bytes(1024.0), "1.00 KiB");
  EXPECT_EQ(format_bytes(1.5 * 1024 * 1024 * 1024), "1.50 GiB");
  EXPECT_EQ(format_bytes(1023.9 * 1024), "1.00 MiB");
}

TEST(Format, ThousandsAndPercent) {
  EXPECT_EQ(format_thousands(0), "0");
  EXPECT_EQ(format_thousands(999), "999");
  EXPECT_EQ(format_amount(1, "file"), "1 file");
  EXPECT_EQ(format_amount(2048, "file"), "2,048 files");
  EXPECT_EQ(format_amount(2, "matrix", "matrices"), "2 matrices");
  EXPECT_EQ(format_thousands(1000), "1,000");
  EXPECT_EQ(format_thousands(10770816), "10,770,816");
  EXPECT_EQ(format_thousands(-123456), "-123,456");
  EXPECT_EQ(format_thousands(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(format_percent(0.8731), "87.3 %");
  EXPECT_EQ(format_percent(std::nan("")), "?");
  EXPECT_EQ(format_number(-std::nan("")), "NaN");
  EXPECT_EQ(format_number(0.1), "0.1");
}

}  // namespace
}  // namespace gpt
