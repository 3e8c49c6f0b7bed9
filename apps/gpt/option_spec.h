#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/key.h"

namespace gpt {

// The definition of an option of a command. Help texts, completion, man pages, docs/cli.md, environment
// variables and the names of other programs are all derived from it.
struct OptionSpec {
  std::string flags;       // "-o,--out"; "--data,DATA" is also accepted as an argument, "MODEL" only as one
  std::string value = {};  // name of the value in help: N, FILE, "PATH ..."; if empty, the choices as a|b|c
  std::string help = {};   // a noun phrase or an imperative with the unit, without the default
  std::string fallback = {};  // the default in help, if it is not the initial value of the variable
  std::vector<std::string> choices = {};  // valid values
  bool is_open = false;                   // there are other valid values, which the command checks itself
  ValueKind kind = ValueKind::plain;
  double min = -std::numeric_limits<double>::infinity();  // inclusive range of a number
  double max = std::numeric_limits<double>::infinity();
  char delimiter = '\0';       // separates the values of a list: --dtype fp32,bf16
  bool is_repeated = false;    // each flag takes one value, and the flag can be repeated
  std::string aliases = {};    // flags of other programs, as "--a|--b|-c"
  bool common = false;         // shown in the short help
  bool environment = true;     // the variable GPT_NAME sets the option --name
  bool on_resume = false;      // a resumed run accepts the option from the environment
  bool is_number = false;      // set by add()
  bool is_config_key = false;  // the command itself applies the value, in the order of precedence
};

// Returns the definition of an option, which the caller may change.
OptionSpec& spec_of(const CLI::Option& option);

// Completes an option that add() has created.
CLI::Option* define(CLI::Option* option, OptionSpec spec);

// Returns a default as help shows it. Optional values that are not set have none.
template <class T>
std::string default_of(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return fmt::format(std::is_integral_v<T> ? "{}" : "{:g}", value);
  } else if constexpr (std::is_convertible_v<const T&, std::string>) {
    return value;
  } else {
    return value ? default_of(*value) : "";
  }
}

// Adds an option whose value is stored in `value`: a bool, string, number, optional number or list of
// strings, or a function that receives the values.
template <class T>
CLI::Option* add(CLI::App& app, OptionSpec spec, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    CLI::Option* option = app.add_flag(spec.flags, value);
    return define(option, std::move(spec));
  } else if constexpr (std::is_invocable_r_v<bool, T&, const CLI::results_t&>) {
    CLI::Option* option = app.add_option(spec.flags, CLI::callback_t(value));
    return define(option, std::move(spec));
  } else {
    constexpr bool is_text = std::is_same_v<T, std::string>;
    constexpr bool is_list = !is_text && requires {
      value.push_back({});
    };
    spec.is_number = !is_text && !is_list;
    if constexpr (!is_list) {
      if (spec.fallback.empty()) spec.fallback = default_of(value);
    }
    CLI::Option* option = app.add_option(spec.flags, value);
    return define(option, std::move(spec));
  }
}

// Returns the names of other programs for an option, as flags.
std::vector<std::string> aliases_of(const CLI::Option& option);
// Returns the option that an alias names, or null.
const CLI::Option* find_alias(const CLI::App& app, const std::string& flag);

// Returns the name of an option's value: N, FILE, or its choices as a|b|c. "" for options without a value.
std::string value_name(const CLI::Option& option);
// Returns the definition of the option that sets a config key.
OptionSpec spec_of_key(const KeyInfo& key);
// Returns the environment variable that sets an option, or "".
std::string variable_of(const CLI::Option& option);

// Throws invalid_argument if a value is not one of the choices or outside the range. `source` is the flag or
// the variable.
void check_values(const CLI::Option& option, const std::string& source);

}  // namespace gpt
