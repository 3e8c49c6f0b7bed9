#include "data/unknown_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/utf8.h"
#include "data/token_data.h"
#include "text/tokenizer_facts.h"

namespace gpt {

UnknownTokens::UnknownTokens(const Tokenizer& tokenizer)
    : id_(static_cast<int32_t>(tokenizer.special_ids().unk)) {
  if (id_ < 0) return;
  constexpr int64_t kShownChars = 40;
  name_ = bytes_of_id(tokenizer, id_);
  for (const TokenizerFacts::Added& token : tokenizer_facts(tokenizer, 0).added) {
    if (token.id == id_) name_ = token.text;
  }
  name_ = printable_text(name_, kShownChars);
}

void UnknownTokens::add(std::span<const int32_t> ids) {
  if (id_ < 0) return;
  tokens_ += std::ssize(ids);
  unknown_ += std::ranges::count(ids, id_);
}

void UnknownTokens::add(const TokenSpan& tokens) {
  if (id_ < 0) return;
  std::array<int32_t, 4096> part{};
  for (int64_t at = 0; at < tokens.size(); at += std::ssize(part)) {
    const int64_t n = std::min(std::ssize(part), tokens.size() - at);
    tokens.copy(at, n, part.data());
    add(std::span(part).first(static_cast<size_t>(n)));
  }
}

std::string UnknownTokens::note() const {
  if (unknown_ == 0) return "";
  return fmt::format(
      "note: {} is {} of {} ({}): the tokenizer lacks some characters of the text, and the model cannot "
      "generate them\n",
      name_, format_thousands(unknown_), format_amount(tokens_, "token"),
      format_percent(static_cast<double>(unknown_) / static_cast<double>(tokens_)));
}

}  // namespace gpt
