#include "train/data_identity.h"

#include <fmt/format.h>

#include "data/token_hash.h"
#include "text/tokenizer.h"
#include "train/run_data.h"

namespace gpt {
namespace {

std::string hash_text(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace

DataIdentity identity_of(const RunData& data) {
  uint64_t train = 0;
  for (const WeightedTokens& source : data.sources) {
    train = bytes_hash(fmt::format("{} {} {}", train, token_hash(source.tokens), source.weight));
  }
  return {.tokens = data.train.size(),
          .train = hash_text(train),
          .val = hash_text(token_hash(data.val)),
          .tokenizer = hash_text(bytes_hash(data.tokenizer->to_json()))};
}

}  // namespace gpt
