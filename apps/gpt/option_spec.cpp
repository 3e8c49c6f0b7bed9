#include "option_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "base/ranges.h"
#include "config_flags.h"
#include "options.h"
#include "parse_problem.h"
#include "report/next_step.h"

namespace gpt {

OptionSpec& spec_of(const CLI::Option& option) {
  static std::map<const CLI::Option*, OptionSpec> specs;
  return specs[&option];
}

CLI::Option* define(CLI::Option* option, OptionSpec spec) {
  using CLI::MultiOptionPolicy;
  if (spec.is_number && !spec.is_config_key) option->check(CLI::Validator(number_problem, ""));
  if (spec.is_repeated || spec.delimiter != '\0') option->allow_extra_args(false);
  if (spec.delimiter != '\0')
    option->delimiter(spec.delimiter)->multi_option_policy(MultiOptionPolicy::TakeAll);
  spec_of(*option) = std::move(spec);
  return option;
}

std::vector<std::string> aliases_of(const CLI::Option& option) {
  std::vector<std::string> names;
  const OptionSpec& spec = spec_of(option);
  if (!spec.aliases.empty()) names = CLI::detail::split(spec.aliases, '|');
  // Options that are named like a config key, such as --n-ctx of gpt serve, have its aliases too.
  for (const KeyInfo& key : config_keys()) {
    if (spec.is_config_key || !option.check_lname(flag_of(key.name).substr(2))) continue;
    for (const std::string& alias : key.aliases)
      names.push_back(alias.starts_with('-') ? alias : flag_of(alias));
  }
  return names;
}

const CLI::Option* find_alias(const CLI::App& app, const std::string& flag) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> names = aliases_of(*option);
    if (std::ranges::find(names, flag) != names.end()) return option;
  }
  return nullptr;
}

std::string value_name(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const OptionSpec& spec = spec_of(option);
  if (!spec.value.empty()) return spec.value;
  if (!spec.choices.empty()) return fmt::format("{}", fmt::join(spec.choices, "|"));
  return spec.is_number ? "N" : "TEXT";
}

OptionSpec spec_of_key(const KeyInfo& key) {
  OptionSpec spec{
      .flags = flag_of(key.name), .value = key.value, .help = key.help, .fallback = key.shown_default()};
  spec.choices = key.choices;
  spec.is_open = key.kind == ValueKind::path;
  spec.kind = key.kind;
  spec.min = key.min;
  spec.max = key.max;
  spec.common = key.is_common;
  for (const std::string& alias : key.aliases)
    spec.aliases += (spec.aliases.empty() ? "" : "|") + (alias.starts_with('-') ? alias : flag_of(alias));
  spec.is_number = key.has_range();
  const bool shows_choices = !key.choices.empty() && !spec.is_open;
  if (spec.value.empty() && !shows_choices)
    spec.value = spec.is_open ? "NAME" : key.is_list() ? "X ..." : key.type == KeyType::integer ? "N" : "X";
  return spec;
}

std::string variable_of(const CLI::Option& option) {
  const bool has_one = spec_of(option).environment && !option.get_lnames().empty();
  return has_one ? variable_name(option.get_lnames().front()) : "";
}

void check_values(const CLI::Option& option, const std::string& source) {
  const OptionSpec& spec = spec_of(option);
  for (const std::string& value : option.results()) {
    if (!spec.choices.empty() && !spec.is_open) check_choice(source, value, spec.choices);
    if (!spec.is_number || value.empty()) continue;
    const double number = std::strtod(value.c_str(), nullptr);
    if (number < spec.min || number > spec.max)
      fail_usage("{}: expected {} to {}, found {}", source, spec.min, spec.max, value);
  }
}

}  // namespace gpt
