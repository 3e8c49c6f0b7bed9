#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/reference.h"
#include "text/tokenizer.h"

namespace gpt::test {

inline const std::string kTextData = GPT_SOURCE_DIR "/tests/data/";

// Checks every row: the text, the ids and optional fields. One field says if names of special tokens are
// recognized, and one contains the decoded text.
inline void expect_rows(const Tokenizer& tokenizer, const std::string& rows, int count) {
  std::ifstream file(rows);
  int compared = 0;
  for (std::string line; std::getline(file, line); ++compared) {
    const auto row = nlohmann::json::parse(line);
    const std::string text = row["text"];
    const std::vector<int32_t> expected = row["ids"];
    EXPECT_EQ(row.value("special", false) ? tokenizer.encode_special(text) : tokenizer.encode(text), expected)
        << line;
    const std::string decoded = row.value("decoded", "");
    EXPECT_TRUE(!row.contains("decoded") || tokenizer.decode(expected) == decoded) << line;
  }
  EXPECT_EQ(compared, count);
}

// Checks that the error message is one line and contains the object and every fact.
inline void expect_message(const std::function<void()>& action, const std::string& object,
                           std::initializer_list<Fact> facts) {
  const std::string message = error_of(action);
  EXPECT_TRUE(names(message, {object}));
  EXPECT_TRUE(names(message, facts));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

}  // namespace gpt::test
