#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/jinja.h"
#include "text/jinja/value.h"

namespace gpt::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Block = std::vector<Stmt>;

enum class ExprKind : uint8_t {
  constant,
  name,
  attribute,    // parts[0].name
  subscript,    // parts[0][parts[1]]
  slice,        // parts[0][parts[1]:parts[2]:parts[3]], null if omitted
  call,         // parts[0](parts[1..], named); the name "**" marks a dict of arguments
  filter,       // parts[0] | name(parts[1..], named)
  test,         // parts[0] is name(parts[1..])
  negation,     // not parts[0]
  unary,        // name is "-" or "+"; "*" for an argument that is unpacked
  binary,       // parts[0] name parts[1]
  concat,       // parts[0] ~ parts[1] ~ ...
  comparison,   // parts[0] ops[0] parts[1] ops[1] ...
  conditional,  // parts[1] if parts[0] else parts[2], null if omitted
  logical_and,
  logical_or,
  list,
  tuple,
  dict,  // parts: key, value, key, value, ...
};

struct Expr {
  ExprKind kind;
  int line;
  std::string name;
  Value constant;
  std::vector<ExprPtr> parts;
  std::vector<std::pair<std::string, ExprPtr>> named;
  std::vector<std::string> ops;
  int depth = 1;
};

enum class StmtKind : uint8_t {
  text,
  output,     // {{ value }}
  condition,  // if values[i]: blocks[i]; one more block for else
  loop,       // for target in values[0] if values[1]: blocks[0], else blocks[1]
  set,        // target = values[0]
  set_block,  // target = blocks[0] | values[0]; values[0] is null without a filter
  macro,      // name(parameters): blocks[0]; `values` contains the defaults of the last parameters
  call,       // calls target with the macro caller(parameters): blocks[0]
  with,       // names = values: blocks[0]
  generation,
  break_loop,
  continue_loop,
};

// The special names that the body of a macro uses.
struct MacroNames {
  bool caller = false, kwargs = false, varargs = false;
};

struct Stmt {
  StmtKind kind;
  int line;
  std::string name;
  JinjaText text;
  ExprPtr target;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> values;
  std::vector<Block> blocks;
  MacroNames special = {};
};

struct Program {
  std::string name;
  JinjaOptions options;
  Block body;
};

// Parses a template. An Error message begins with the line number. Source: jinja2/parser.py of Jinja 3.1.
Block parse(std::string_view source, const JinjaOptions& options);

// Performs the checks of Jinja's compiler, and sets Stmt::special of all macros. Throws Error for an
// undefined filter or test; the message begins with the line number. As in Jinja, there is an exception:
// inside an if statement or inline if, an undefined filter or test is only an error when it is used at run
// time. The exception does not apply if the undefined name is inside a loop, macro or block within the
// conditional. Source: CodeGenerator in jinja2/compiler.py of Jinja 3.1.
void check_names(Block& body);

}  // namespace gpt::jinja
