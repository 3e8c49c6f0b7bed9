#include "chat/model_text.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/error_of.h"
#include "support/names.h"

namespace gpt {
namespace {

using test::error_of;
using test::names;

ModelConfig with_vocabulary(int64_t size) {
  ModelConfig config;
  config.vocab_size = size;
  return config;
}

// A draft model's matrix of tokens may be larger or smaller than the model's, as long as ids mean the same.
TEST(SameVocabulary, IsThatOfTheTextsWhereTheyAreKnown) {
  const auto abc = make_char_tokenizer("abc"), abd = make_char_tokenizer("abd"),
             ab = make_char_tokenizer("ab");
  const auto problem = [&](const Tokenizer* ours, int64_t size, const Tokenizer* theirs, int64_t their_size) {
    return error_of([&] {
      require_same_vocabulary(ours, with_vocabulary(size), "small", theirs, with_vocabulary(their_size));
    });
  };
  EXPECT_EQ(problem(abc.get(), 64, abc.get(), 80), "no error");
  EXPECT_TRUE(names(problem(abc.get(), 64, abd.get(), 64), {"small", 2, "\"d\"", "\"c\""}));
  EXPECT_TRUE(names(problem(abc.get(), 64, ab.get(), 64), {"small", 3, 2}));
  EXPECT_EQ(problem(nullptr, 64, abd.get(), 64), "no error");
  EXPECT_TRUE(names(problem(nullptr, 64, nullptr, 65), {"small", 64, 65}));
}

}  // namespace
}  // namespace gpt
