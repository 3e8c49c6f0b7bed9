#include "data/pack_before.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/path_kind.h"

namespace gpt {
namespace {

using nlohmann::json;

// The first file that was written since, although its size is the same: whether its text is, nobody knows.
std::string written_since(const PackState& state, const PackOptions& options) {
  const std::vector<int64_t> now = modified(options.files);
  for (size_t i = 0; i < std::min(now.size(), state.modified.size()); ++i) {
    if (now[i] != state.modified[i])
      return options.files[i] +
             " was written since it was packed and has the same size; if its text is another, "
             "pack it anew with --restart";
  }
  return "";
}

// How many files, from the first on, are what they were: of that name and size, not written since.
int64_t unchanged_files(const json& before, const PackState& state, const json& now,
                        const std::vector<int64_t>& times) {
  size_t same = 0;
  while (same < now.size() && same < before.size() && now[same] == before[same] &&
         (same >= state.modified.size() || times[same] == state.modified[same]))
    ++same;
  return static_cast<int64_t>(same);
}

// Forgets the shards whose text does not come from the first `same` files.
void keep_unchanged(PackState& state, int64_t same) {
  const auto ends_before = [&](const PackPlace& end) {
    return end.block.file < same || (end.block.file == same && end.block.offset == 0 && end.skip == 0);
  };
  while (!state.list.empty() && !ends_before(state.next)) {
    const PackedShard& last = state.list.back();
    state.next = last.begin;
    state.tokens -= last.tokens;
    state.text_bytes -= last.text_bytes;
    state.documents -= last.documents;
    --state.shards;
    state.list.pop_back();
  }
}

}  // namespace

std::string pack_inputs(const Tokenizer& tokenizer, const PackOptions& options) {
  json files = json::array();
  for (const std::string& path : options.files)
    files.push_back({{"path", path}, {"bytes", file_bytes(path)}});
  const json all = {{"files", files},
                    {"field", options.field},
                    {"format", options.format == ShardFormat::gpt ? "gpt" : "llmc"},
                    {"shard_tokens", options.shard_tokens},
                    {"document_token", options.document_token},
                    {"vocabulary", fmt::format("{:016x}", vocabulary_hash(tokenizer))}};
  return all.dump();
}

std::vector<int64_t> modified(const std::vector<std::string>& files) {
  std::vector<int64_t> times;
  for (const std::string& path : files)
    times.push_back(file_modified(path));
  return times;
}

void fail_other_pack(const std::string& out) {
  fail(
      "{} holds shards of other text or made with other options; choose another --out, or --restart to write "
      "them "
      "anew",
      out);
}

PackBefore look_at_pack(const PackOptions& options, const std::string& inputs) {
  const std::string& out = options.out;
  PackBefore before;
  if (path_kind(pack_file(out, kPackStateFile)) == PathKind::nothing) {
    before.compare = holds_token_shards(out);
    return before;
  }
  PackState state;
  try {
    state = read_pack_state(out);
  } catch (const Error& error) {
    before.compare = true;
    before.problems.push_back({-1, "", error.what()});
    return before;
  }
  if (!state.done && state.shards == 0) {  // nothing to lose
    before.begun = true;
    return before;
  }
  json wanted = json::parse(inputs), found = json::parse(state.inputs);
  const json files = wanted["files"], files_before = found["files"];
  wanted.erase("files");
  found.erase("files");
  const bool goes_on = !state.done && state.has_list();
  if (wanted != found || (files != files_before && !goes_on)) fail_other_pack(out);
  if (goes_on) {
    const int64_t shards = state.shards;
    const std::vector<int64_t> times = modified(options.files);
    keep_unchanged(state, unchanged_files(files_before, state, files, times));
    state.inputs = inputs;
    state.modified = times;
    if (state.shards < shards)
      before.note = fmt::format("{}: the text of {} of {} shards has changed since; they are written anew",
                                out, shards - state.shards, shards);
  }
  if (before.note.empty()) before.note = written_since(state, options);
  before.problems = shard_problems(out, state, /*read_ids=*/true);
  const bool by_place = state.has_list() || std::ranges::all_of(before.problems, [](const ShardProblem& p) {
                          return p.shard < 0;
                        });
  before.compare = !by_place;
  before.state = std::move(state);
  return before;
}

}  // namespace gpt
