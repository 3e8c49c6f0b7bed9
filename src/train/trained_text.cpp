#include "train/trained_text.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/path_kind.h"
#include "data/shard_set.h"
#include "io/json.h"
#include "train/checkpoint.h"
#include "train/run_data.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

using Names = std::set<std::string>;

Names identities(const std::vector<std::string>& entries, int64_t seed) {
  Names names;
  for (const std::string& entry : entries)
    names.insert(source_identity(entry, seed));
  return names;
}

// Whether the run's sources were split one by one, and not as one text.
bool split_apart(const TrainConfig& run) {
  return std::any_of(run.data.begin(), run.data.end(), [](const std::string& entry) {
    const std::string name = source_name(entry);
    return name != entry || holds_token_shards(name);
  });
}

bool lies_in(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

// Two lengths of the tales of one seed: one begins with the other.
bool same_tales(const std::string& a, const std::string& b) {
  return a.starts_with("tales:") && b.starts_with("tales:") &&
         a.substr(a.rfind(':')) == b.substr(b.rfind(':'));
}

bool overlaps(const Names& a, const Names& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& x) {
    return std::any_of(b.begin(), b.end(), [&](const std::string& y) {
      return x == y || lies_in(x, y) || lies_in(y, x) || same_tales(x, y);
    });
  });
}

// The bytes of all files together; -1 where that is not known without reading them.
int64_t bytes_of(const std::vector<std::string>& names) {
  int64_t sum = 0;
  for (const std::string& name : names) {
    std::error_code error;
    if (!fs::is_regular_file(name, error)) return -1;
    const auto size = fs::file_size(name, error);
    if (error) return -1;
    sum += static_cast<int64_t>(size);
  }
  return sum;
}

RunData bytes_as_tokens(const std::vector<std::string>& names, int64_t seed) {
  TrainConfig c;
  c.data = names;
  c.seed = seed;
  c.tokenizer = "byte";
  c.val_fraction = 0;
  c.eval_every = 0;  // any length will do
  return load_run_data(c, 1, "");
}

bool same_tokens(const TokenSpan& a, const TokenSpan& b) {
  constexpr int64_t kBlock = 1 << 16;
  if (a.size() != b.size()) return false;
  std::vector<int32_t> x(kBlock), y(kBlock);
  for (int64_t at = 0; at < a.size(); at += kBlock) {
    const int64_t n = std::min(kBlock, a.size() - at);
    a.copy(at, n, x.data());
    b.copy(at, n, y.data());
    if (!std::equal(x.begin(), x.begin() + n, y.begin())) return false;
  }
  return true;
}

bool all_readable(const std::vector<std::string>& entries) {
  return std::all_of(entries.begin(), entries.end(), [](const std::string& entry) {
    return source_identity(entry, 0).starts_with("tales:") || path_exists(source_name(entry));
  });
}

// The same bytes under other names.
bool same_text(const TrainConfig& run, const std::vector<std::string>& names, int64_t seed) {
  const int64_t before = bytes_of(run.data), now = bytes_of(names);
  if (before >= 0 && now >= 0 && before != now) return false;
  const RunData trained = bytes_as_tokens(run.data, run.seed), asked = bytes_as_tokens(names, seed);
  return same_tokens(trained.train, asked.train);
}

// The run's text at another place: it encodes to what the run read.
bool moved_text(const std::string& run_folder, const TrainConfig& run, const std::vector<std::string>& names) {
  const std::string last = run_folder + "/last";
  if (!path_exists(last + "/train_state.json")) return false;
  const DataIdentity before = read_run_state(last).data;
  if (before.train.empty()) return false;  // a run of an earlier version
  TrainConfig config = run;
  config.data = names;
  config.eval_every = 0;  // any length will do
  if (!run.val_data.empty()) {
    config.val_data.clear();
    config.val_fraction = 0;
  }
  const DataIdentity now = identity_of(load_run_data(config, 1, last));
  return now.tokens == before.tokens && now.train == before.train && now.tokenizer == before.tokenizer;
}

}  // namespace

std::string find_run(const std::string& model) {
  std::error_code ignored;
  fs::path path = fs::absolute(model, ignored).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  for (std::string child; path.has_filename(); child = path.filename(), path = path.parent_path()) {
    const bool may_be =
        child.empty() ? fs::is_directory(path / "last", ignored) : child == "last" || child == "best";
    const std::string config = (path / "config.json").string();
    if (!may_be || !fs::is_regular_file(config, ignored)) continue;
    const nlohmann::json object = read_json_file(config);
    if (object.is_object() && object.contains("data") && object.contains("steps")) return path.string();
  }
  return "";
}

TrainedText find_trained_text(const std::string& run_folder, const TrainConfig& run,
                              const std::vector<std::string>& names, int64_t seed) {
  const Names wanted = identities(names, seed), trained = identities(run.data, run.seed);
  if (wanted == trained) return {TextRole::trained, run.data};
  if (!run.val_data.empty() && wanted == identities(run.val_data, run.seed))
    return {TextRole::validation, {}};
  const bool apart = split_apart(run);
  if (apart && std::includes(trained.begin(), trained.end(), wanted.begin(), wanted.end())) {
    TrainedText text{TextRole::trained, {}};
    std::copy_if(
        run.data.begin(), run.data.end(), std::back_inserter(text.data),
        [&](const std::string& entry) { return wanted.count(source_identity(entry, run.seed)) > 0; });
    return text;
  }
  if (overlaps(wanted, trained)) return {TextRole::part, {}};
  if (!all_readable(names)) return {};
  if (!all_readable(run.data)) {
    if (!moved_text(run_folder, run, names)) return {};
    if (!all_readable(run.val_data)) return {TextRole::part, {}};
    return {TextRole::trained, names};
  }
  if (!apart && same_text(run, names, seed)) return {TextRole::trained, run.data};
  return {};
}

}  // namespace gpt
