#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/pack.h"
#include "data/pack_share.h"
#include "data/shard_set.h"
#include "data/token_shard.h"

namespace gpt {

// Format the result of packing as JSON and as text.
nlohmann::json pack_json(const PackOptions& options, const PackStats& stats);
std::string pack_text(const Tokenizer& tokenizer, const PackOptions& options, const PackStats& stats);

// Format the result of one of several packing tasks.
nlohmann::json task_json(const PackTask& task, const PackOptions& options, const PackStats& stats);
std::string task_text(const PackTask& task, const PackOptions& options, const PackStats& stats);

// Format the estimate of --dry-run.
nlohmann::json forecast_json(const PackOptions& options, const PackForecast& forecast);
std::string forecast_text(const PackOptions& options, const PackForecast& forecast);

// Format the result of verifying shards. damaged: one sentence for each damaged shard. without: the number of
// shards without checksums.
nlohmann::json verify_json(const ShardSet& set, const std::vector<std::string>& damaged, int64_t without);
std::string verify_text(const ShardSet& set, const std::vector<std::string>& damaged, int64_t without);

// Describe the contents of shards. With a tokenizer, the text also shows the start of the first shard.
nlohmann::json shards_json(const std::vector<TokenShard>& shards);
std::string shards_text(const std::vector<TokenShard>& shards, const Tokenizer* tokenizer);

}  // namespace gpt
