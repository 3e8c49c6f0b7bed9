#include "run/trained_text.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/file_kind.h"
#include "data/shard_set.h"
#include "run/checkpoint.h"

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

// Returns true if each source of the run was split into training and held-out text separately. Returns false
// if all sources were split as one text.
bool split_apart(const TrainConfig& run) {
  return std::ranges::any_of(run.data, [](const std::string& entry) {
    const std::string name = source_name(entry);
    return name != entry || holds_token_shards(name);
  });
}

bool lies_in(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

// Returns true if both names are the built-in corpus with the same seed. The shorter corpus is then a prefix
// of the longer one.
bool same_tales(const std::string& a, const std::string& b) {
  return a.starts_with("tales:") && b.starts_with("tales:") &&
         a.substr(a.rfind(':')) == b.substr(b.rfind(':'));
}

bool overlaps(const Names& a, const Names& b) {
  return std::ranges::any_of(a, [&](const std::string& x) {
    return std::ranges::any_of(b, [&](const std::string& y) {
      return x == y || lies_in(x, y) || lies_in(y, x) || same_tales(x, y);
    });
  });
}

// Returns the total size of all texts in bytes. Returns -1 if the size cannot be determined without reading
// the texts.
int64_t bytes_of(const std::vector<std::string>& names) {
  int64_t sum = 0;
  for (const std::string& name : names) {
    std::error_code error;
    if (name.ends_with(".gz") || name.ends_with(".zst") || is_json_lines(name) || holds_token_shards(name))
      return -1;
    if (!fs::is_regular_file(name, error)) return -1;
    const auto size = fs::file_size(name, error);
    if (error) return -1;
    sum += static_cast<int64_t>(size);
  }
  return sum;
}

// Compares only the sizes, so that a large text need not be encoded if it differs from the text of the run.
bool differ_in_size(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const int64_t x = bytes_of(a), y = bytes_of(b);
  return x >= 0 && y >= 0 && x != y;
}

RunData bytes_as_tokens(const TrainConfig& run, const std::vector<std::string>& names, int64_t seed) {
  TrainConfig c;
  c.field = run.field;
  c.data = names;
  c.seed = seed;
  c.tokenizer = "byte";
  c.val_fraction = 0;
  c.eval_every = 0;  // allows texts of any length
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
  return std::ranges::all_of(entries, [](const std::string& entry) {
    return source_identity(entry, 0).starts_with("tales:") || path_exists(source_name(entry));
  });
}

// Returns true if both texts have the same bytes.
bool same_text(const TrainConfig& run, const std::vector<std::string>& names, int64_t seed) {
  const RunData trained = bytes_as_tokens(run, run.data, run.seed), asked = bytes_as_tokens(run, names, seed);
  return same_tokens(trained.train, asked.train);
}

bool is_known(const std::string& hash) {
  return !hash.empty();
}

// Compares text.loaded with `before`, the identity of the data that the run has read, and sets text.changed
// and text.val_changed. `has_val` is true if text.loaded includes the held-out text of the run.
void compare(const DataIdentity& before, bool has_val, TrainedText& text) {
  const DataIdentity now = identity_of(*text.loaded);
  const bool val_differs = has_val && is_known(before.val) && before.val != now.val;
  const bool gaps_differ = is_known(before.ids) && before.sizes == now.sizes && before.ids != now.ids;
  text.changed = before.tokens != now.tokens || (is_known(before.train) && before.train != now.train) ||
                 (gaps_differ && !val_differs);
  text.val_changed = val_differs;
}

// Loads texts with the settings of the run, and compares the loaded texts with the data that the run has
// read.
TrainedText compared_text(const std::string& run_folder, const TrainConfig& run,
                          const std::vector<std::string>& data) {
  TrainedText text{.role = TextRole::trained, .data = data};
  const std::optional<DataIdentity> before = known_data(run_folder);
  if (!before) return text;
  TrainConfig config = run;
  config.data = data;
  config.eval_every = 0;  // allows texts of any length
  const bool has_val = all_readable(run.val_data);
  if (!run.val_data.empty()) config.val_fraction = 0;
  if (!has_val) config.val_data.clear();
  text.loaded = load_run_data(config, 1, run_folder + "/last");
  compare(*before, has_val, text);
  return text;
}

TrainedText own_text(const std::string& run_folder, const TrainConfig& run) {
  TrainedText text = compared_text(run_folder, run, run.data);
  if (text.changed) return {.changed = true};
  if (!run.val_data.empty() && text.loaded && !text.loaded->has_val()) text.loaded.reset();
  return text;
}

// Returns the result if the given names are a subset of the sources of the run, and the run has split each
// source separately. The sources are recognized by name. If the data of the run has changed, reports the
// change instead.
TrainedText some_sources(const std::string& run_folder, const TrainConfig& run, const Names& wanted) {
  TrainedText text{.role = TextRole::trained};
  std::ranges::copy_if(run.data, std::back_inserter(text.data), [&](const std::string& entry) {
    return wanted.count(source_identity(entry, run.seed)) > 0;
  });
  if (all_readable(run.data) && compared_text(run_folder, run, run.data).changed) return {.changed = true};
  return text;
}

// Returns the result for a text that may be the text of the run under a different name. The text is
// recognized if it encodes to the same tokens as the text of the run.
TrainedText renamed_text(const std::string& run_folder, const TrainConfig& run,
                         const std::vector<std::string>& names, int64_t seed) {
  try {
    TrainConfig config = run;
    config.seed = seed;  // seed of the built-in corpus
    TrainedText text = compared_text(run_folder, config, names);
    if (text.changed || text.val_changed) return {};
    if (!all_readable(run.val_data)) return {.role = TextRole::part};
    return text;
  } catch (const Error&) {
    // An error means that the run cannot have read this text. For example, the tokenizer of the run cannot
    // encode it.
    return {};
  }
}

bool finds_files(const std::string& name) {
  if (path_exists(name)) return true;
  glob_t found{};
  const bool any = glob(name.c_str(), GLOB_NOSORT, nullptr, &found) == 0;
  globfree(&found);
  return any;
}

std::string located(const std::string& entry, const fs::path& folder) {
  const std::string name = source_name(entry);
  if (source_identity(entry, 0).starts_with("tales:") || fs::path(name).is_absolute()) return entry;
  std::error_code error;
  const fs::path there = folder / name;
  if (!finds_files(there.string()) || resolved_path(there.string()) == resolved_path(name) ||
      fs::equivalent(there, name, error))
    return entry;
  return there.string() + entry.substr(name.size());
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

bool is_tuning_run(const std::string& run_folder) {
  return !run_folder.empty() && path_exists(run_folder + "/finetune.json");
}

std::optional<DataIdentity> known_data(const std::string& run_folder) {
  const std::string last = run_folder + "/last";
  if (!path_exists(last + "/train_state.json")) return std::nullopt;
  return read_run_state(last).data;
}

bool locate_data(TrainConfig& config, const std::string& folder) {
  bool any = false;
  if (folder.empty()) return any;
  for (auto* entries : {&config.data, &config.val_data}) {
    for (std::string& entry : *entries) {
      const std::string found = located(entry, folder);
      any = any || found != entry;
      entry = found;
    }
  }
  return any;
}

TrainConfig settings_of_run(const std::string& run_folder) {
  TrainConfig run = read_run_config(run_folder + "/config.json").train;
  const std::string last = run_folder + "/last";
  if (!path_exists(last + "/train_state.json")) return run;
  locate_data(run, read_run_state(last).data_folder);
  return run;
}

TrainedText find_trained_text(const std::string& run_folder, const TrainConfig& run,
                              const std::vector<std::string>& names, int64_t seed) {
  const Names wanted = identities(names, seed), trained = identities(run.data, run.seed);
  if (is_tuning_run(run_folder))
    return {.role = overlaps(wanted, trained) ? TextRole::part : TextRole::other};
  if (names.empty() || wanted == trained) return own_text(run_folder, run);
  if (!run.val_data.empty() && wanted == identities(run.val_data, run.seed))
    return {.role = TextRole::validation};
  const bool apart = split_apart(run);
  if (apart && std::includes(trained.begin(), trained.end(), wanted.begin(), wanted.end()))
    return some_sources(run_folder, run, wanted);
  if (overlaps(wanted, trained)) return {.role = TextRole::part};
  if (!all_readable(names) || differ_in_size(run.data, names)) return {};
  const std::optional<DataIdentity> before = known_data(run_folder);
  if (before && is_known(before->train)) return renamed_text(run_folder, run, names, seed);
  if (all_readable(run.data) && !apart && same_text(run, names, seed))
    return {.role = TextRole::trained, .data = run.data};
  return {};
}

}  // namespace gpt
