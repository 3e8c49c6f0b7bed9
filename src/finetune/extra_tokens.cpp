#include "finetune/extra_tokens.h"

#include <nlohmann/json.hpp>

#include "base/ranges.h"
#include "text/tokenizer_facts.h"

namespace gpt {

std::shared_ptr<const Tokenizer> with_special_tokens(std::shared_ptr<const Tokenizer> tokenizer,
                                                     const std::vector<std::string>& names) {
  if (tokenizer->kind() == "byte" || tokenizer->kind() == "char") return tokenizer;
  const std::vector<TokenizerFacts::Added> added = tokenizer_facts(*tokenizer, 0).added;
  auto json = nlohmann::json::parse(tokenizer->to_json());
  int64_t next = tokenizer->vocab_size();
  for (const std::string& name : names) {
    if (find_by(added, &TokenizerFacts::Added::text, name) != nullptr) continue;
    json["added_tokens"].push_back({{"id", next++},
                                    {"content", name},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  }
  if (next == tokenizer->vocab_size()) return tokenizer;
  return parse_tokenizer(json.dump(), "the tokenizer with the task tokens");
}

}  // namespace gpt
