#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "data/byte_stream.h"
#include "data/records.h"
#include "data/text_blocks.h"
#include "data/token_shard.h"
#include "text/split.h"
#include "text/text_cut.h"

// Entry points like those in targets.h, for the parsers of src/data and src/text.
namespace gpt {

inline bool accepts_shard(std::span<const std::byte> bytes) {
  try {
    const TokenShard shard(bytes, "fuzz");
    GPT_ASSERT(shard.ids().size() ==
               static_cast<size_t>(shard.info().count) * static_cast<size_t>(shard.info().bytes_per_id));
    shard.verify();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Parses the bytes unchanged, and again with a correct header checksum, which mutations would not find.
inline int fuzz_shard(const uint8_t* data, size_t size) {
  constexpr size_t kHashed = 120;
  std::vector<uint64_t> aligned(size / 8 + 1);
  if (size > 0) std::memcpy(aligned.data(), data, size);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(aligned)).first(size);
  const bool accepted = accepts_shard(bytes);
  if (size < kHashed + 8) return accepted ? 1 : 0;
  const uint64_t hash = XXH3_64bits(bytes.data(), kHashed);
  std::memcpy(bytes.data() + kHashed, &hash, sizeof hash);
  accepts_shard(bytes);
  return accepted ? 1 : 0;
}

inline int fuzz_jsonl(const uint8_t* data, size_t size) {
  const TextBlock block{.text = std::string(reinterpret_cast<const char*>(data), size), .json = true};
  try {
    for_each_json_text(block, "fuzz", "text", [&](std::string_view text, int64_t) {
      GPT_ASSERT(!first_invalid_utf8(text) && text.size() <= size);
    });
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

// Reads every record, also after invalid ones. Checks that reading ends and that all rows have as many cells
// as the first one.
inline int fuzz_records(const uint8_t* data, size_t size) {
  int good = 0;
  try {
    RecordReader reader("fuzz.csv", byte_stream_of(std::as_bytes(std::span(data, size)), "fuzz"));
    for (Record record;;) {
      try {
        if (!reader.next(record)) return good > 0 ? 1 : 0;
        GPT_ASSERT(record.cells.size() == reader.columns().size());
        ++good;
      } catch (const RecordError&) {
      }
    }
  } catch (const Error&) {
    return 0;
  }
}

inline int fuzz_compressed(const uint8_t* data, size_t size) {
  constexpr ByteStreamLimits kLimits{.max_ratio = 50, .free_bytes = 1 << 16};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  std::vector<char> part(4096);
  try {
    const auto stream = byte_stream_of(bytes, "fuzz", kLimits);
    size_t total = 0;
    for (size_t n = part.size(); n == part.size(); total += n)
      n = stream->read(part);
    GPT_ASSERT(total <= kLimits.free_bytes + (kLimits.max_ratio + 1) * size + part.size());
    GPT_ASSERT(stream->consumed() <= size);
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

// Checks that cutting a text at a safe position does not change its pieces, for all patterns.
inline int fuzz_cut(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), std::min<size_t>(size, 2000));
  for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::cl100k, SplitPattern::llama3,
                                     SplitPattern::nanochat, SplitPattern::o200k}) {
    std::vector<bool> ends(text.size() + 1);
    for (size_t at = 0; at < text.size(); ends[at] = true)
      at = split_end(pattern, text, at);
    for (size_t cut = last_safe_cut(text, 0, text.size()); cut > 0; cut = last_safe_cut(text, 0, cut - 1)) {
      GPT_ASSERT(ends[cut]);
      const std::string_view left = text.substr(0, cut);
      for (size_t at = 0; at < left.size();) {
        at = split_end(pattern, left, at);
        GPT_ASSERT(ends[at]);
      }
      if (cut == 1) break;
    }
  }
  return 1;
}

}  // namespace gpt
