#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/pack.h"
#include "data/token_shard.h"

namespace gpt {

// What packing gave.
nlohmann::json pack_json(const std::string& out, const PackOptions& options, const PackStats& stats);
std::string pack_text(const std::string& out, const Tokenizer& tokenizer, const PackOptions& options,
                      const PackStats& stats);

// What shards hold; with a tokenizer also how the first one begins.
nlohmann::json shards_json(const std::vector<TokenShard>& shards);
std::string shards_text(const std::vector<TokenShard>& shards, const Tokenizer* tokenizer);

}  // namespace gpt
