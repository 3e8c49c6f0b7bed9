#include "data/pack_state.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace gpt {

using nlohmann::json;

// Conversions that nlohmann::json calls to read and write PackPlace and PackedShard.
static void to_json(json& j, const PackPlace& p) {
  j = {{"file", p.block.file}, {"offset", p.block.offset}, {"line", p.block.line}, {"skip", p.skip}};
}
static void from_json(const json& j, PackPlace& p) {
  p = {{.file = j.at("file"), .offset = j.at("offset"), .line = j.at("line")}, j.at("skip")};
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PackedShard, tokens, text_bytes, documents, checksum, begin)

namespace {

constexpr JsonLimits kLimits{.max_bytes = uint64_t{64} << 20, .max_elements = uint64_t{1} << 24};
// With these limits, sums over all shards of a file (fewer than 2^20) stay below 2^63.
constexpr int64_t kMostOfShard = int64_t{1} << 42, kMostOfPack = int64_t{1} << 60;
constexpr const char* kChecksum = "checksum";  // key of the checksum over all other keys

std::string checksum_of(json state) {
  state.erase(kChecksum);
  const std::string text = state.dump();
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

PackState state_of(const json& root) {
  const json& inputs = root.at("inputs");
  return {.inputs = inputs.dump(),
          .format = inputs.at("format") == "llmc" ? ShardFormat::llmc : ShardFormat::gpt,
          .shard_tokens = inputs.at("shard_tokens"),
          .next = root.at("next"),
          .documents = root.at("documents"),
          .text_bytes = root.at("text_bytes"),
          .tokens = root.at("tokens"),
          .shards = root.at("shards"),
          .list = root.value("list", std::vector<PackedShard>()),
          .tokenizer = root.value("tokenizer", ""),
          .tokenizer_found = root.value("tokenizer_found", false),
          .modified = root.value("modified", std::vector<int64_t>()),
          .done = root.at("done")};
}

bool is_count(int64_t n, int64_t most) {
  return n >= 0 && n <= most;
}

bool is_sane(const PackPlace& place) {
  return place.block.file >= 0 && place.block.line >= 0 && place.skip >= 0;
}

bool is_sane(const PackedShard& shard) {
  return is_count(shard.tokens, kMostOfShard) && is_count(shard.text_bytes, kMostOfShard) &&
         is_count(shard.documents, kMostOfShard) && is_sane(shard.begin);
}

// Returns true if a run of gpt data pack could have written these numbers.
bool is_sane(const PackState& s, const json& root) {
  if (root.contains("list") != root.contains(kChecksum))
    return false;  // earlier versions wrote neither of the two keys
  // Earlier versions did not write a tokenizer.
  if (root.contains("tokenizer") && !root.contains("list")) return false;
  if (root.contains(kChecksum) && root.at(kChecksum) != checksum_of(root)) return false;
  const bool good_list = std::ranges::all_of(s.list, [](const PackedShard& shard) { return is_sane(shard); });
  const bool good_sums = is_count(s.tokens, kMostOfPack) && is_count(s.text_bytes, kMostOfPack) &&
                         is_count(s.documents, kMostOfPack);
  // With a list, the size of pack.json limits the number of shards. Without a list, only this check limits
  // it.
  const bool good_number = s.has_list() || (s.list.empty() && is_count(s.shards, kMaxShards));
  return good_list && good_sums && good_number && s.shard_tokens > 0 && is_sane(s.next);
}

}  // namespace

std::string pack_file(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

std::string shard_file_name(int64_t shard) {
  return fmt::format("shard-{:05}.bin", shard);
}

std::optional<int64_t> own_shard_number(const std::string& name) {
  constexpr size_t kBegin = std::string_view("shard-").size();
  int64_t number = -1;
  if (name.size() > kBegin) std::from_chars(name.data() + kBegin, name.data() + name.size(), number);
  return number >= 0 && name == shard_file_name(number) ? std::optional(number) : std::nullopt;
}

std::string tokenizer_hash(std::string_view json) {
  return fmt::format("{:016x}", XXH3_64bits(json.data(), json.size()));
}

PackState parse_pack_state(std::string_view text, const std::string& path) {
  try {
    const json root = parse_json(text, path, kLimits);
    if (!has_fraction(root)) {  // all numbers in pack.json are integers
      PackState state = state_of(root);
      if (is_sane(state, root)) return state;
    }
  } catch (const json::exception&) {
    // a key is missing or has the wrong type
  } catch (const Error&) {
    // the text is not valid JSON
  }
  fail(
      "{} is damaged: expected the content that gpt data pack wrote; run the same gpt data pack command "
      "again to repair it",
      path);
}

PackState read_pack_state(const std::string& folder) {
  const std::string path = pack_file(folder, kPackStateFile);
  return parse_pack_state(read_file(path, kLimits.max_bytes), path);
}

std::optional<PackState> complete_pack(const std::string& folder) {
  if (path_kind(pack_file(folder, kPackStateFile)) == PathKind::nothing) return std::nullopt;
  try {
    PackState state = read_pack_state(folder);
    return state.done ? std::optional(std::move(state)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void write_pack_state(const std::string& folder, const PackState& state) {
  json root = {
      {"inputs", json::parse(state.inputs)}, {"next", state.next},     {"documents", state.documents},
      {"text_bytes", state.text_bytes},      {"tokens", state.tokens}, {"shards", state.shards},
      {"modified", state.modified},          {"done", state.done}};
  if (state.has_list()) {
    if (!state.tokenizer.empty()) root["tokenizer"] = state.tokenizer;
    if (state.tokenizer_found) root["tokenizer_found"] = true;
    root["list"] = state.list;
    root[kChecksum] = checksum_of(root);
  }
  write_file_atomic(pack_file(folder, kPackStateFile), root.dump(1) + "\n");
}

}  // namespace gpt
