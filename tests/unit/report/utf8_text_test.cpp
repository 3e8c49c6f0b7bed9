#include "report/utf8_text.h"

#include <gtest/gtest.h>

namespace gpt {
namespace {

TEST(Utf8Text, DecodesEveryLength) {
  const std::string text = "a\u00e9\u20ac\U0001F600";
  size_t at = 0;
  EXPECT_EQ(next_code_point(text, at), U'a');
  EXPECT_EQ(next_code_point(text, at), char32_t{0xE9});
  EXPECT_EQ(next_code_point(text, at), char32_t{0x20AC});
  EXPECT_EQ(next_code_point(text, at), char32_t{0x1F600});
  EXPECT_EQ(at, text.size());
}

TEST(Utf8Text, MalformedBytesAreReplacedOneByOne) {
  EXPECT_EQ(visible_text("\xff"
                         "a"),
            "\uFFFD"
            "a");
  EXPECT_EQ(visible_text("\xC0\xAF"), "\uFFFD\uFFFD");                      // overlong
  EXPECT_EQ(visible_text("\xE0\x80\x80"), "\uFFFD\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(visible_text("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // surrogate
  EXPECT_EQ(visible_text("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
  EXPECT_EQ(visible_text("\xE2\x82"), "\uFFFD\uFFFD");                      // truncated
}

TEST(Utf8Text, ControlsBecomeVisible) {
  EXPECT_EQ(visible_text("a\x1b[31m"), "a\u241b[31m");
  EXPECT_EQ(visible_text("a\nb\tc"), "a\u240ab\u2409c");
  EXPECT_EQ(visible_text("a\nb\tc\r", true), "a\nb\tc\u240d");
  EXPECT_EQ(visible_text("\x7f"), "\u2421");
  EXPECT_EQ(visible_text("\u009b"), "\uFFFD");  // a C1 control
  EXPECT_EQ(visible_text("\u202e"), "\uFFFD");
  EXPECT_EQ(visible_text("\uFFFE"), "\uFFFD");
  EXPECT_EQ(visible_text(std::string_view("\0", 1)), "\u2400");
}

TEST(Utf8Text, EscapesMarkup) {
  EXPECT_EQ(escape_markup("<a b=\"c\" d='e'>&"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
}

TEST(Utf8Text, WidthsOfColumns) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("\u00e9"), 1);
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(display_width("\u6f22\u5b57"), 4);
}

TEST(Utf8Text, CutsAtColumns) {
  EXPECT_EQ(cut_to_width("abc", 3), "abc");
  EXPECT_EQ(cut_to_width("abcd", 3), "ab…");
  EXPECT_EQ(cut_to_width("abcd", 1), "a");
  EXPECT_EQ(cut_to_width("abcd", 0), "");
  EXPECT_EQ(cut_to_width("\u6f22\u5b57", 3), "\u6f22…");
  EXPECT_EQ(cut_to_width("\u6f22\u5b57", 2), "…");
}

}  // namespace
}  // namespace gpt
