#include "parse_problem.h"

#include "option_spec.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace gpt {
namespace {

// Returns the first option that the message names. The parser's errors only contain text.
const CLI::Option* named_option(const CLI::App& app, const std::string& text) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (text.starts_with(name + ":") || text.find(" " + name + " = ") != std::string::npos) return option;
  }
  return nullptr;
}

// Describes the value that an option expects: "one of all, last", "a number", "NAME".
std::string expected_value(const CLI::Option& option) {
  if (spec_of(option).is_number) return "a number";
  const std::string value = value_name(option);
  return value == "TEXT" ? "a text" : value;
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
  if (text.ends_with(" missing"))
    return fmt::format("{}: expected {} after it, found none", name, expected_value(*option));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && found.size() > 1)
    return fmt::format("{}: expected one value, found {}: {}", name, found.size(), joined(found));
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr)
    return fmt::format("{}: expected {}, found {}", name,
                       option->get_items_expected_max() == 0 ? "no value" : expected_value(*option),
                       joined(found));
  return text;
}

std::string number_problem(const std::string& text) {
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const std::string digits = text.substr(sign);
  if (digits.empty()) return "";
  if (digits.find_first_not_of("0123456789") != std::string::npos) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    return *end == '\0' && !std::isfinite(value) ? fmt::format("expected a finite number, found {}", text)
                                                 : "";
  }
  if (digits.size() > 1 && digits[0] == '0')
    return fmt::format("expected a number without leading zeros, found {}", text);
  int64_t value = 0;
  const std::string number = (text[0] == '-' ? "-" : "") + digits;
  if (std::from_chars(number.data(), number.data() + number.size(), value).ec ==
      std::errc::result_out_of_range)
    return fmt::format("expected a number from {} to {}, found {}", INT64_MIN, INT64_MAX, text.substr(0, 64));
  return "";
}

}  // namespace gpt
