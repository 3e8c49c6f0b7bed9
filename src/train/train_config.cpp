#include "train/train_config.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/format.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/problems.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "model/config_alias.h"
#include "model/families/family.h"
#include "model/json_value.h"
#include "model/presets.h"
#include "train/optimizer.h"
#include "train/param_groups.h"
#include "train/schedule.h"

namespace gpt {

template <>
struct EnumNames<ScheduleKind> {
  static constexpr const char* names[] = {"cosine", "linear", "constant", "wsd"};
};
template <>
struct EnumNames<SamplingKind> {
  static constexpr const char* names[] = {"random", "epoch"};
};
template <>
struct EnumNames<TrainDType> {
  static constexpr const char* names[] = {"fp32", "bf16", "fp16"};
};
template <>
struct EnumNames<MuonAdjust> {
  static constexpr const char* names[] = {"original", "match_rms_adamw", "spectral_unclamped"};
};
template <>
struct EnumNames<Reduce> {
  static constexpr const char* names[] = {"exact", "fast", "fast-bf16"};
};
template <>
struct EnumNames<DeviceKind> {
  static constexpr const char* names[] = {"cpu"};
};

namespace {

using nlohmann::json;

template <class Visit>
void visit_all(RunConfig& c, Visit&& visit) {
  visit_model_keys(c.model, visit);
  visit_train_keys(c.train, visit);
}

std::vector<std::string> all_names() {
  return transformed(config_keys(), &KeyInfo::name);
}

void set_key(RunConfig& config, const std::string& key, const json& value) {
  bool found = false;
  if (key == "device" && value.is_string()) require_device("config key \"device\":", value);
  visit_all(config, [&](const Key& known, auto& field) {
    if (key != known.name) return;
    read_key(known, value, field);
    found = true;
  });
  // In a ModelConfig, -1 means "not set". Users cannot set this value.
  if (key.ends_with("dropout") && value.is_number() && value < 0)
    fail_key(key, "expected at least 0 and less than 1, found {}", value.dump());
  if (!found) fail_usage("unknown config key \"{}\"{}", key.substr(0, 64), did_you_mean(key, all_names()));
}

// A key with an invalid value keeps its default value.
RunConfig complete_config(const json& object, Problems& problems) {
  RunConfig config;
  for (const auto& item : object.items())  // clang 14 cannot capture structured bindings in lambdas
    problems.collect([&] { set_key(config, item.key(), item.value()); });
  problems.collect([&] { complete(config.model, false); });
  problems.collect([&] { complete(config.train); });
  return config;
}

RunConfig complete_config(const json& object) {
  Problems problems;
  const RunConfig config = complete_config(object, problems);
  problems.report();
  return config;
}

void check(const char* key, double value, double low, double high) {
  if (!(value >= low && value <= high)) fail_key(key, "expected {} to {}, found {}", low, high, value);
}

template <class Integer>
double number(Integer value) {
  return static_cast<double>(value);
}

}  // namespace

DType tensor_dtype(TrainDType t) {
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
  return kTypes[static_cast<size_t>(t)];
}

DType message_dtype(Reduce reduce) {
  return reduce == Reduce::fast_bf16 ? DType::bf16 : DType::f32;
}

namespace {

std::vector<KeyInfo> list_keys() {
  std::vector<KeyInfo> keys;
  const RunConfig unset;
  visit_model_keys(unset.model, [&](const Key& key, const auto& field) {
    keys.push_back(key_info(key, field));
    keys.back().is_model = true;
  });
  visit_train_keys(unset.train, [&](const Key& key, const auto& field) {
    keys.push_back(key_info(key, field));
    if (keys.back().name == "optimizer")
      keys.back().choices =
          transformed(optimizer_types(), [](const auto& type) { return std::string(type.name); });
  });
  return keys;
}

// Renames the keys of other programs (translate_aliases and Key::aliases). Throws invalid_argument if two
// names of a key have different values.
json with_own_names(const json& object) {
  json out = json::object();
  const json own = translate_aliases(object);
  for (const auto& [name, value] : own.items()) {
    const std::string alias = key_of_alias(name), key = alias.empty() ? name : alias;
    if (out.contains(key) && out[key] != value)
      fail_key(key, "set to {}, but a different name of the key sets it to {}; keep only one",
               out[key].dump(), value.dump());
    out[key] = value;
  }
  return out;
}

}  // namespace

const std::vector<KeyInfo>& config_keys() {
  static const std::vector<KeyInfo> keys = list_keys();
  return keys;
}

std::string key_of_alias(const std::string& name) {
  for (const KeyInfo& key : config_keys()) {
    if (std::ranges::find(key.aliases, name) != key.aliases.end()) return key.name;
  }
  return config_key_of(name);
}

std::string suggest_preset(std::string_view name) {
  constexpr size_t kShown = 4;
  std::vector<std::string> longer = preset_names();
  std::erase_if(longer, [&](const std::string& preset) { return !preset.starts_with(name); });
  if (name.empty() || longer.empty()) return did_you_mean(name, preset_names());
  return "; did you mean " + format_list(longer, kShown) + "?";
}

void require_preset(const std::string& name) {
  if (is_preset(name)) return;
  fail_usage("unknown preset \"{}\"{}; gpt info lists all", name.substr(0, 64), suggest_preset(name));
}

void require_device(const std::string& where, const std::string& device) {
  if (device == "cpu") return;
  fail_usage("{} {}: this build only supports the CPU; remove this setting", where, device.substr(0, 64));
}

Settings::Settings() : merged_(std::make_unique<json>(json::object())) {}
Settings::~Settings() = default;

void Settings::add_preset(const std::string& name) {
  require_preset(name);
  const json keys = preset_keys(name);
  has_family_ = true;
  begin_source();
  set(keys);
  for (const auto& [key, value] : keys.items())
    from_preset_.insert(key);
}

void Settings::add_defaults(const json& object) {
  begin_source();
  set(object);
  for (const auto& [key, value] : object.items())
    from_preset_.insert(key);
}

bool Settings::is_given(const std::string& key) const {
  return merged_->contains(key) && !from_preset_.contains(key);
}

bool Settings::comes_from_preset(const std::string& key) const {
  return from_preset_.contains(key);
}

void Settings::forget_preset(const std::string& key) {
  if (comes_from_preset(key)) merged_->erase(key);
}

void Settings::set(const json& keys) {
  for (const auto& [key, value] : keys.items()) {
    from_preset_.erase(key);
    set_by_[key] = source_;
  }
  merged_->update(keys);
  if (!keys.contains("dropout")) return;
  for (const char* part : {"embd_dropout", "attn_dropout", "resid_dropout"}) {
    if (set_by_[part] < source_) merged_->erase(part);
  }
}

void Settings::add_file(const std::string& path) {
  const json keys = read_json_file(path);
  if (!has_family_ && keys.is_object()) require_family(keys, path);
  add_json(keys, path);
}

void Settings::add_json(const json& object, const std::string& source) {
  if (!object.is_object()) fail_usage("{}: expected a JSON object of config keys", source);
  begin_source();
  json keys = object;
  if (keys.contains("model_type")) {
    // `keys` come from a model's config.json. The switches of the model's family are applied first. The file
    // may also contain training keys.
    const json& type = keys["model_type"];
    const Family* family = type.is_string() ? find_family(type.get<std::string>()) : nullptr;
    if (family == nullptr) {
      fail_usage("{}: model_type {} is not supported", source, keys["model_type"].dump().substr(0, 64));
    }
    set(switch_keys(*family));
    begin_source();
    has_family_ = true;
    keys.erase("model_type");
    for (const char* ignored : {"architectures", "dtype", "torch_dtype", "transformers_version",
                                "bos_token_id", "eos_token_id", "pad_token_id", "use_cache"}) {
      keys.erase(ignored);
    }
  }
  set(with_own_names(keys));
}

void Settings::add_model(const ModelConfig& config) {
  has_family_ = true;
  begin_source();
  set(given_model_keys_json(config));
}

namespace {

// Parses finite numbers in forms that JSON does not allow: .3, 3., +3.
std::optional<json> number_of(const std::string& text) {
  std::string_view digits = text;
  if (text.starts_with('+') && !text.starts_with("+-")) digits.remove_prefix(1);
  if (digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9') return {};
  if (const auto whole = parse_number<int64_t>(digits)) return *whole;
  const auto number = parse_number<double>(digits);
  return number && std::isfinite(*number) ? std::optional<json>(*number) : std::nullopt;
}

// Parses a value as JSON, or as a number in a form that JSON does not allow. Returns nothing for other text.
std::optional<json> parsed_value(const std::string& text) {
  try {
    return parse_json(text, "the value");
  } catch (const Error&) {
    return number_of(text);
  }
}

}  // namespace

void Settings::add_text(const std::string& key, const std::string& text, const std::string& source) {
  const json own = with_own_names({{key, text}});
  const std::string name = own.begin().key();
  json value = own.begin().value();
  const KeyInfo* const info = find_by(config_keys(), &KeyInfo::name, name);
  if (info == nullptr)
    fail_usage("{}: unknown config key \"{}\"{}", source, key, did_you_mean(key, all_names()));
  if (info->is_list()) {
    set({{name, json::array({text})}});
    return;
  }
  if (info->type != KeyType::text) value = parsed_value(text).value_or(value);
  set({{name, value}});
}

RunConfig Settings::resolve() const {
  Problems problems;
  const RunConfig config = resolve(problems);
  problems.report();
  return config;
}

RunConfig Settings::resolve(Problems& problems) const {
  RunConfig config = complete_config(*merged_, problems);
  // A preset's warm-up is intended for long runs. In a short run, the warm-up is limited to a quarter of the
  // steps.
  if (comes_from_preset("warmup"))
    config.train.warmup = std::min(config.train.warmup, config.train.steps / 4);
  return config;
}

namespace {

// Sets the learning rates and the momentum to their defaults if they are not set.
void complete_rates(TrainConfig& c) {
  const bool nanochat = c.optimizer == "muon-nanochat";
  const auto fill = [](double& value, double fallback) {
    if (value < 0) value = fallback;
  };
  fill(c.embedding_lr, nanochat ? 0.2 : c.lr);
  fill(c.head_lr, nanochat ? 0.004 : c.lr);
  fill(c.vector_lr, nanochat ? 0.005 : c.lr);
  fill(c.muon_lr, c.optimizer == "adamw" || c.muon_adjust == MuonAdjust::match_rms_adamw ? c.lr : 0.02);
  fill(c.muon_momentum, nanochat ? 0.97 : 0.95);
  check_param_groups(c);
}

}  // namespace

namespace {

void check_zero(const TrainConfig& c) {
  if (c.zero > 0 && require_optimizer(c.optimizer).divides == Divides::not_at_all)
    fail_key("zero",
             "{} divides the state of an optimizer, and that of {} cannot be divided; "
             "leave zero out",
             c.zero, c.optimizer);
}

}  // namespace

namespace {

void check_independent(const TrainConfig& c) {
  Problems problems;
  problems.collect(
      [&] { check_ranges(c, [](const auto& config, auto&& visit) { visit_train_keys(config, visit); }); });
  problems.collect([&] { require_optimizer(c.optimizer); });
  problems.report();
}

void complete_batch(TrainConfig& c) {
  if (c.micro_batch == 0) c.micro_batch = c.batch_size;
  check("micro_batch", number(c.micro_batch), 1, number(c.batch_size));
  if (c.batch_size % c.micro_batch != 0) {
    fail_key("micro_batch", "expected a divisor of batch_size = {}, found {}", c.batch_size, c.micro_batch);
  }
  check("grad_shards", number(c.grad_shards), 0, number(c.batch_size));
  check_zero(c);
  if (c.grad_shards > 0) share_among(c, 1);
}

}  // namespace

void complete(TrainConfig& c) {
  check_independent(c);
  Problems problems;
  problems.collect([&] { complete_batch(c); });
  if (c.min_lr < 0) c.min_lr = c.lr / 10;
  problems.collect([&] { check("min_lr", c.min_lr, 0, c.lr); });
  problems.collect([&] { complete_rates(c); });
  complete_rhythm(c);
  problems.report();
}

int64_t shard_count(const TrainConfig& c, int processes) {
  return c.reduce == Reduce::exact ? std::max<int64_t>(1, c.grad_shards) : processes;
}

namespace {

std::string divisors_of(int64_t n) {
  std::vector<std::string> list;
  for (int64_t i = 1; i <= n; ++i)
    if (n % i == 0) list.push_back(std::to_string(i));
  return format_choices(list);
}

}  // namespace

void share_among(TrainConfig& c, int processes) {
  if (c.grad_shards == 0) c.grad_shards = processes;
  const bool is_exact = c.reduce == Reduce::exact;
  const int64_t shards = shard_count(c, processes);
  if (shards % processes != 0) {
    fail_key(
        "grad_shards",
        "expected a multiple of the number of processes ({}), found {}: a run with {} shards can continue "
        "with {} processes, or with `reduce` fast, which gives different results, with any number of "
        "processes that divides its batch; for a new run, set `grad_shards` {}",
        processes, shards, shards, divisors_of(shards), std::lcm(shards, static_cast<int64_t>(processes)));
  }
  if (c.batch_size % shards != 0) {
    fail_key("batch_size", "expected a multiple of {} = {}, found {}; {} is valid",
             is_exact && shards != processes ? "grad_shards" : "the number of processes", shards,
             c.batch_size, (c.batch_size + shards - 1) / shards * shards);
  }
  const int64_t shard = c.batch_size / shards;
  const int64_t wanted = c.micro_batch;
  c.micro_batch = std::gcd(wanted, shard);
  if (c.zero > 1 && processes > 1 && c.micro_batch != shard) {
    fail_key("zero",
             "{} shards the gradients, so each micro-batch must be a whole shard: expected micro_batch = "
             "batch_size / {} = {}, found {}; {}, and zero 1 only shards the optimizer state",
             c.zero, is_exact ? "grad_shards" : "processes", shard, wanted,
             is_exact ? "a larger grad_shards makes shards smaller" : "reduce exact has smaller shards");
  }
}

json run_config_json(const RunConfig& config) {
  json object = json::object();
  RunConfig copy = config;
  visit_all(copy, [&](const Key& key, auto& field) { object[key.name] = to_json_value(field); });
  return object;
}

RunConfig read_run_config(const std::string& path) {
  return complete_config(read_json_file(path));
}

std::string describe_keys(const json& values, int columns) {
  std::string text, group;
  for (const KeyInfo& key : config_keys()) {
    if (!values.contains(key.name)) continue;
    if (key.group != group) text += fmt::format("{}{:>{}}:", group.empty() ? "" : "\n", key.group, columns);
    group = key.group;
    const json& value = values[key.name];
    text += fmt::format("  {} {}", key.name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text + "\n";
}

}  // namespace gpt
