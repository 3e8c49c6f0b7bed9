#include "data/pack_before.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/ranges.h"
#include "data/file_kind.h"
#include "data/text_blocks.h"

namespace gpt {
namespace {

using nlohmann::json;

// Returns the first file whose modification time differs from the time in pack.json, or "" if there is none.
// A changed file size is detected by comparing the results of pack_inputs.
std::string written_since(const PackState& state, const PackOptions& options) {
  const std::vector<int64_t> now = modified(options.files);
  for (size_t i = 0; i < std::min(now.size(), state.modified.size()); ++i) {
    if (now[i] != state.modified[i]) return options.files[i];
  }
  return "";
}

// Returns the number of files at the beginning of the list that are unchanged: same name, same size, and same
// modification time.
int64_t unchanged_files(const json& before, const PackState& state, const json& now,
                        const std::vector<int64_t>& times) {
  size_t same = 0;
  while (same < now.size() && same < before.size() && now[same] == before[same] &&
         (same >= state.modified.size() || times[same] == state.modified[same]))
    ++same;
  return static_cast<int64_t>(same);
}

// Drops the shards whose text does not come entirely from the first `same` files.
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

std::vector<std::string> shard_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : list_folder(folder)) {
    if (has_ending(entry.name, ".bin")) names.push_back(entry.name);
  }
  return names;
}

void refuse_foreign(const std::string& out, const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  if (names.empty()) return;
  fail("{} contains {}, which gpt data pack did not write; choose a separate folder for `out`", out,
       format_list(names, kShown));
}

// Returns the maximum number of shards that a run may have written. pack.json may list fewer shards
// (Packer::close_shard).
int64_t shards_written(const PackState& state) {
  return state.shards + (state.done ? 0 : 1 + state.shards / 1000);
}

// Returns the shards that a new pack replaces. If pack.json exists, other .bin files are added to
// `strangers`. Without pack.json, throws Error if there are other .bin files.
std::vector<std::string> replaceable(const PackOptions& options, const std::optional<PackState>& state,
                                     std::vector<ShardProblem>& strangers) {
  std::vector<std::string> ours, foreign;
  for (const std::string& name : shard_names(options.out)) {
    const std::string path = pack_file(options.out, name);
    const std::optional<int64_t> number = own_shard_number(name);
    const bool listed = state && number && *number < state->shards;
    const bool written = number && (!state || *number < shards_written(*state)) && is_token_shard(path);
    if (listed || written) {
      ours.push_back(path);
      continue;
    }
    foreign.push_back(name);
    if (state) strangers.push_back({kNoShard, path, path + ": is not listed in pack.json"});
  }
  if (!state) refuse_foreign(options.out, foreign);
  return ours;
}

// Returns true if the folder has shards but no pack.json. Files that are named like shards but are not shards
// are added to `strangers`.
bool look_at_unlisted(const std::string& out, std::vector<ShardProblem>& strangers) {
  std::vector<std::string> foreign, broken;
  bool any = false;
  for (const std::string& name : shard_names(out)) {
    const std::string path = pack_file(out, name);
    const bool own = own_shard_number(name).has_value(), shard = is_token_shard(path);
    any = any || (own && shard);
    if (!own) foreign.push_back(name);
    if (own && !shard) broken.push_back(name);
  }
  if (!any) foreign.insert(foreign.end(), broken.begin(), broken.end());
  refuse_foreign(out, foreign);
  for (const std::string& name : broken)
    strangers.push_back({kNoShard, pack_file(out, name), pack_file(out, name) + ": is not a token shard"});
  return any;
}

// Returns true if the text of a tokenizer.json describes the same tokenizer, even with different formatting.
bool is_equal(const std::string& text, const Tokenizer& tokenizer, const std::string& path) {
  if (text == tokenizer.to_json()) return true;
  try {
    return parse_tokenizer(text, path)->to_json() == tokenizer.to_json();
  } catch (const Error&) {
    return false;
  }
}

// Returns true if the pack was made with the tokenizer.json that has this text.
bool is_of_pack(const std::string& text, const PackState& state, const std::string& path) {
  if (!state.tokenizer.empty()) return tokenizer_hash(text) == state.tokenizer;
  try {  // earlier versions did not store the hash of the tokenizer
    const auto tokenizer = parse_tokenizer(text, path);
    return json::parse(state.inputs).at("vocabulary") == fmt::format("{:016x}", vocabulary_hash(*tokenizer));
  } catch (const Error&) {
    return false;
  }
}

TokenizerBefore look_at_tokenizer(const Tokenizer& tokenizer, const PackOptions& options,
                                  const std::optional<PackState>& state, bool begun) {
  const std::string path = pack_file(options.out, kPackTokenizerFile);
  const bool replace = options.restart || begun;
  TokenizerBefore before{.hash = tokenizer_hash(tokenizer.to_json())};
  if (path_kind(path) == PathKind::nothing) {
    if (state && !replace) before.problem = path + ": is missing";
    return before;
  }
  const std::string found = read_file(path);
  if (is_equal(found, tokenizer, path)) {
    before.write = false;
    before.found = !state || state->tokenizer_found || !is_of_pack(found, *state, path);
    before.hash = tokenizer_hash(found);
    return before;
  }
  if (!state) fail("{} is different from `tokenizer`; choose a separate folder for `out`", path);
  const bool ours = is_of_pack(found, *state, path);
  if (ours && !replace) fail_other_pack(options.out);
  if (ours && state->tokenizer_found)
    fail(
        "{} is different from `tokenizer` and was not written by gpt data pack; choose a separate folder for "
        "`out`",
        path);
  before.aside = !ours;
  if (!ours) before.problem = path + ": is not the tokenizer of the shards";
  return before;
}

// Fills `before` from a readable pack.json and the shards that it lists.
void look_at_state(PackState state, const PackOptions& options, const std::string& inputs,
                   PackBefore& before) {
  const std::string& out = options.out;
  json wanted = json::parse(inputs), found = json::parse(state.inputs);
  const json files = wanted["files"], files_before = found["files"];
  wanted.erase("files");
  found.erase("files");
  const bool goes_on = !state.done && state.has_list();
  if (wanted != found || (files != files_before && !goes_on)) fail_other_pack(out);
  std::vector<ShardProblem> strangers;
  if (!state.done) replaceable(options, state, strangers);
  if (goes_on) {
    const int64_t shards = state.shards;
    const std::vector<int64_t> times = modified(options.files);
    keep_unchanged(state, unchanged_files(files_before, state, files, times));
    state.inputs = inputs;
    state.modified = times;
    if (state.shards < shards)
      before.note = fmt::format("{}: the text of {} of {} shards has changed; they are written again", out,
                                shards - state.shards, shards);
  }
  before.written = written_since(state, options);
  before.problems = shard_problems(out, state, /*read_ids=*/true);
  before.problems.insert(before.problems.end(), strangers.begin(), strangers.end());
  const bool by_place = state.has_list() || std::ranges::all_of(before.problems, [](const ShardProblem& p) {
                          return p.shard < 0;
                        });
  before.compare = !by_place || !before.written.empty();
  before.state = std::move(state);
}

}  // namespace

std::string pack_inputs(const Tokenizer& tokenizer, const PackOptions& options) {
  const auto files = transformed(options.files, [](const std::string& path) {
    return json{{"path", path}, {"bytes", file_bytes(path)}};
  });
  const json all = {{"files", files},
                    {"field", options.field},
                    {"format", options.format == ShardFormat::gpt ? "gpt" : "llmc"},
                    {"shard_tokens", options.shard_tokens},
                    {"document_token", options.document_token},
                    {"vocabulary", fmt::format("{:016x}", vocabulary_hash(tokenizer))}};
  return all.dump();
}

std::vector<int64_t> modified(const std::vector<std::string>& files) {
  return transformed(files, file_modified);
}

void fail_other_pack(const std::string& out) {
  fail(
      "{} contains shards of different text or options; choose another `out`, or use `restart` to write them "
      "again",
      out);
}

PackBefore look_at_pack(const Tokenizer& tokenizer, const PackOptions& options, const std::string& inputs) {
  const std::string& out = options.out;
  if (is_model_or_run(out)) fail("{} is a model or a run; choose a separate folder for `out`", out);
  PackBefore before;
  std::optional<PackState> state;
  if (path_kind(pack_file(out, kPackStateFile)) != PathKind::nothing) {
    try {
      state = read_pack_state(out);
    } catch (const Error& error) {
      before.problems.push_back({kNoShard, "", error.what()});
    }
  }
  const bool begun = state && !state->done && state->shards == 0;  // no completed shard can be lost
  before.tokenizer = look_at_tokenizer(tokenizer, options, state, begun);
  if (options.restart || begun) {
    before.problems.clear();
    before.replaced = replaceable(options, state, before.problems);
  } else if (!state) {
    before.compare = look_at_unlisted(out, before.problems);
  } else {
    look_at_state(std::move(*state), options, inputs, before);
  }
  return before;
}

}  // namespace gpt
