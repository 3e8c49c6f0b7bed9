#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/error.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace gpt::jinja {
namespace {

constexpr int kMostNesting = 100;  // maximum nesting depth of blocks and of expressions

template <class... P>
std::vector<ExprPtr> parts_of(P... parts) {
  std::vector<ExprPtr> out;
  (out.push_back(std::move(parts)), ...);
  return out;
}

class Parser {
 public:
  Parser(std::string_view source, const JinjaOptions& options) : tokens_(lex(source, options)) {}

  Block run() { return statements({}); }

 private:
  // Limits the nesting depth, so that a malicious template cannot overflow the stack.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMostNesting)
        parser_.wrong(fmt::format("nested deeper than {} levels", kMostNesting));
    }
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Parser& parser_;
  };

  const Token& current() const { return tokens_[at_]; }
  const Token& peek() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is_op(std::string_view op) const { return current().kind == TokenKind::op && current().text == op; }
  bool is_word(std::string_view word) const {
    return current().kind == TokenKind::name && current().text == word;
  }
  bool take_op(std::string_view op) { return is_op(op) && (++at_, true); }
  bool take_word(std::string_view word) { return is_word(word) && (++at_, true); }

  [[noreturn]] void wrong(const std::string& problem) const { fail("line {}: {}", current().line, problem); }
  std::string found() const {
    if (current().kind == TokenKind::end) return "the end of the template";
    if (current().kind == TokenKind::variable_end) return "\"}}\"";
    if (current().kind == TokenKind::block_end) return "\"%}\"";
    return fmt::format("\"{}\"", printable_text(current().text, 32));
  }
  void expect_op(const char* op) {
    if (!take_op(op)) wrong(fmt::format("expected \"{}\", found {}", op, found()));
  }
  void expect_kind(TokenKind kind, const char* what) {
    if (current().kind != kind) wrong(fmt::format("expected {}, found {}", what, found()));
    ++at_;
  }
  std::string expect_name(const char* what) {
    if (current().kind != TokenKind::name) wrong(fmt::format("expected {}, found {}", what, found()));
    return tokens_[at_++].text;
  }

  ExprPtr make(ExprKind kind, int line, std::vector<ExprPtr> parts, std::string name = "") const {
    auto expr = std::make_unique<Expr>(Expr{kind, line, std::move(name), {}, std::move(parts), {}, {}});
    for (const ExprPtr& part : expr->parts)
      expr->depth = std::max(expr->depth, part == nullptr ? 1 : part->depth + 1);
    if (expr->depth > kMostNesting)
      wrong(fmt::format("an expression is nested deeper than {} levels", kMostNesting));
    return expr;
  }

  // ---- statements ----

  // Parses statements up to a block tag that begins with one of `ends`. The "{%" of this tag is consumed, but
  // its name is not.
  Block statements(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(*this);
    Block body;
    while (current().kind != TokenKind::end) {
      const int line = current().line;
      if (current().kind == TokenKind::data) {
        Stmt stmt{StmtKind::text, line, "", {}, {}, {}, {}, {}};
        stmt.text.append(tokens_[at_++].text);
        body.push_back(std::move(stmt));
      } else if (current().kind == TokenKind::variable_begin) {
        ++at_;
        Stmt stmt = make_stmt(StmtKind::output, line);
        stmt.values.push_back(tuple(true));
        body.push_back(std::move(stmt));
        expect_kind(TokenKind::variable_end, "\"}}\"");
      } else {
        expect_kind(TokenKind::block_begin, "\"{%\"");
        if (current().kind == TokenKind::name && std::ranges::find(ends, current().text) != ends.end())
          return body;
        body.push_back(statement());
      }
    }
    if (ends.size() > 0)
      wrong(fmt::format("expected the block \"{}\" before the end of the template", *(ends.end() - 1)));
    return body;
  }

  static Stmt make_stmt(StmtKind kind, int line) { return {kind, line, "", {}, {}, {}, {}, {}}; }
  void block_end() { expect_kind(TokenKind::block_end, "\"%}\""); }

  // Parses the rest of a tag after "{%", and the statements up to the tag that ends the block.
  Block body(std::initializer_list<std::string_view> ends) {
    block_end();
    return statements(ends);
  }
  Block last_body(std::string_view end) {
    Block out = body({end});
    ++at_;
    block_end();
    return out;
  }

  Stmt statement() {
    const int line = current().line;
    const std::string tag = expect_name("the name of a block");
    if (tag == "if") return if_statement(line);
    if (tag == "for") return for_statement(line);
    if (tag == "set") return set_statement(line);
    if (tag == "macro") return macro_statement(line);
    if (tag == "call") return call_statement(line);
    if (tag == "with") return with_statement(line);
    if (tag == "generation") {
      Stmt stmt = make_stmt(StmtKind::generation, line);
      stmt.blocks.push_back(last_body("endgeneration"));
      return stmt;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) wrong(fmt::format("\"{}\" outside a loop", tag));
      block_end();
      return make_stmt(tag == "break" ? StmtKind::break_loop : StmtKind::continue_loop, line);
    }
    --at_;
    refuse_tag();
  }

  [[noreturn]] void refuse_tag() const {
    constexpr std::array<std::string_view, 11> kKnown = {"filter", "block", "extends",    "include",
                                                         "import", "from",  "autoescape", "do",
                                                         "trans",  "print", "debug"};
    const bool known = std::ranges::find(kKnown, current().text) != kKnown.end();
    wrong(known ? fmt::format("the block {} is not supported", found())
                : fmt::format("unexpected block {}", found()));
  }

  Stmt if_statement(int line) {
    Stmt stmt = make_stmt(StmtKind::condition, line);
    while (true) {
      stmt.values.push_back(tuple(false));
      stmt.blocks.push_back(body({"elif", "else", "endif"}));
      if (take_word("elif")) continue;
      if (take_word("else")) {
        stmt.blocks.push_back(last_body("endif"));
        return stmt;
      }
      ++at_;
      block_end();
      return stmt;
    }
  }

  Stmt for_statement(int line) {
    Stmt stmt = make_stmt(StmtKind::loop, line);
    stmt.target = target(false);
    if (!take_word("in")) wrong(fmt::format("expected \"in\", found {}", found()));
    stmt.values.push_back(tuple(false));
    stmt.values.push_back(take_word("if") ? expression() : nullptr);
    if (is_word("recursive")) wrong("recursive loops are not supported");
    ++loops_;
    stmt.blocks.push_back(body({"else", "endfor"}));
    --loops_;
    if (take_word("else")) {
      stmt.blocks.push_back(last_body("endfor"));
    } else {
      ++at_;
      block_end();
      stmt.blocks.emplace_back();
    }
    return stmt;
  }

  Stmt set_statement(int line) {
    Stmt stmt = make_stmt(StmtKind::set, line);
    stmt.target = target(true);
    if (take_op("=")) {
      stmt.values.push_back(tuple(true));
      block_end();
      return stmt;
    }
    stmt.kind = StmtKind::set_block;
    stmt.values.push_back(is_op("|") ? filters(nullptr) : nullptr);
    stmt.blocks.push_back(last_body("endset"));
    return stmt;
  }

  Stmt macro_statement(int line) {
    Stmt stmt = make_stmt(StmtKind::macro, line);
    stmt.name = expect_name("the name of a macro");
    expect_op("(");
    parameters(stmt);
    macro_body(stmt, "endmacro");
    return stmt;
  }

  Stmt call_statement(int line) {
    Stmt stmt = make_stmt(StmtKind::call, line);
    stmt.name = "caller";
    if (take_op("(")) parameters(stmt);
    stmt.target = expression();
    if (stmt.target->kind != ExprKind::call) wrong("expected a macro call");
    macro_body(stmt, "endcall");
    return stmt;
  }

  // Parses the parameters of a macro after "(".
  void parameters(Stmt& stmt) {
    while (!take_op(")")) {
      if (!stmt.parameters.empty()) expect_op(",");
      stmt.parameters.push_back(expect_name("the name of a parameter"));
      if (take_op("=")) {
        stmt.values.push_back(expression());
      } else if (!stmt.values.empty()) {
        wrong("a parameter without a default after one with a default");
      }
    }
  }
  void macro_body(Stmt& stmt, std::string_view end) {
    const int around = std::exchange(loops_, 0);
    stmt.blocks.push_back(last_body(end));
    loops_ = around;
  }

  Stmt with_statement(int line) {
    Stmt stmt = make_stmt(StmtKind::with, line);
    while (current().kind != TokenKind::block_end) {
      if (!stmt.parameters.empty()) expect_op(",");
      stmt.parameters.push_back(expect_name("a name"));
      expect_op("=");
      stmt.values.push_back(expression());
    }
    stmt.blocks.push_back(last_body("endwith"));
    return stmt;
  }

  // Parses the target of a for or set statement, which is a name or a tuple of names. The target of set may
  // also be an attribute of a namespace.
  ExprPtr target(bool with_namespace) {
    const int line = current().line;
    if (with_namespace && current().kind == TokenKind::name && peek().kind == TokenKind::op &&
        peek().text == ".") {
      std::vector<ExprPtr> object = parts_of(make(ExprKind::name, line, {}, expect_name("a name")));
      ++at_;
      return make(ExprKind::attribute, line, std::move(object), expect_name("the name of an attribute"));
    }
    std::vector<ExprPtr> parts;
    do {
      parts.push_back(one_target());
    } while (take_op(",") && (current().kind == TokenKind::name || is_op("(")));
    const bool single = parts.size() == 1 && tokens_[at_ - 1].text != ",";
    return single ? std::move(parts[0]) : make(ExprKind::tuple, line, std::move(parts));
  }
  ExprPtr one_target() {
    const Nesting nesting(*this);
    const int line = current().line;
    if (take_op("(")) {
      ExprPtr inner = target(false);
      expect_op(")");
      return inner;
    }
    std::string name = expect_name("the name of a variable");
    constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none", "True", "False", "None"};
    if (std::ranges::find(kConstants, name) != kConstants.end()) wrong(fmt::format("{} cannot be set", name));
    return make(ExprKind::name, line, {}, std::move(name));
  }

  // ---- expressions, from the lowest to the highest precedence ----

  bool tuple_ends() const {
    return current().kind == TokenKind::variable_end || current().kind == TokenKind::block_end ||
           is_op(")") || is_word("recursive");
  }
  // Parses one expression, or a tuple of expressions without parentheses.
  ExprPtr tuple(bool conditional, bool may_be_empty = false) {
    const int line = current().line;
    std::vector<ExprPtr> parts;
    bool comma = false;
    while (!tuple_ends()) {
      parts.push_back(conditional ? expression() : logical_or());
      comma = take_op(",");
      if (!comma) break;
    }
    if (parts.empty() && !may_be_empty) wrong(fmt::format("expected an expression, found {}", found()));
    if (parts.size() == 1 && !comma) return std::move(parts[0]);
    return make(ExprKind::tuple, line, std::move(parts));
  }

  ExprPtr expression() {
    const Nesting nesting(*this);
    int line = current().line;
    ExprPtr value = logical_or();
    while (take_word("if")) {
      ExprPtr condition = logical_or();
      ExprPtr other = take_word("else") ? expression() : nullptr;
      value = make(ExprKind::conditional, line,
                   parts_of(std::move(condition), std::move(value), std::move(other)));
      line = current().line;
    }
    return value;
  }

  ExprPtr logical_or() {
    ExprPtr left = logical_and();
    for (int line = current().line; take_word("or"); line = current().line)
      left = make(ExprKind::logical_or, line, parts_of(std::move(left), logical_and()));
    return left;
  }
  ExprPtr logical_and() {
    ExprPtr left = negation();
    for (int line = current().line; take_word("and"); line = current().line)
      left = make(ExprKind::logical_and, line, parts_of(std::move(left), negation()));
    return left;
  }
  ExprPtr negation() {
    const int line = current().line;
    if (!take_word("not")) return comparison();
    const Nesting nesting(*this);
    return make(ExprKind::negation, line, parts_of(negation()));
  }

  std::string comparison_op() {
    constexpr std::array<std::string_view, 6> kOps = {"==", "!=", "<", "<=", ">", ">="};
    if (current().kind == TokenKind::op && std::ranges::find(kOps, current().text) != kOps.end())
      return tokens_[at_++].text;
    if (take_word("in")) return "in";
    if (is_word("not") && peek().kind == TokenKind::name && peek().text == "in") {
      at_ += 2;
      return "not in";
    }
    return "";
  }
  ExprPtr comparison() {
    const int line = current().line;
    ExprPtr first = sum();
    std::string op = comparison_op();
    if (op.empty()) return first;
    std::vector<ExprPtr> parts = parts_of(std::move(first));
    std::vector<std::string> ops;
    for (; !op.empty(); op = comparison_op()) {
      ops.push_back(op);
      parts.push_back(sum());
    }
    ExprPtr expr = make(ExprKind::comparison, line, std::move(parts));
    expr->ops = std::move(ops);
    return expr;
  }

  // Parses left-associative operators of the same precedence.
  template <class Operand>
  ExprPtr chain(std::initializer_list<std::string_view> ops, Operand operand) {
    ExprPtr left = (this->*operand)();
    while (current().kind == TokenKind::op && std::ranges::find(ops, current().text) != ops.end()) {
      const int line = current().line;
      std::string op = tokens_[at_++].text;
      ExprPtr right = (this->*operand)();
      left = make(ExprKind::binary, line, parts_of(std::move(left), std::move(right)), std::move(op));
    }
    return left;
  }
  ExprPtr sum() { return chain({"+", "-"}, &Parser::concat); }
  ExprPtr product() { return chain({"*", "/", "//", "%"}, &Parser::power); }
  ExprPtr power() { return chain({"**"}, &Parser::filtered_unary); }
  ExprPtr filtered_unary() { return unary(true); }

  ExprPtr concat() {
    const int line = current().line;
    ExprPtr first = product();
    if (!is_op("~")) return first;
    std::vector<ExprPtr> parts = parts_of(std::move(first));
    while (take_op("~"))
      parts.push_back(product());
    return make(ExprKind::concat, line, std::move(parts));
  }

  ExprPtr unary(bool with_filter) {
    const Nesting nesting(*this);
    const int line = current().line;
    ExprPtr value;
    if (is_op("-") || is_op("+")) {
      std::string op = tokens_[at_++].text;
      value = make(ExprKind::unary, line, parts_of(unary(false)), std::move(op));
    } else {
      value = primary();
    }
    value = postfix(std::move(value));
    return with_filter ? filters(std::move(value)) : std::move(value);
  }

  ExprPtr constant(int line, Value value) {
    ExprPtr expr = make(ExprKind::constant, line, {});
    expr->constant = std::move(value);
    return expr;
  }

  ExprPtr primary() {
    const int line = current().line;
    const TokenKind kind = current().kind;
    if (kind == TokenKind::name) return name(line);
    if (kind == TokenKind::string) {
      std::string text;
      while (current().kind == TokenKind::string)
        text += tokens_[at_++].text;
      return constant(line, Value(std::string_view(text)));
    }
    if (kind == TokenKind::integer) return constant(line, Value::of_digits(tokens_[at_++].text));
    if (kind == TokenKind::real)
      return constant(line, Value(std::strtod(tokens_[at_++].text.c_str(), nullptr)));
    if (take_op("(")) {
      ExprPtr inner = tuple(true, true);
      expect_op(")");
      return inner;
    }
    if (take_op("[")) return make(ExprKind::list, line, items("]"));
    if (take_op("{")) return dict(line);
    wrong(fmt::format("expected an expression, found {}", found()));
  }

  int64_t integer() {
    const auto value = parse_number<int64_t>(current().text);
    if (!value) wrong(fmt::format("the number {} is too large", printable_text(current().text, 32)));
    ++at_;
    return *value;
  }

  ExprPtr name(int line) {
    std::string name = tokens_[at_++].text;
    if (name == "true" || name == "True") return constant(line, Value(true));
    if (name == "false" || name == "False") return constant(line, Value(false));
    if (name == "none" || name == "None") return constant(line, Value());
    return make(ExprKind::name, line, {}, std::move(name));
  }

  std::vector<ExprPtr> items(const char* close) {
    std::vector<ExprPtr> parts;
    while (!take_op(close)) {
      if (!parts.empty()) expect_op(",");
      if (take_op(close)) break;
      parts.push_back(expression());
    }
    return parts;
  }
  ExprPtr dict(int line) {
    std::vector<ExprPtr> parts;
    while (!take_op("}")) {
      if (!parts.empty()) expect_op(",");
      if (take_op("}")) break;
      parts.push_back(expression());
      expect_op(":");
      parts.push_back(expression());
    }
    return make(ExprKind::dict, line, std::move(parts));
  }

  ExprPtr postfix(ExprPtr value) {
    while (true) {
      const int line = current().line;
      if (take_op(".")) {
        if (current().kind == TokenKind::integer) {
          value =
              make(ExprKind::subscript, line, parts_of(std::move(value), constant(line, Value(integer()))));
        } else {
          value = make(ExprKind::attribute, line, parts_of(std::move(value)),
                       expect_name("the name of an attribute"));
        }
      } else if (take_op("[")) {
        value = subscript(line, std::move(value));
      } else if (take_op("(")) {
        value = call(ExprKind::call, line, std::move(value), "");
      } else {
        return value;
      }
    }
  }

  ExprPtr subscript(int line, ExprPtr value) {
    ExprPtr bounds[3];
    size_t colons = 0;
    while (!is_op("]")) {
      if (take_op(":")) {
        if (++colons > 2) wrong("a slice has at most two \":\"");
        continue;
      }
      if (bounds[colons] != nullptr) wrong(fmt::format("expected \"]\", found {}", found()));
      bounds[colons] = expression();
    }
    ++at_;
    if (colons == 0 && bounds[0] == nullptr) wrong("expected a subscript");
    if (colons == 0) return make(ExprKind::subscript, line, parts_of(std::move(value), std::move(bounds[0])));
    return make(ExprKind::slice, line,
                parts_of(std::move(value), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])));
  }

  // Parses the arguments of a call, filter or test after "(".
  ExprPtr call(ExprKind kind, int line, ExprPtr operand, std::string name) {
    std::vector<ExprPtr> parts = parts_of(std::move(operand));
    std::vector<std::pair<std::string, ExprPtr>> named;
    bool first = true;
    while (!take_op(")")) {
      if (!first) expect_op(",");
      if (!first && take_op(")")) break;
      first = false;
      if (take_op("**")) {
        named.emplace_back("**", expression());
      } else if (const int at = current().line; take_op("*")) {
        parts.push_back(make(ExprKind::unary, at, parts_of(expression()), "*"));
      } else if (current().kind == TokenKind::name && peek().kind == TokenKind::op && peek().text == "=") {
        std::string parameter = expect_name("a name");
        ++at_;
        named.emplace_back(std::move(parameter), expression());
      } else {
        if (!named.empty()) wrong("a positional argument after a named one");
        parts.push_back(expression());
      }
    }
    ExprPtr expr = make(kind, line, std::move(parts), std::move(name));
    for (const auto& argument : named)
      expr->depth = std::max(expr->depth, argument.second->depth + 1);
    expr->named = std::move(named);
    return expr;
  }

  // Parses the filters, tests and calls that are applied to `value`. `value` is null for the filters of a
  // block.
  ExprPtr filters(ExprPtr value) {
    while (true) {
      const int line = current().line;
      if (take_op("|")) {
        value = filter(line, std::move(value));
      } else if (value != nullptr && take_word("is")) {
        value = test(line, std::move(value));
      } else if (value != nullptr && take_op("(")) {
        value = call(ExprKind::call, line, std::move(value), "");
      } else {
        return value;
      }
    }
  }
  ExprPtr filter(int line, ExprPtr value) {
    const std::string name = expect_name("the name of a filter");
    if (take_op("(")) return call(ExprKind::filter, line, std::move(value), name);
    return make(ExprKind::filter, line, parts_of(std::move(value)), name);
  }
  ExprPtr test(int line, ExprPtr value) {
    const bool negated = take_word("not");
    const std::string name = expect_name("the name of a test");
    ExprPtr expr;
    if (take_op("(")) {
      expr = call(ExprKind::test, line, std::move(value), name);
    } else {
      std::vector<ExprPtr> parts = parts_of(std::move(value));
      if (is_word("is")) wrong("tests cannot be chained with is");
      const TokenKind kind = current().kind;
      const bool word = kind == TokenKind::name && !is_word("else") && !is_word("or") && !is_word("and");
      if (word || kind == TokenKind::string || kind == TokenKind::integer || kind == TokenKind::real ||
          is_op("(") || is_op("[") || is_op("{"))
        parts.push_back(postfix(primary()));
      expr = make(ExprKind::test, line, std::move(parts), name);
    }
    return negated ? make(ExprKind::negation, line, parts_of(std::move(expr))) : std::move(expr);
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0, loops_ = 0;
};

}  // namespace

Block parse(std::string_view source, const JinjaOptions& options) {
  Block body = Parser(source, options).run();
  check_names(body);
  return body;
}

}  // namespace gpt::jinja
