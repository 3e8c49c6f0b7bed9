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

namespace gpt {

using nlohmann::json;

// By these nlohmann's library reads and writes a place and a shard.
static void to_json(json& j, const PackPlace& p) {
  j = {{"file", p.block.file}, {"offset", p.block.offset}, {"line", p.block.line}, {"skip", p.skip}};
}
static void from_json(const json& j, PackPlace& p) {
  p = {{.file = j.at("file"), .offset = j.at("offset"), .line = j.at("line")}, j.at("skip")};
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PackedShard, tokens, text_bytes, documents, checksum, begin)

namespace {

constexpr uint64_t kMaxStateBytes = uint64_t{64} << 20;
constexpr const char* kChecksum = "checksum";  // of all other keys

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
          .modified = root.value("modified", std::vector<int64_t>()),
          .done = root.at("done")};
}

// Numbers that no run of gpt data pack writes.
bool is_sane(const PackState& s, const json& root) {
  if (root.contains("list") != root.contains(kChecksum))
    return false;  // what earlier versions wrote has neither
  if (root.contains(kChecksum) && root.at(kChecksum) != checksum_of(root)) return false;
  const bool good_list = std::ranges::all_of(s.list, [](const PackedShard& shard) {
    return shard.tokens >= 0 && shard.begin.skip >= 0 && shard.begin.block.file >= 0;
  });
  return good_list && s.shards >= 0 && s.tokens >= 0 && s.shard_tokens > 0 && s.next.block.file >= 0 &&
         s.next.skip >= 0 && (s.list.empty() || s.has_list());
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

PackState read_pack_state(const std::string& folder) {
  const std::string path = pack_file(folder, kPackStateFile);
  const std::string text = read_file(path, kMaxStateBytes);
  try {
    const json root = json::parse(text);
    const PackState state = state_of(root);
    if (is_sane(state, root)) return state;
  } catch (const json::exception&) {
    // what is no JSON, or lacks something
  }
  fail("{} is damaged: expected what gpt data pack wrote; the same gpt data pack again repairs it", path);
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
  if (!state.tokenizer.empty()) root["tokenizer"] = state.tokenizer;
  if (state.has_list()) {
    root["list"] = state.list;
    root[kChecksum] = checksum_of(root);
  }
  write_file_atomic(pack_file(folder, kPackStateFile), root.dump(1) + "\n");
}

}  // namespace gpt
