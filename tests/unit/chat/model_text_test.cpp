#include "chat/model_text.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

using test::error_of;
using test::names;

ModelConfig with_vocabulary(int64_t size) {
  ModelConfig config;
  config.vocab_size = size;
  return config;
}

// The embedding of a draft model may be larger or smaller than that of the model, if ids have the same
// meaning.
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

// The adapter in tests/data records the name "base" for its base model.
TEST(OtherBase, IsOneOfAnotherName) {
  const std::string data = std::string(GPT_SOURCE_DIR) + "/tests/data/adapters/llama/";
  const test::TempDir dir;
  const auto note_with = [&](const std::string& folder) {
    std::filesystem::create_directories(dir.file(folder));
    for (const char* file : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(data + "base/" + file, dir.file(folder) + "/" + file);
    return note_other_base(LoadedModel(dir.file(folder)), data + "adapter");
  };
  EXPECT_EQ(note_with("base"), "");
  EXPECT_EQ(note_with("runs/base/best"), "");
  EXPECT_EQ(note_with("models--someone--base/snapshots/0123abcd"), "");
  EXPECT_TRUE(names(note_with("chat"), {data + "adapter", "base", dir.file("chat")}));
  EXPECT_TRUE(names(note_with("base/0123abcd"), {"base", dir.file("base/0123abcd")}));
}

}  // namespace
}  // namespace gpt
