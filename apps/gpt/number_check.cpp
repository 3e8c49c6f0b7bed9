#include "number_check.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace gpt {
namespace {

// What is wrong with a number as written; "" when nothing is, or when it is no number: the parser says that.
std::string problem_of(const std::string& text) {
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

}  // namespace

bool takes_a_number(const CLI::Option& option) {
  const std::string type = option.get_type_name().substr(0, option.get_type_name().find(':'));
  for (const char* name : {"N", "X", "T", "K", "INT", "UINT", "FLOAT", "GIB", "SECONDS"}) {
    if (type == name) return true;
  }
  return false;
}

void check_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (takes_a_number(*option) && !option->get_group().starts_with("config"))
      option->check(CLI::Validator(problem_of, ""));
  }
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    check_numbers(*sub);
}

}  // namespace gpt
