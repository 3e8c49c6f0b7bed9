#pragma once

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "data/pack_piece.h"
#include "data/pack_state.h"
#include "data/word_file.h"

// Entry points like those in targets.h, for files that tasks write for a merge. Each parses the bytes
// unchanged, and again with a correct checksum, which mutations would not find.
namespace gpt {

inline constexpr size_t kSumBytes = sizeof(uint64_t);

// Replaces the last eight bytes by the hash of the bytes before them.
inline void sign(std::string& bytes) {
  const size_t hashed = bytes.size() - kSumBytes;
  const uint64_t hash = XXH3_64bits(bytes.data(), hashed);
  std::memcpy(bytes.data() + hashed, &hash, sizeof hash);
}

inline bool accepts_words(std::string_view bytes) {
  try {
    WordFile file(std::as_bytes(std::span(bytes)), "fuzz");
    std::string_view word;
    size_t words = 0;
    int64_t bytes_of_text = file.text_bytes();
    GPT_ASSERT(bytes_of_text >= 0 && !file.inputs().is_discarded());
    for (uint64_t count = 0; file.next(word, count); words += word.size() + 12) {
      GPT_ASSERT(count > 0 && word.size() < bytes.size());
      GPT_ASSERT(!__builtin_add_overflow(bytes_of_text, count * word.size(), &bytes_of_text));
    }
    GPT_ASSERT(words < bytes.size());
    return true;
  } catch (const Error&) {
    return false;
  }
}

inline int fuzz_words(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const bool accepted = accepts_words(bytes);
  if (size >= kSumBytes) {
    sign(bytes);
    accepts_words(bytes);
  }
  return accepted ? 1 : 0;
}

// Returns a shard with the ids 0 to 15.
inline std::vector<uint64_t> shard_of_piece() {
  constexpr uint64_t kIds = 16;
  constexpr size_t kHeaderWords = 16;
  std::vector<uint64_t> words(kHeaderWords + kIds * sizeof(uint16_t) / sizeof(uint64_t));
  std::array<uint16_t, kIds> ids;
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<uint16_t>(i);
  std::memcpy(words.data(), "GPTTOKEN", 8);
  words[1] = uint64_t{2} << 32 | 1;  // bytes per id, version
  words[2] = words[3] = kIds;        // number of ids, vocabulary size
  words[5] = XXH3_64bits(ids.data(), sizeof ids);
  words[8] = UINT64_MAX;  // no id before documents
  words[15] = XXH3_64bits(words.data(), (kHeaderWords - 1) * sizeof(uint64_t));
  std::memcpy(words.data() + kHeaderWords, ids.data(), sizeof ids);
  return words;
}

inline bool accepts_piece(std::string_view index) {
  static const std::vector<uint64_t> kShard = shard_of_piece();
  constexpr PieceLimits kLimits{.files = 4, .vocab_size = 16};
  try {
    const TokenShard shard(std::as_bytes(std::span(kShard)), "fuzz.bin");
    const PackedShard expected{.tokens = shard.info().count, .checksum = shard.info().checksum};
    Piece piece(shard, std::as_bytes(std::span(index)), "fuzz.blocks", expected, kLimits);
    int64_t next = 0;
    while (piece.head() != nullptr) {
      GPT_ASSERT(piece.head()->begin.file >= 0 && piece.head()->begin.file < kLimits.files);
      const EncodedBlock block = piece.take();
      for (const int32_t id : block.ids)
        GPT_ASSERT(id == next++);
      GPT_ASSERT(block.documents.empty() || block.documents.back() <= block.ids.size());
    }
    GPT_ASSERT(next == expected.tokens);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Parses the index of a piece.
inline int fuzz_piece(const uint8_t* data, size_t size) {
  std::string index(reinterpret_cast<const char*>(data), size);
  const bool accepted = accepts_piece(index);
  if (size >= kSumBytes) {
    sign(index);
    accepts_piece(index);
  }
  return accepted ? 1 : 0;
}

inline bool accepts_pack_state(std::string_view text) {
  try {
    const PackState state = parse_pack_state(text, "fuzz");
    GPT_ASSERT(state.shards >= 0 && (state.shards <= kMaxShards || state.has_list()));
    int64_t sum = 0;
    for (const PackedShard& shard : state.list)
      GPT_ASSERT(!__builtin_add_overflow(sum, shard.tokens, &sum));
    GPT_ASSERT(state.has_list() || state.list.empty());
    return true;
  } catch (const Error&) {
    return false;
  }
}

inline int fuzz_pack_state(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool accepted = accepts_pack_state(text);
  try {
    nlohmann::json root = parse_json(text, "fuzz");
    if (root.is_object() && root.erase("checksum") == 1) {
      const std::string rest = root.dump();
      root["checksum"] = fmt::format("{:016x}", XXH3_64bits(rest.data(), rest.size()));
      accepts_pack_state(root.dump());
    }
  } catch (const Error&) {
  }
  return accepted ? 1 : 0;
}

}  // namespace gpt
