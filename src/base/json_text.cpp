#include "base/json_text.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace gpt {
namespace {

constexpr uint8_t kBigInteger = 1;  // subtype of binary values that hold the digits of an integer

template <class Json>
void append(std::string& out, const Json& value) {
  if (value.is_array()) {
    out += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += ',';
      append(out, value[i]);
    }
    out += ']';
  } else if (value.is_object()) {
    out += '{';
    for (auto member = value.begin(); member != value.end(); ++member) {
      if (member != value.begin()) out += ',';
      append(out, Json(member.key()));
      out += ':';
      append(out, *member);
    }
    out += '}';
  } else if (is_big_integer(value) ||
             (value.is_number_float() && std::isfinite(value.template get<double>()))) {
    out += number_text(value);
  } else {
    out += value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

}  // namespace

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char room[64];
  const double size = std::fabs(value);
  const bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto format = exponent ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(room, room + sizeof room, value, format).ptr;
  std::string out(room, end);
  if (!exponent && out.find('.') == std::string::npos) out += ".0";
  return out;
}

template <class Json>
Json big_integer(const std::string& digits) {
  return Json::binary({digits.begin(), digits.end()}, kBigInteger);
}

template <class Json>
bool is_big_integer(const Json& value) {
  return value.is_binary() && value.get_binary().has_subtype() && value.get_binary().subtype() == kBigInteger;
}

template <class Json>
bool is_integer(const Json& value) {
  return value.is_number_integer() || is_big_integer(value);
}

template <class Json>
bool is_number(const Json& value) {
  return value.is_number() || is_big_integer(value);
}

template <class Json>
std::string number_text(const Json& number) {
  GPT_ASSERT(is_number(number));
  if (is_big_integer(number)) return {number.get_binary().begin(), number.get_binary().end()};
  return number.is_number_float() ? python_float(number.template get<double>()) : number.dump();
}

template <class Json>
std::string json_text(const Json& value) {
  std::string out;
  append(out, value);
  return out;
}

#define GPT_FOR_JSON(Json)                       \
  template Json big_integer(const std::string&); \
  template bool is_big_integer(const Json&);     \
  template bool is_integer(const Json&);         \
  template bool is_number(const Json&);          \
  template std::string number_text(const Json&); \
  template std::string json_text(const Json& value)
GPT_FOR_JSON(nlohmann::json);
GPT_FOR_JSON(nlohmann::ordered_json);
#undef GPT_FOR_JSON

}  // namespace gpt
