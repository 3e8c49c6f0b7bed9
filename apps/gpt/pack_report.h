#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/pack.h"
#include "data/pack_share.h"
#include "data/shard_set.h"
#include "data/token_shard.h"

namespace gpt {

// What packing gave.
nlohmann::json pack_json(const PackOptions& options, const PackStats& stats);
std::string pack_text(const Tokenizer& tokenizer, const PackOptions& options, const PackStats& stats);

// What one of several tasks gave.
nlohmann::json task_json(const PackTask& task, const PackOptions& options, const PackStats& stats);
std::string task_text(const PackTask& task, const PackOptions& options, const PackStats& stats);

// What packing would give.
nlohmann::json forecast_json(const PackOptions& options, const PackForecast& forecast);
std::string forecast_text(const PackOptions& options, const PackForecast& forecast);

// What reading shards gave: the damaged ones, a sentence each, and how many have no checksums.
nlohmann::json verify_json(const ShardSet& set, const std::vector<std::string>& damaged, int64_t without);
std::string verify_text(const ShardSet& set, const std::vector<std::string>& damaged, int64_t without);

// What shards hold; with a tokenizer also how the first one begins.
nlohmann::json shards_json(const std::vector<TokenShard>& shards);
std::string shards_text(const std::vector<TokenShard>& shards, const Tokenizer* tokenizer);

}  // namespace gpt
