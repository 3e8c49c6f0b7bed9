#include "text/c_vocab.h"

#include <cstring>

#include "base/file.h"
#include "base/rng.h"
#include "text/vocab_data.h"
#include "unit/text/golden_rows.h"

namespace gpt {
namespace {

using test::expect_message;
using test::Fact;
using test::kTextData;

std::string number(uint32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string header(uint32_t version, uint32_t count, uint32_t end) {
  return number(20240328) + number(version) + number(count) + number(end) + std::string(1024 - 16, '\0');
}

// A vocabulary of all bytes, "he" and the end-of-text token.
std::string small_llmc(uint32_t version = 2) {
  std::string out = header(version, 258, 257);
  for (int b = 0; b < 256; ++b)
    out += std::string("\x01") + static_cast<char>(b);
  return out + "\x02he" + "\x0D<|endoftext|>";
}

std::string piece(const std::string& text, float score = 0) {
  uint32_t bits;
  std::memcpy(&bits, &score, sizeof bits);
  return number(bits) + number(static_cast<uint32_t>(text.size())) + text;
}

void expect_same(const Tokenizer& a, const Tokenizer& b) {
  RandomStream random(21, RandomSite::test);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (size_t n = random.below(30); n > 0; --n)
      text +=
          std::array{" ", "the", "t", "he ", "\xE4\xB8\xAD", "\n", "a", "1", "<s>", "  "}[random.below(10)];
    EXPECT_EQ(a.encode(text), b.encode(text)) << text;
    EXPECT_EQ(a.decode(a.encode(text)), b.decode(b.encode(text)));
  }
}

TEST(CVocab, LlmcSaysWhatTokensAre) {
  const auto tokenizer = detail::read_llmc_tokenizer(small_llmc(), "t.bin");
  EXPECT_EQ(tokenizer->vocab_size(), 258);
  EXPECT_EQ(tokenizer->encode("the"), (std::vector<int32_t>{'t', 256}));
  EXPECT_EQ(tokenizer->encode_special("<|endoftext|>"), std::vector<int32_t>{257});
  EXPECT_EQ(tokenizer->encode("<|endoftext|>").size(), 13u);
  EXPECT_EQ(tokenizer->special_ids().eos, 257);
  EXPECT_EQ(llmc_tokenizer(*tokenizer, 258), small_llmc());
}

TEST(CVocab, LlmcFillsUpToTheModel) {
  const auto tokenizer = detail::read_llmc_tokenizer(small_llmc(), "t.bin");
  const std::string padded = llmc_tokenizer(*tokenizer, 260);
  EXPECT_EQ(padded.size(), small_llmc().size() + 2);
  expect_same(*detail::read_llmc_tokenizer(padded, "t.bin"), *tokenizer);
}

TEST(CVocab, LlmcThereAndBackForGpt2) {
  const std::string rows = test::reference_path("tokenizers/gpt2.jsonl");
  GPT_SKIP_WITHOUT(rows);
  const auto tokenizer = load_tokenizer(test::reference_path("../data/tokenizers/gpt2"));
  const auto again = detail::read_llmc_tokenizer(llmc_tokenizer(*tokenizer, 50257), "t.bin");
  std::ifstream file(rows);
  for (std::string line; std::getline(file, line);) {
    const std::string text = nlohmann::json::parse(line)["text"];
    EXPECT_EQ(again->encode(text), tokenizer->encode(text)) << line;
  }
}

TEST(CVocab, Llama2cThereAndBack) {
  VocabData data = load_tokenizer(kTextData + "spm.model")->vocab_data();
  const auto model = tokenizer_of(data, "m");
  expect_message([&] { llama2c_tokenizer(*model, model->vocab_size()); }, "llama2.c", {0, 3, 4});
  data.tokens.erase(data.tokens.begin() + 3);  // a user-defined token
  data.scores.erase(data.scores.begin() + 3);
  data.types.erase(data.types.begin() + 3);
  const auto tokenizer = tokenizer_of(data, "m");
  const std::string bytes = llama2c_tokenizer(*tokenizer, tokenizer->vocab_size());
  const auto again = detail::read_llama2c_tokenizer(bytes, "tokenizer.bin");
  expect_same(*again, *tokenizer);
  EXPECT_EQ(again->special_ids().bos, 1);
  EXPECT_EQ(again->special_ids().eos, 2);
  EXPECT_EQ(again->token_bytes(1), "<s>");
  EXPECT_EQ(llama2c_tokenizer(*again, again->vocab_size()), bytes);
  // This is the format that tokenizer.py of llama2.c writes.
  EXPECT_NE(bytes.find(piece("\n<s>\n") + piece("\n</s>\n")), std::string::npos);
}

TEST(CVocab, LoadsByName) {
  EXPECT_THROW(load_tokenizer(kTextData + "none.bin"), Error);
}

TEST(CVocab, SaysWhatItCannotWrite) {
  const auto bytes = make_byte_tokenizer();
  expect_message([&] { llmc_tokenizer(*bytes, 256); }, "llm.c", {"byte"});
  expect_message([&] { llama2c_tokenizer(*bytes, 256); }, "llama2.c", {"byte"});
}

TEST(CVocab, LlmcSaysWhatItCannotRead) {
  const auto expect = [](const std::string& bytes, std::initializer_list<Fact> facts) {
    expect_message([&] { detail::read_llmc_tokenizer(bytes, "t.bin"); }, "t.bin", facts);
  };
  expect("", {1024, 20240328});
  expect(std::string(1024, '\0'), {1024, 20240328});
  expect(header(3, 1, 0) + "a", {1, 2, 3});
  expect(header(2, 0, 0), {0, 1});
  expect(header(2, 0xFFFFFFFF, 0) + "abc", {4294967295, 3});
  expect(header(2, 2, 0) + "a", {2, 1});
  expect(header(2, 1, 1) + "a", {1, 0});
  expect(header(1, 1, 0) + "a", {50256, 0});
  expect(header(2, 1, 0xFFFFFFFF) + "a", {4294967295, 0});
  expect(header(2, 1, 0) + "a", {0, 1});
  expect(header(2, 1, 0) + std::string(1, '\0'), {0});
  expect(header(2, 2, 1) + "\x01z\x01y", {"0x00"});
  expect(small_llmc() + "x", {1, 258});
  expect(header(2, 258, 257) + small_llmc().substr(1024, 512) + "\x01z\x0D<|endoftext|>", {122, 256});
  expect(header(2, 257, 256) + small_llmc().substr(1024, 512) + "\x02\xC3(", {256, "UTF-8", 0});
}

TEST(CVocab, Llama2cSaysWhatItCannotRead) {
  const auto expect = [](const std::string& bytes, std::initializer_list<Fact> facts) {
    expect_message([&] { detail::read_llama2c_tokenizer(bytes, "t.bin"); }, "t.bin", facts);
  };
  const std::string good = piece("<unk>") + piece("\n<s>\n") + piece("\n</s>\n");
  expect("", {"llama2.c", 0});
  expect(number(0), {"llama2.c", 0});
  expect(number(0xFFFFFFFF), {"llama2.c", 4294967295});
  expect(number(8), {1, 0});
  expect(number(8) + "abc", {0, 8, 4, 3});
  expect(number(8) + piece(""), {0, 1, 8});
  expect(number(8) + good + piece("123456789"), {3, 9, 8});
  expect(number(8) + good + number(0) + number(8) + "abc", {3, 8});
  expect(number(8) + good + number(0) + number(0xFFFFFFFF) + "abc", {3, 4294967295, 8});
  expect(number(8) + good + piece("\xFF"), {3, "UTF-8"});
  expect(number(8) + good + piece("a") + piece("a"), {3, 4});
  expect(number(8) + good + piece("a", std::numeric_limits<float>::quiet_NaN()), {3});
  expect(number(8) + good + piece("<0x41>"), {256, 1});
}

}  // namespace
}  // namespace gpt
