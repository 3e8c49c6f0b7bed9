#include "parse_problem.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "number_check.h"

namespace gpt {
namespace {

// The first option that the text names: the parser's errors carry no more than their text.
const CLI::Option* named_option(const CLI::App& app, const std::string& text) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (text.starts_with(name + ":") || text.find(" " + name + " = ") != std::string::npos) return option;
  }
  return nullptr;
}

// "one of all, last", "a number", "NAME".
std::string expected_value(const CLI::Option& option) {
  const std::string type = option.get_type_name().substr(0, option.get_type_name().find(':'));
  if (takes_a_number(option)) return "a number";
  return type.empty() || type == "TEXT" ? "a text" : type;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "\"" : ", \"") + word.substr(0, 64) + "\"";
  return text;
}

}  // namespace

std::string parse_problem(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  const CLI::Option* option = named_option(app, text);
  if (option == nullptr) return text;
  const std::string name = option->get_name();
  const std::vector<std::string>& found = option->results();
  constexpr std::string_view kRange = " not in range ";
  if (const size_t at = text.find(kRange); at != std::string::npos && !found.empty())
    return fmt::format("{}: expected {}, found {}", name, text.substr(at + kRange.size()), found.back());
  if (text.ends_with(" missing"))
    return fmt::format("{}: expected {} behind it, found none", name, expected_value(*option));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && found.size() > 1)
    return fmt::format("{}: expected one value, found {}: {}", name, found.size(), joined(found));
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr)
    return fmt::format("{}: expected {}, found {}", name,
                       option->get_items_expected_max() == 0 ? "nothing behind it" : expected_value(*option),
                       joined(found));
  return text;
}

}  // namespace gpt
