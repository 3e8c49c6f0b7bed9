// Tests the vocabularies that come with llama.cpp, with its test texts and the ids that llama.cpp gives them.

#include <algorithm>
#include <set>
#include <sstream>

#include "base/file.h"
#include "convert/gguf_vocab.h"
#include "unit/text/golden_rows.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

const std::vector<std::string> kNames = {"falcon", "gpt-2", "llama-spm", "phi-3", "starcoder"};

std::string folder() {
  return test::reference_path("../data/tokenizers/gguf");
}

// Returns the tokenizer of a GGUF file. If the file is missing, returns a tokenizer with the same vocabulary
// from another file, or null.
std::unique_ptr<Tokenizer> tokenizer_named(const std::string& name) {
  const std::string file = folder() + "/ggml-vocab-" + name + ".gguf";
  if (fs::exists(file)) return tokenizer_of(gguf_vocab(GgufFile(file)).value(), file);
  const std::string other = folder() + "/../" + (name == "gpt-2" ? "gpt2" : "llama-spm");
  const bool same = name == "gpt-2" || name == "llama-spm" || name == "phi-3";
  return same ? load_tokenizer(other) : nullptr;
}

std::vector<std::string> texts_of(const std::string& file) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  for (std::string rest = read_file(file); !rest.empty();) {
    const size_t end = std::min(rest.find(separator), rest.size());
    texts.push_back(rest.substr(0, end));
    rest.erase(0, std::min(end + separator.size(), rest.size()));
  }
  return texts;
}

class GgufConformance : public testing::TestWithParam<std::string> {};

TEST_P(GgufConformance, GivesTheIdsOfLlamaCpp) {
  GPT_SKIP_WITHOUT(folder());
  const auto tokenizer = tokenizer_named(GetParam());
  if (tokenizer == nullptr) GTEST_SKIP() << "the texts are here, the vocabulary is not: " << GetParam();
  const std::string file = folder() + "/ggml-vocab-" + GetParam() + ".gguf";
  const std::vector<std::string> texts = texts_of(file + ".inp");
  std::ifstream ids(file + ".out");
  size_t compared = 0;
  for (std::string line; compared < texts.size() && std::getline(ids, line); ++compared) {
    std::istringstream numbers(line);
    const Ids expected(std::istream_iterator<int32_t>(numbers), {});
    EXPECT_EQ(tokenizer->encode(texts[compared]), expected) << testing::PrintToString(texts[compared]);
  }
  EXPECT_EQ(compared, texts.size());
  EXPECT_GT(compared, 40u);
}

// Writing a vocabulary and reading it again preserves it.
TEST_P(GgufConformance, SurvivesBeingWritten) {
  GPT_SKIP_WITHOUT(folder());
  const auto tokenizer = tokenizer_named(GetParam());
  if (tokenizer == nullptr) GTEST_SKIP() << "the texts are here, the vocabulary is not: " << GetParam();
  const auto json = parse_tokenizer(tokenizer->to_json(), "json");
  const auto data = tokenizer_of(tokenizer->vocab_data(), "data");
  for (const std::string& text : texts_of(folder() + "/ggml-vocab-" + GetParam() + ".gguf.inp")) {
    EXPECT_EQ(json->encode(text), tokenizer->encode(text));
    EXPECT_EQ(data->encode(text), tokenizer->encode(text));
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, GgufConformance, testing::ValuesIn(kNames), [](const auto& test) {
  std::string name = test.param;
  std::erase(name, '-');
  return name;
});

TEST(GgufConformanceFiles, AllOfThemAreCompared) {
  GPT_SKIP_WITHOUT(folder());
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder())) {
    const std::string file = entry.path().filename(), end = ".gguf.inp", begin = "ggml-vocab-";
    if (file.ends_with(end)) found.insert(file.substr(begin.size(), file.size() - begin.size() - end.size()));
  }
  EXPECT_EQ(found, std::set<std::string>(kNames.begin(), kNames.end()));
}

}  // namespace
}  // namespace gpt
