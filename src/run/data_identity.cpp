#include "run/data_identity.h"

#include <fmt/format.h>

#include "base/format.h"
#include "data/token_hash.h"
#include "run/run_data.h"
#include "text/tokenizer.h"

namespace gpt {
namespace {

std::string hash_text(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

uint64_t mixed(uint64_t hash, uint64_t next) {
  return bytes_hash(fmt::format("{} {}", hash, next));
}

uint64_t hash_of_all(const TokenSpan& tokens) {
  constexpr int64_t kBlock = 1 << 16;
  std::vector<int32_t> ids(kBlock);
  uint64_t hash = 0;
  for (int64_t at = 0; at < tokens.size(); at += kBlock) {
    const int64_t n = std::min(kBlock, tokens.size() - at);
    tokens.copy(at, n, ids.data());
    hash = mixed(hash, bytes_hash({reinterpret_cast<const char*>(ids.data()), static_cast<size_t>(n) * 4}));
  }
  return hash;
}

void add_all_ids(const RunData& data, DataIdentity& identity) {
  uint64_t sizes = data.texts.size(), ids = 0;
  for (const TokenData* text : data.texts) {
    sizes = mixed(sizes, static_cast<uint64_t>(text->size()));
    ids = mixed(ids, hash_of_all(TokenSpan(*text)));
  }
  for (const CheckedBytes& shard : data.checksums) {
    if (!shard.checksum) continue;  // written by a different program
    sizes = mixed(sizes, shard.bytes);
    ids = mixed(ids, *shard.checksum);
  }
  identity.sizes = hash_text(sizes);
  identity.ids = hash_text(ids);
}

}  // namespace

std::string identity_of(const TokenSpan& tokens) {
  return hash_text(token_hash(tokens));
}

DataIdentity identity_of(const RunData& data) {
  uint64_t train = 0;
  for (const WeightedTokens& source : data.sources) {
    train = bytes_hash(fmt::format("{} {} {}", train, token_hash(source.tokens), source.weight));
  }
  DataIdentity identity{.tokens = data.train.size(),
                        .train = hash_text(train),
                        .val = identity_of(data.val),
                        .tokenizer = hex_hash(data.tokenizer->to_json()),
                        .sizes = {},
                        .ids = {}};
  add_all_ids(data, identity);
  return identity;
}

std::string data_difference(const DataIdentity& before, const DataIdentity& now) {
  if (before.tokens != now.tokens)
    return fmt::format("the run was trained on {} tokens, but the data now has {}",
                       format_thousands(before.tokens), format_thousands(now.tokens));
  const auto differ = [](const std::string& a, const std::string& b) {
    return !a.empty() && a != b;  // empty in checkpoints that did not record this hash
  };
  if (differ(before.base, now.base))
    return "the weights of the adapter's base model (base_hash) have changed since the run started";
  const char* what = differ(before.tokenizer, now.tokenizer) ? "the tokenizer (tokenizer_hash)"
                     : differ(before.train, now.train)       ? "the training text (data_hash)"
                     : differ(before.val, now.val)           ? "the validation text (val_data_hash)"
                     : before.sizes == now.sizes && differ(before.ids, now.ids) ? "the text (data_ids_hash)"
                                                                                : nullptr;
  if (what == nullptr) return "";
  return fmt::format("{} has changed since the run started, although the number of tokens is the same", what);
}

}  // namespace gpt
