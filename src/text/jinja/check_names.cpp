#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"

namespace gpt::jinja {
namespace {

// Filters of Jinja that are not supported. Jinja knows these filters, so a template that contains them
// compiles. They only cause an error when they are used.
constexpr std::array<std::string_view, 8> kRefusedFilters = {
    "filesizeformat", "pprint", "random", "striptags", "urlencode", "urlize", "wordwrap", "xmlattr"};

bool compiles(const Expr& expr) {
  if (expr.kind == ExprKind::filter)
    return is_filter(expr.name) || std::ranges::find(kRefusedFilters, expr.name) != kRefusedFilters.end();
  return expr.kind != ExprKind::test || is_test(expr.name);
}

void check(const ExprPtr& expr, bool conditional) {
  if (expr == nullptr) return;
  conditional = conditional || expr->kind == ExprKind::conditional;
  if (!conditional && !compiles(*expr))
    fail_unsupported("line {}: the {} {} is not supported", expr->line,
                     expr->kind == ExprKind::filter ? "filter" : "test", printable_text(expr->name, 32));
  for (const ExprPtr& part : expr->parts)
    check(part, conditional);
  for (const auto& argument : expr->named)
    check(argument.second, conditional);
}

enum class NameUse : uint8_t { load, store, parameter };

// Visits the names in statements and expressions in the order of Jinja's compiler.
template <class Visit>
void visit_names(const ExprPtr& expr, NameUse use, Visit& visit) {
  if (expr == nullptr) return;
  if (expr->kind == ExprKind::name) visit(expr->name, use);
  if (use == NameUse::store && expr->kind == ExprKind::attribute)
    return;  // setting an attribute of a namespace sets no variable
  for (const ExprPtr& part : expr->parts)
    visit_names(part, use, visit);
  for (const auto& argument : expr->named)
    visit_names(argument.second, use, visit);
}

template <class Visit>
void visit_names(const Stmt& stmt, Visit& visit) {
  visit_names(stmt.target, stmt.kind == StmtKind::call ? NameUse::load : NameUse::store, visit);
  for (const std::string& parameter : stmt.parameters)
    visit(parameter, NameUse::parameter);
  for (const ExprPtr& value : stmt.values)
    visit_names(value, NameUse::load, visit);
  for (const Block& block : stmt.blocks) {
    for (const Stmt& inner : block)
      visit_names(inner, visit);
  }
}

// A name is special if the body of the macro reads the name before setting it.
MacroNames special_names(const Stmt& macro) {
  MacroNames found;
  const std::pair<const char*, bool*> names[] = {
      {"caller", &found.caller}, {"kwargs", &found.kwargs}, {"varargs", &found.varargs}};
  bool set[std::size(names)] = {};
  const auto visit = [&](const std::string& name, NameUse use) {
    for (size_t i = 0; i < std::size(names); ++i) {
      if (name != names[i].first) continue;
      if (use != NameUse::load) {
        set[i] = true;
      } else if (!set[i]) {
        *names[i].second = true;
      }
    }
  };
  for (const Stmt& stmt : macro.blocks[0])
    visit_names(stmt, visit);
  const auto parameter_named = [&](const char* name) { return std::ranges::find(macro.parameters, name); };
  const auto caller = parameter_named("caller");
  const auto without_default = macro.parameters.end() - std::ssize(macro.values);
  if (found.caller && caller < without_default)
    fail("line {}: the special parameter caller must have a default", macro.line);
  found.kwargs = found.kwargs && parameter_named("kwargs") == macro.parameters.end();
  found.varargs = found.varargs && parameter_named("varargs") == macro.parameters.end();
  return found;
}

void refuse_setting_loop(const Stmt& loop) {
  const auto visit = [&](const std::string& name, NameUse use) {
    if (use == NameUse::store && name == "loop")
      fail("line {}: the variable loop cannot be set inside a loop", loop.line);
  };
  visit_names(loop, visit);
}

void check(Block& block, bool conditional);

void check(Stmt& stmt, bool conditional) {
  const StmtKind kind = stmt.kind;
  const bool branches = kind == StmtKind::condition;
  const bool macro = kind == StmtKind::macro || kind == StmtKind::call;
  if (macro) stmt.special = special_names(stmt);
  if (kind == StmtKind::loop) refuse_setting_loop(stmt);
  check(stmt.target, conditional);
  for (size_t i = 0; i < stmt.values.size(); ++i) {
    const bool inside = macro || kind == StmtKind::set_block || (kind == StmtKind::loop && i > 0);
    check(stmt.values[i], branches || (conditional && !inside));
  }
  for (Block& block : stmt.blocks)
    check(block, branches);
}

void check(Block& block, bool conditional) {
  for (Stmt& stmt : block)
    check(stmt, conditional);
}

}  // namespace

void check_names(Block& body) {
  check(body, false);
}

}  // namespace gpt::jinja
