#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/jinja.h"

namespace gpt::jinja {

enum class TokenKind : uint8_t {
  data,  // text outside tags, as it is written
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,  // content of a string, without quotes and escapes
  integer,
  real,
  op,
  end,
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;
};

// Splits a template into tokens and applies the rules for white space. An Error message begins with the line
// number.
// Source: jinja2/lexer.py of Jinja 3.1.
std::vector<Token> lex(std::string_view source, const JinjaOptions& options);

}  // namespace gpt::jinja
