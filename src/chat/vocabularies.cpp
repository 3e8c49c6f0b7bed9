#include "chat/vocabularies.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "chat/model_text.h"
#include "text/tokenizer_facts.h"

namespace gpt {
namespace {

std::unique_ptr<Tokenizer> readable_tokenizer(const LoadedModel& loaded) {
  try {
    return model_tokenizer(loaded, "");
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

int32_t differing_id(const Tokenizer& a, const Tokenizer& b) {
  std::set<int64_t> added;
  for (const Tokenizer* tokenizer : {&a, &b}) {
    for (const TokenizerFacts::Added& token : tokenizer_facts(*tokenizer, 0).added)
      added.insert(token.id);
  }
  const auto both = static_cast<int32_t>(std::min(a.vocab_size(), b.vocab_size()));
  for (int32_t id = 0; id < both; ++id) {
    const std::string one = bytes_of_id(a, id), other = bytes_of_id(b, id);
    if (!one.empty() && !other.empty() && one != other && !added.contains(id)) return id;
  }
  return -1;
}

void require_equal_vocabularies(const LoadedModel& a, const LoadedModel& b) {
  const std::string name = a.paths().front(), other = b.paths().front();
  const int64_t size = a.model().config.vocab_size, other_size = b.model().config.vocab_size;
  if (size != other_size)
    fail("{}: expected the vocabulary of {} ({} tokens vs. {} tokens); use a model with the same tokenizer",
         other, name, size, other_size);
  const auto ours = readable_tokenizer(a), theirs = readable_tokenizer(b);
  if (ours == nullptr || theirs == nullptr) return;
  const int32_t id = differing_id(*theirs, *ours);
  if (id < 0) return;
  fail("{}: expected the vocabulary of {} (token {}: {} vs. {}); use a model with the same tokenizer", other,
       name, id, printable(bytes_of_id(*ours, id)), printable(bytes_of_id(*theirs, id)));
}

}  // namespace gpt
