#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/bpe_tokenizer.h"
#include "text/c_vocab.h"
#include "text/jinja/jinja.h"
#include "text/spm_model.h"
#include "text/tiktoken.h"
#include "text/tokenizer.h"
#include "text/vocab_data.h"

// Entry points like those in targets.h, for the tokenizer parsers.
namespace gpt {

// Checks properties of every tokenizer: the ids of any text are in the vocabulary and have bytes.
inline void check_tokenizer(const Tokenizer& tokenizer) {
  constexpr std::string_view kText =
      " The  <s> caf\xC3\xA9's 123\n\t\xE4\xB8\xAD\xFF\xE2\x96\x81 aaaaaaaaaaaaaaaaaaaa";
  try {
    for (const bool special : {false, true}) {
      for (const int32_t id : special ? tokenizer.encode_special(kText) : tokenizer.encode(kText)) {
        GPT_ASSERT(id >= 0 && id < tokenizer.vocab_size());
        static_cast<void>(tokenizer.token_bytes(id));
      }
    }
    static_cast<void>(parse_tokenizer(tokenizer.to_json(), "again"));
    // With a million ids, nearly all of which are holes that get a name here, this would take ten seconds
    // under sanitizers.
    constexpr int32_t kMostIds = 1 << 17;
    if (tokenizer.vocab_size() <= kMostIds) static_cast<void>(tokenizer_of(tokenizer.vocab_data(), "again"));
  } catch (const Error&) {
    // The vocabulary lacks some characters, or the format cannot represent this kind of tokenizer.
  }
}

template <class Read>
int fuzz_tokenizer(Read&& read) {
  try {
    check_tokenizer(*read());
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

inline int fuzz_tokenizer_json(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return fuzz_tokenizer([&] { return parse_tokenizer(text, "fuzz"); });
}

inline int fuzz_spm_model(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  return fuzz_tokenizer([&] { return tokenizer_of(detail::parse_spm_model(bytes, "fuzz"), "fuzz"); });
}

inline int fuzz_c_vocab(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  return fuzz_tokenizer([&] {
    return detail::is_llmc_tokenizer(bytes) ? detail::read_llmc_tokenizer(bytes, "fuzz")
                                            : detail::read_llama2c_tokenizer(bytes, "fuzz");
  });
}

inline int fuzz_tiktoken(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return fuzz_tokenizer(
      [&] { return detail::make_bpe_tokenizer(detail::read_rank_file(text, "fuzz.cl100k")); });
}

// Builds vocabulary data from lines with one value each. The first character of a line selects the field. "t"
// is followed by a token's type, its score, a space, and the token.
inline VocabData vocab_data_of_lines(std::string_view text) {
  VocabData data;
  const auto number = [](std::string_view digits) {
    int64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end), rest = line.substr(std::min<size_t>(1, line.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
    switch (line.empty() ? '\0' : line[0]) {
      case 'M':
        data.model = rest;
        break;
      case 'P':
        data.pre = rest;
        break;
      case 't': {
        const size_t blank = std::min(rest.find(' '), rest.size());
        data.types.push_back(rest.empty() ? 1 : rest[0] - '0');
        data.scores.push_back(static_cast<float>(number(rest.substr(std::min<size_t>(1, blank), blank))));
        data.tokens.emplace_back(rest.substr(std::min(blank + 1, rest.size())));
        break;
      }
      case 'm':
        data.merges.emplace_back(rest);
        break;
      case 'b':
        data.special.bos = number(rest);
        break;
      case 'u':
        data.special.unk = number(rest);
        break;
      case 's':
        data.add_space_prefix = rest == "1";
        break;
      case 'x':
        data.remove_extra_whitespaces = rest == "1";
        break;
      default:
        data.types.clear();
    }
  }
  return data;
}

inline int fuzz_vocab_data(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return fuzz_tokenizer([&] { return tokenizer_of(vocab_data_of_lines(text), "fuzz"); });
}

// Renders a template over a conversation. The spans of the rendered text must cover it without gaps.
inline int fuzz_jinja(const uint8_t* data, size_t size) {
  static const auto kContext = nlohmann::ordered_json::parse(
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": " Ü, é\n"},
          {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5]}}}]}],
          "tools": [{"type": "function", "function": {"name": "f"}}], "add_generation_prompt": true,
          "bos_token": "<s>", "n": 3, "s": "abc", "l": [3, 1, 2], "d": {"a": 1, "b": [true, null]}})");
  try {
    const JinjaTemplate compiled(std::string_view(reinterpret_cast<const char*>(data), size));
    const JinjaText text = compiled.render_marked(kContext);
    size_t at = 0;
    for (const JinjaSpan& span : text.spans) {
      GPT_ASSERT(span.begin == at && span.end > at && span.origin < 3);
      at = span.end;
    }
    GPT_ASSERT(at == text.text.size());
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace gpt
