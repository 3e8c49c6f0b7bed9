#include "data/shard_set.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/ranges.h"
#include "data/file_kind.h"
#include "data/pack_share.h"

namespace gpt {
namespace {

constexpr const char* kRepair = "run the same gpt data pack command again to repair it";
constexpr const char* kOwnStem = "shard-";
constexpr size_t kShownNames = 3;

bool is_shard_name(const std::string& name) {
  return has_ending(name, ".bin");
}

// Describes how the header of a shard differs from pack.json. Returns "" if both agree.
std::string wrong_header(const ShardInfo& found, const PackedShard& expected) {
  if (found.count != expected.tokens)
    return fmt::format("expected {} ids as in pack.json, found {}", expected.tokens, found.count);
  if (found.format == ShardFormat::llmc) return "";
  if (found.checksum != expected.checksum || found.text_bytes != expected.text_bytes ||
      found.documents != expected.documents) {
    return fmt::format("expected a shard with the checksum {:016x} as in pack.json, found {:016x}",
                       expected.checksum, found.checksum);
  }
  return "";
}

// Checks the number of ids when pack.json does not list the shards. All shards except the last must be full.
std::string wrong_count(const ShardInfo& found, const PackState& state, int64_t shard) {
  if (shard + 1 >= state.shards || found.count == state.shard_tokens) return "";
  return fmt::format("expected {} ids as in pack.json, found {}", state.shard_tokens, found.count);
}

class FolderCheck {
 public:
  FolderCheck(const std::string& folder, const PackState& state, bool read_ids)
      : folder_(folder), state_(state), read_ids_(read_ids) {}

  std::vector<ShardProblem> run() {
    for (int64_t i = 0; i < state_.shards; ++i)
      check_shard(i);
    if (problems_.empty() && state_.done && tokens_ != state_.tokens) {
      const int64_t last = std::max<int64_t>(0, state_.shards - 1);
      add(last, path_of(last),
          fmt::format("the shards have {} ids in total, expected {} as in pack.json", tokens_,
                      state_.tokens));
    }
    if (state_.done) check_strangers();
    if (state_.done && !state_.tokenizer.empty()) check_tokenizer();
    return std::move(problems_);
  }

 private:
  std::string path_of(int64_t shard) const { return pack_file(folder_, shard_file_name(shard)); }
  void add(int64_t shard, const std::string& path, const std::string& what) {
    problems_.push_back({shard, path, fmt::format("{}: {}", path, what)});
  }

  void check_shard(int64_t i) {
    const std::string path = path_of(i);
    if (path_kind(path) != PathKind::file) {
      return add(i, path, "is missing, but pack.json lists " + format_amount(state_.shards, "shard"));
    }
    try {
      const TokenShard shard(path);
      tokens_ += shard.info().count;
      std::string what;
      if (shard.info().format != state_.format) {
        what = "does not have the format named in pack.json";
      } else if (state_.has_list()) {
        what = wrong_header(shard.info(), state_.list[static_cast<size_t>(i)]);
      } else {
        what = wrong_count(shard.info(), state_, i);
      }
      if (what.empty() && read_ids_) what = damaged_ids(shard, checksum_of(i));
      if (!what.empty()) add(i, path, what);
    } catch (const Error& error) {
      problems_.push_back({i, path, error.what()});
    }
  }

  std::optional<uint64_t> checksum_of(int64_t i) const {
    if (!state_.has_list()) return std::nullopt;
    return state_.list[static_cast<size_t>(i)].checksum;
  }

  void check_tokenizer() {
    const std::string path = pack_file(folder_, kPackTokenizerFile);
    if (path_kind(path) != PathKind::file) return add(kTokenizerFile, path, "is missing");
    const std::string found = tokenizer_hash(read_file(path));
    if (found != state_.tokenizer)
      add(kTokenizerFile, path,
          fmt::format("is not the tokenizer of the shards: expected the hash {} as in pack.json, found {}",
                      state_.tokenizer, found));
  }

  void check_strangers() {
    std::set<std::string> known;
    for (int64_t i = 0; i < state_.shards; ++i)
      known.insert(shard_file_name(i));
    for (const FolderEntry& entry : list_folder(folder_)) {
      if (!is_shard_name(entry.name) || known.contains(entry.name)) continue;
      add(kNoShard, pack_file(folder_, entry.name),
          fmt::format("is not one of the {} shards listed in pack.json", state_.shards));
    }
  }

  const std::string& folder_;
  const PackState& state_;
  bool read_ids_;
  int64_t tokens_ = 0;
  std::vector<ShardProblem> problems_;
};

std::optional<uint64_t> own_checksum(const ShardInfo& info) {
  return info.format == ShardFormat::gpt ? std::optional(info.checksum) : std::nullopt;
}

// Returns a line that names the other files of a folder, or "".
std::string note_others(const std::string& folder, const std::vector<std::string>& others) {
  if (others.empty()) return "";
  return fmt::format("{}: {} other file{} skipped: {}\n", folder, others.size(),
                     others.size() == 1 ? "" : "s", format_list(others, kShownNames));
}

void add_shard(ShardSet& set, const std::string& path) {
  set.checksums.push_back(own_checksum(set.shards.emplace_back(path).info()));
}

ShardSet open_packed(const std::string& folder) {
  const PackState state = read_pack_state(folder);
  if (!state.done) {
    require_no_tasks(folder);
    fail("{} is not complete: gpt data pack was interrupted; run the same command again to continue", folder);
  }
  const std::vector<ShardProblem> problems = shard_problems(folder, state, false);
  if (!problems.empty()) {
    fail("{}{}; {}", problems[0].what,
         problems.size() == 1 ? "" : fmt::format(" (and {} more)", problems.size() - 1), kRepair);
  }
  ShardSet set;
  for (int64_t i = 0; i < state.shards; ++i) {
    add_shard(set, pack_file(folder, shard_file_name(i)));
    if (state.has_list()) set.checksums.back() = state.list[static_cast<size_t>(i)].checksum;
  }
  return set;
}

// Splits a file name without its ending into a stem and the number at its end.
std::optional<std::pair<std::string, int64_t>> numbered(const std::string& name) {
  const size_t end = name.size() - std::string_view(".bin").size();
  const size_t begin = name.substr(0, end).find_last_not_of("0123456789") + 1;
  int64_t number = 0;
  if (begin == end || std::from_chars(name.data() + begin, name.data() + end, number).ec != std::errc())
    return std::nullopt;
  return std::pair(name.substr(0, begin), number);
}

void require_no_gaps(const std::string& folder, const std::vector<std::string>& names) {
  std::map<std::string, std::set<int64_t>> series;
  for (const std::string& name : names) {
    if (const auto n = numbered(name)) series[n->first].insert(n->second);
  }
  for (const auto& [stem, numbers] : series) {
    // Shards of gpt data pack are numbered from 0, other shards from 0 or 1.
    int64_t expected = stem == kOwnStem ? 0 : std::min<int64_t>(*numbers.begin(), 1);
    for (const int64_t number : numbers) {
      if (number != expected)
        fail(
            "{} has a gap: expected {}…{}.bin, found {}…{}.bin; get the missing shards, or name the shards "
            "one by one",
            folder, stem, expected, stem, number);
      ++expected;
    }
  }
}

void require_equal_kinds(const std::vector<TokenShard>& shards) {
  const ShardInfo& first = shards.front().info();
  for (const TokenShard& shard : shards) {
    const ShardInfo& i = shard.info();
    if (i.format == first.format && i.bytes_per_id == first.bytes_per_id &&
        i.vocab_hash == first.vocab_hash && i.document_token == first.document_token)
      continue;
    fail(
        "{} does not match {}: expected the same format, id size, vocabulary and document token; name the "
        "shards one by one",
        shard.name(), shards.front().name());
  }
}

// Opens a folder of *.bin files without pack.json. Either gpt data pack did not write this folder, or
// pack.json was lost.
ShardSet open_foreign(const std::string& folder, const std::vector<std::string>& names) {
  ShardSet set;
  const bool any = std::ranges::any_of(
      names, [&](const std::string& name) { return is_token_shard(pack_file(folder, name)); });
  if (!any) return set;
  require_no_gaps(folder, names);
  for (const std::string& name : names)
    add_shard(set, pack_file(folder, name));
  require_equal_kinds(set.shards);
  set.notes =
      fmt::format("{}: {} shard{} without pack.json; missing shards at the end would not be noticed\n",
                  folder, names.size(), names.size() == 1 ? "" : "s");
  return set;
}

ShardSet open_file(const std::string& path) {
  ShardSet set;
  if (is_token_shard(path)) add_shard(set, path);
  return set;
}

}  // namespace

int64_t ShardSet::tokens() const {
  return sum_of(shards, [](const TokenShard& shard) { return shard.info().count; });
}

bool holds_token_shards(const std::string& path) {
  if (path_kind(path) != PathKind::folder) return is_token_shard(path);
  return std::ranges::any_of(list_folder(path), [&](const FolderEntry& entry) {
    return is_shard_name(entry.name) && is_token_shard(pack_file(path, entry.name));
  });
}

std::vector<ShardProblem> shard_problems(const std::string& folder, const PackState& state, bool read_ids) {
  return FolderCheck(folder, state, read_ids).run();
}

std::string damaged_ids(const TokenShard& shard, std::optional<uint64_t> checksum) {
  if (checksum) {
    const uint64_t found = XXH3_64bits(shard.ids().data(), shard.ids().size());
    if (found != *checksum)
      return fmt::format("its ids have changed: expected the checksum {:016x}, found {:016x}", *checksum,
                         found);
  }
  try {
    shard.verify();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

ShardSet open_shard_set(const std::string& path) {
  if (path_kind(path) != PathKind::folder) return open_file(path);
  std::vector<std::string> shards, others;
  bool packed = false;
  for (const FolderEntry& entry : list_folder(path)) {
    if (entry.name == kPackUnfinishedFile) {
      require_no_tasks(path);
      fail("{} is not complete: gpt data pack was interrupted; run the same command again to continue", path);
    }
    if (entry.name == kPackStateFile) {
      packed = true;
    } else if (is_shard_name(entry.name)) {
      shards.push_back(entry.name);
    } else if (entry.name != kPackTokenizerFile && !entry.name.starts_with('.')) {
      others.push_back(entry.name);
    }
  }
  if (!packed) require_no_tasks(path);
  ShardSet set = packed ? open_packed(path) : open_foreign(path, shards);
  if (!set.shards.empty()) set.notes += note_others(path, others);
  return set;
}

}  // namespace gpt
