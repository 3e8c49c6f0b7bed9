#pragma once

// Converts between JSON values and config fields, checks their ranges, and describes them. Error messages
// name the key.

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "model/config.h"

namespace gpt {

// The JSON names of an enumeration's values, in order.
template <class E>
struct EnumNames;
template <>
struct EnumNames<NormKind> {
  static constexpr const char* names[] = {"layer", "rms"};
};
template <>
struct EnumNames<NormPosition> {
  static constexpr const char* names[] = {"pre", "post"};
};
template <>
struct EnumNames<Position> {
  static constexpr const char* names[] = {"learned", "rope"};
};
template <>
struct EnumNames<RopeLayout> {
  static constexpr const char* names[] = {"halves", "interleaved"};
};
template <>
struct EnumNames<RopeDType> {
  static constexpr const char* names[] = {"fp32", "bf16"};
};
template <>
struct EnumNames<Act> {
  static constexpr const char* names[] = {"gelu_tanh", "gelu", "relu", "relu2", "swiglu"};
};
template <>
struct EnumNames<Init> {
  static constexpr const char* names[] = {"normal", "torch", "nanochat"};
};

[[noreturn]] inline void wrong_value(const std::string& key, const std::string& expected,
                                     const nlohmann::json& found) {
  fail_key(key, "expected {}, found {}", expected,
           found.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 80));
}

inline void from_json_value(const std::string& key, const nlohmann::json& v, int64_t& out) {
  if (v.is_number_unsigned() && v.get<uint64_t>() > uint64_t{INT64_MAX}) wrong_value(key, "an integer", v);
  if (v.is_number_integer()) {
    out = v.get<int64_t>();
  } else if (v.is_number_float() &&
             std::abs(v.get<double>()) < 0x1p53 &&  // larger doubles cannot represent every integer
             v.get<double>() == std::trunc(v.get<double>())) {
    out = static_cast<int64_t>(v.get<double>());
  } else {
    wrong_value(key, "an integer", v);
  }
}

inline void from_json_value(const std::string& key, const nlohmann::json& v, double& out) {
  if (!v.is_number()) wrong_value(key, "a number", v);
  out = v.get<double>();
}

inline void from_json_value(const std::string& key, const nlohmann::json& v, bool& out) {
  if (!v.is_boolean()) wrong_value(key, "true or false", v);
  out = v.get<bool>();
}

inline void from_json_value(const std::string& key, const nlohmann::json& v, std::string& out) {
  if (!v.is_string()) wrong_value(key, "a string", v);
  out = v.get<std::string>();
}

inline void from_json_value(const std::string& key, const nlohmann::json& v, std::vector<std::string>& out) {
  if (v.is_string()) {
    out = {v.get<std::string>()};
    return;
  }
  if (!v.is_array()) wrong_value(key, "a string or a list of strings", v);
  out.clear();
  for (const nlohmann::json& item : v) {
    if (!item.is_string()) wrong_value(key, "a string or a list of strings", v);
    out.push_back(item.get<std::string>());
  }
}

template <class E>
requires std::is_enum_v<E>
void from_json_value(const std::string& key, const nlohmann::json& v, E& out) {
  std::string expected;
  int index = 0;
  for (const char* name : EnumNames<E>::names) {
    if (v.is_string() && v.get_ref<const std::string&>() == name) {
      out = static_cast<E>(index);
      return;
    }
    expected += (index++ ? ", " : "") + std::string(name);
  }
  if (!v.is_string()) wrong_value(key, "one of " + expected, v);
  const std::vector<std::string> names(std::begin(EnumNames<E>::names), std::end(EnumNames<E>::names));
  const auto text = v.get<std::string>().substr(0, 64);
  fail_key(key, "expected one of {}, found \"{}\"{}", expected, text, did_you_mean(text, names));
}

void from_json_value(const std::string& key, const nlohmann::json& v, RopeScaling& out);

template <class T>
nlohmann::json to_json_value(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return EnumNames<T>::names[static_cast<size_t>(value)];
  } else {
    return value;
  }
}
nlohmann::json to_json_value(const RopeScaling& scaling);

// Throws invalid_argument if a number is outside the range of its key. Other types have no range.
template <class T>
void check_range(const Key& key, const T& value) {
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
    if (static_cast<double>(value) >= key.min && static_cast<double>(value) <= key.max) return;
    fail_key(key.name, "expected {} to {}, found {}", key.min, key.max, value);
  }
}

// Checks the range of every key of a config. Throws invalid_argument for the first value out of range. A key
// with Key::unset may have its default value, which is not checked: it means that the value is derived from
// other keys. visit_keys(config, visit) visits the keys.
template <class Config, class VisitKeys>
void check_ranges(const Config& config, VisitKeys&& visit_keys) {
  const Config unset;
  visit_keys(config, [&](const Key& key, const auto& value) {
    bool is_unset = false;
    if (*key.unset != '\0') {
      visit_keys(unset, [&](const Key& other, const auto& fallback) {
        if constexpr (std::is_same_v<decltype(value), decltype(fallback)>)
          is_unset |= std::string_view(key.name) == other.name && value == fallback;
      });
    }
    if (!is_unset) check_range(key, value);
  });
}

// Reads a value that is given in JSON and checks its range. An invalid value is not stored.
template <class T>
void read_key(const Key& key, const nlohmann::json& json, T& value) {
  T read = value;
  from_json_value(key.name, json, read);
  check_range(key, read);
  value = std::move(read);
}

// Returns the text of a default value for help.
inline std::string default_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_integer()) return value.dump();
  return value.is_number() ? fmt::format("{:g}", value.get<double>()) : "";
}

// Returns the description of a key and its field.
template <class T>
KeyInfo key_info(const Key& key, const T& value) {
  const auto words = [](std::string_view list) {
    std::vector<std::string> out;
    for (const std::string_view word : split(list, '|'))
      if (!word.empty()) out.emplace_back(word);
    return out;
  };
  KeyInfo info{.name = key.name, .group = key.group, .help = key.help, .unset = key.unset};
  info.fallback = default_text(to_json_value(value));
  info.min = key.min;
  info.max = key.max;
  info.choices = words(key.choices);
  info.aliases = words(key.aliases);
  info.value = key.value;
  info.kind = key.kind;
  info.is_common = key.is_common;
  if constexpr (std::is_same_v<T, bool>) {
    info.type = KeyType::boolean;
    info.choices = {"true", "false"};
  } else if constexpr (std::is_same_v<T, int64_t>) {
    info.type = KeyType::integer;
  } else if constexpr (std::is_same_v<T, double>) {
    info.type = KeyType::number;
  } else if constexpr (std::is_enum_v<T>) {
    info.type = KeyType::choice;
    info.choices = {std::begin(EnumNames<T>::names), std::end(EnumNames<T>::names)};
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    info.type = KeyType::list;
  } else if constexpr (std::is_same_v<T, RopeScaling>) {
    info.type = KeyType::object;
  }
  return info;
}

}  // namespace gpt
