#include "convert/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"

namespace gpt {
namespace {

using nlohmann::json;

// Keys that describe the origin or the name of an adapter. They do not affect a loaded adapter.
constexpr std::string_view kNeutral[] = {
    "task_type",  "auto_mapping", "peft_version",   "revision",       "inference_mode", "loftq_config",
    "eva_config", "corda_config", "lora_ga_config", "fan_in_fan_out", "megatron_core",  "qalora_group_size"};

// Initializations that leave the base weights unchanged. Other initializations modify the base weights.
constexpr std::string_view kInits[] = {"gaussian", "orthogonal", "eva", "lora_ga"};

class Reader {
 public:
  // `ordered` is the same object with the keys in the order of the file.
  Reader(const json& object, const nlohmann::ordered_json& ordered, const std::string& what)
      : object_(object), ordered_(ordered), what_(what) {
    if (!object.is_object()) fail("{}: expected an object, found {}", what, json_kind(object));
  }

  const json& take(const char* key) {
    taken_.insert(key);
    static const json none;
    const auto found = object_.find(key);
    return found == object_.end() ? none : *found;
  }
  [[noreturn]] void wrong(const char* key, std::string_view expected) {
    fail("{}: {}: expected {}, found {}", what_, key, expected,
         printable(take(key).dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80)));
  }

  double number(const char* key, double missing) {
    const json& v = take(key);
    // An explicit null is an error, because PEFT also fails for null.
    if (v.is_null() && !object_.contains(key)) return missing;
    if (!v.is_number() || !std::isfinite(v.get<double>())) wrong(key, "a number");
    return v.get<double>();
  }
  int64_t integer(const char* key, int64_t missing) {
    const double x = number(key, static_cast<double>(missing));
    if (x != std::trunc(x) || std::abs(x) > 1e9) wrong(key, "an integer");
    return static_cast<int64_t>(x);
  }
  bool boolean(const char* key) {
    const json& v = take(key);
    if (v.is_null()) return false;
    if (!v.is_boolean()) wrong(key, "true or false");
    return v.get<bool>();
  }
  std::string string(const char* key) {
    const json& v = take(key);
    if (v.is_null()) return "";
    if (!v.is_string()) wrong(key, "a string");
    return v.get<std::string>();
  }

  // Reads an object that maps regular expressions to numbers. A regular expression selects a module if it
  // matches the whole name of the module, or the whole part of this name after a dot.
  template <class T>
  std::vector<std::pair<ModulePattern, T>> patterns(const char* key) {
    std::vector<std::pair<ModulePattern, T>> values;
    const json& v = take(key);
    if (v.is_null()) return values;
    if (!v.is_object()) wrong(key, "an object of numbers");
    for (const auto& [name, value] : ordered_[key].items()) {
      const bool integer = value.is_number_integer() || std::is_same_v<T, double>;
      if (!value.is_number() || !integer || value.template get<double>() > 1e9) wrong(key, "numbers");
      values.emplace_back(pattern(key, "(?:.*\\.)?(?:" + name + ")"), value.template get<T>());
    }
    return values;
  }

  // Reads a list of names, or a string as a list with one name.
  std::vector<std::string> names(const char* key) {
    const json& v = take(key);
    if (v.is_string()) return {v.get<std::string>()};
    if (!v.is_array()) wrong(key, "a list of names or a string");
    std::vector<std::string> names;
    for (const json& name : v) {
      if (!name.is_string()) wrong(key, "names");
      names.push_back(name.get<std::string>());
    }
    return names;
  }
  // Reads a filter that selects modules by a list of names or by a regular expression.
  ModuleFilter filter(const char* key) {
    const std::vector<std::string> list = names(key);
    if (!take(key).is_string()) return ModuleFilter(list);
    pattern(key, list[0]);
    return ModuleFilter(list[0]);
  }

  ModulePattern pattern(const char* key, const std::string& text) {
    try {
      return ModulePattern(text);
    } catch (const Error& error) {
      fail_because(error, "{}: {}: {}", what_, key, error.what());
    }
  }

  // Checks the keys that were not read and are not in kNeutral. The value of such a key must disable the
  // setting: null, false, or an empty list or object.
  void end() const {
    for (const auto& [key, value] : object_.items()) {
      if (taken_.contains(key) || std::ranges::find(kNeutral, key) != std::end(kNeutral)) continue;
      const bool off =
          value.is_null() || value == false || ((value.is_array() || value.is_object()) && value.empty());
      if (!off)
        fail_unsupported("{}: {} = {} is not supported, because it changes the output of the adapter", what_,
                         printable(key),
                         printable(value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80)));
    }
  }

 private:
  const json& object_;
  const nlohmann::ordered_json& ordered_;
  const std::string& what_;
  std::set<std::string, std::less<>> taken_;
};

void read_targets(Reader& reader, AdapterConfig& config) {
  const char* const key = "target_modules";
  if (!reader.take("exclude_modules").is_null()) config.excluded = reader.filter("exclude_modules");
  if (reader.take(key).is_null() || reader.take(key) == "all-linear") return;
  config.settings.targets = reader.names(key);
  config.targets = reader.filter(key);
}

void read_layers(Reader& reader, AdapterConfig& config) {
  AdapterSettings& s = config.settings;
  if (!reader.take("layers_pattern").is_null()) config.layers_patterns = reader.names("layers_pattern");
  for (const std::string& pattern : config.layers_patterns)
    reader.pattern("layers_pattern", pattern);
  const json& v = reader.take("layers_to_transform");
  if (v.is_null()) return;
  const auto add = [&](const json& layer) {
    if (!layer.is_number_integer() || layer.get<int64_t>() < 0)
      reader.wrong("layers_to_transform", "layer numbers");
    s.layers.push_back(layer.get<int64_t>());
  };
  if (v.is_array()) {
    std::ranges::for_each(v, add);
  } else {
    add(v);
  }
}

}  // namespace

AdapterConfig read_adapter_config(std::string_view text, const std::string& what) {
  const json object = parse_json(text, what);
  const nlohmann::ordered_json ordered = nlohmann::ordered_json::parse(text);
  Reader reader(object, ordered, what);
  AdapterConfig config;
  AdapterSettings& s = config.settings;
  if (reader.string("peft_type") != "LORA") reader.wrong("peft_type", "\"LORA\"");
  s.rank = reader.integer("r", s.rank);
  if (s.rank < 1) reader.wrong("r", "1 or more");
  s.alpha = reader.number("lora_alpha", s.alpha);
  s.rslora = reader.boolean("use_rslora");
  s.dropout = reader.number("lora_dropout", s.dropout);
  if (s.dropout < 0 || s.dropout >= 1) reader.wrong("lora_dropout", "0 or more and less than 1");
  config.ranks = reader.patterns<int64_t>("rank_pattern");
  config.alphas = reader.patterns<double>("alpha_pattern");
  read_targets(reader, config);
  read_layers(reader, config);
  config.base = reader.string("base_model_name_or_path");
  if (const std::string bias = reader.string("bias"); !bias.empty() && bias != "none")
    reader.wrong("bias", "\"none\", because adapters with trained biases are not supported");
  const json& init = reader.take("init_lora_weights");
  const bool plain =
      init.is_null() || init.is_boolean() ||
      (init.is_string() && std::ranges::find(kInits, init.get<std::string>()) != std::end(kInits));
  if (!plain)
    reader.wrong(
        "init_lora_weights",
        "true, false or \"gaussian\", because other initializations change the weights of the base model");
  reader.end();
  return config;
}

bool AdapterConfig::has_target(const std::string& module, int64_t layer) const {
  if (excluded.has(module)) return false;
  if (!targets) return layer >= 0;
  if (!targets->has(module)) return false;
  if (targets->is_pattern() || targets->has_whole(module) || settings.layers.empty()) return true;
  const auto is_in = [&](const std::string& pattern) {
    return ModulePattern(fmt::format("(?:.*\\.)?(?:{})\\.{}\\..*", pattern, layer)).matches(module);
  };
  if (!layers_patterns.empty() && std::ranges::none_of(layers_patterns, is_in)) return false;
  return std::ranges::find(settings.layers, layer) != settings.layers.end();
}

AdapterSize AdapterConfig::size(const std::string& module) const {
  AdapterSize size{settings.rank, settings.alpha};
  const auto is = [&](const auto& entry) { return entry.first.matches(module); };
  if (const auto rank = std::ranges::find_if(ranks, is); rank != ranks.end()) size.rank = rank->second;
  if (const auto alpha = std::ranges::find_if(alphas, is); alpha != alphas.end()) size.alpha = alpha->second;
  return size;
}

json adapter_config_json(const AdapterSettings& s, const std::string& base, bool fan_in_fan_out) {
  const auto number = [](double x) { return x == std::trunc(x) ? json(static_cast<int64_t>(x)) : json(x); };
  json alphas = json::object();
  for (const auto& [name, alpha] : s.alpha_pattern)
    alphas[name] = number(alpha);
  const bool all = s.targets == std::vector<std::string>{"all-linear"};
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", base.empty() ? json() : json(base)},
          {"inference_mode", true},
          {"r", s.rank},
          {"lora_alpha", number(s.alpha)},
          {"lora_dropout", s.dropout},
          {"use_rslora", s.rslora},
          {"target_modules", all ? json("all-linear") : json(s.targets)},
          {"layers_to_transform", s.layers.empty() ? json() : json(s.layers)},
          {"rank_pattern", s.rank_pattern},
          {"alpha_pattern", alphas},
          {"fan_in_fan_out", fan_in_fan_out},
          {"bias", "none"},
          {"init_lora_weights", true},
          {"modules_to_save", nullptr},
          {"use_dora", false}};
}

}  // namespace gpt
