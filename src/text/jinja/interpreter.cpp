#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"
#include "text/jinja/jinja.h"
#include "text/jinja/objects.h"

namespace gpt {
namespace jinja {

Value* Scope::find(const std::string& name) {
  for (auto& [key, value] : names) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  if (Value* found = find(name)) {
    *found = std::move(value);
  } else {
    names.emplace_back(name, std::move(value));
  }
}

namespace {

using ScopePtr = std::shared_ptr<Scope>;
enum class Flow : uint8_t { on, stop, next };  // continue, leave the loop, or start the next iteration

// Renders a template once.
class Interpreter {
 public:
  Interpreter(const Program& program, std::vector<std::pair<std::string, Value>> context)
      : program_(program), rt_{program.options} {
    auto outer = std::make_shared<Scope>();
    outer->names = std::move(context);
    top_ = std::make_shared<Scope>();
    top_->parent = std::move(outer);
  }

  JinjaText run() {
    try {
      TextBuilder out(rt_.limits);
      run_block(program_.body, top_, out);
      return out.take();
    } catch (const Error& e) {
      fail_because(e, "{}, line {}: {}", program_.name, line_, e.what());
    }
  }

 private:
  // Limits the depth of recursion, so that recursive macros cannot overflow the stack.
  class Level {
   public:
    explicit Level(int& level) : level_(level) {
      if (++level_ > kMost) fail("blocks, expressions and macros are nested deeper than {} levels", kMost);
    }
    ~Level() { --level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    static constexpr int kMost = 600;
    int& level_;
  };

  static ScopePtr inner(const ScopePtr& scope) {
    auto made = std::make_shared<Scope>();
    made->parent = scope;
    return made;
  }

  // ---- statements ----

  Flow run_block(const Block& block, const ScopePtr& scope, TextBuilder& out) {
    const Level level(level_);
    for (const Stmt& stmt : block) {
      const Flow flow = run(stmt, scope, out);
      if (flow != Flow::on) return flow;
    }
    return Flow::on;
  }

  Flow run(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
    line_ = stmt.line;
    rt_.limits.step();
    switch (stmt.kind) {
      case StmtKind::text:
        out.add(stmt.text);
        return Flow::on;
      case StmtKind::output:
        write(eval(*stmt.values[0], scope), out);
        return Flow::on;
      case StmtKind::condition:
        return run_condition(stmt, scope, out);
      case StmtKind::loop:
        return run_loop(stmt, scope, out);
      case StmtKind::set:
        assign(*stmt.target, eval(*stmt.values[0], scope), scope);
        return Flow::on;
      case StmtKind::set_block:
        return run_set_block(stmt, scope);
      case StmtKind::macro:
        scope->set(stmt.name, macro_of(stmt, scope));
        return Flow::on;
      case StmtKind::call: {
        const Value caller = macro_of(stmt, scope);
        write(called(*stmt.target, scope, &caller), out);
        return Flow::on;
      }
      case StmtKind::with:
        return run_with(stmt, scope, out);
      case StmtKind::generation:
        return run_generation(stmt, scope, out);
      case StmtKind::break_loop:
        return Flow::stop;
      case StmtKind::continue_loop:
        return Flow::next;
    }
    return Flow::on;
  }

  void write(const Value& value, TextBuilder& out) {
    if (value.is_refused(rt_.options.strict_undefined)) fail("{}", value.undefined_what());
    append_str(out, value);
  }

  Flow run_condition(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
    for (size_t i = 0; i < stmt.values.size(); ++i) {
      if (truthy(rt_, eval(*stmt.values[i], scope))) return run_block(stmt.blocks[i], scope, out);
    }
    if (stmt.blocks.size() > stmt.values.size()) return run_block(stmt.blocks.back(), scope, out);
    return Flow::on;
  }

  Flow run_loop(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
    auto loop = std::make_shared<Loop>();
    loop->items = iterate(rt_, eval(*stmt.values[0], scope));
    if (const Expr* condition = stmt.values[1].get()) {
      std::erase_if(loop->items, [&](const Value& item) {
        const ScopePtr body = inner(scope);
        assign(*stmt.target, item, body);
        return !truthy(rt_, eval(*condition, body));
      });
    }
    if (loop->items.empty()) return run_block(stmt.blocks[1], inner(scope), out);
    Flow flow = Flow::on;
    for (; loop->index < loop->items.size() && flow != Flow::stop; ++loop->index) {
      rt_.limits.step();
      const ScopePtr body = inner(scope);
      body->set("loop", Value(std::shared_ptr<Object>(loop)));
      assign(*stmt.target, loop->items[loop->index], body);
      flow = run_block(stmt.blocks[0], body, out);
    }
    return Flow::on;
  }

  Flow run_set_block(const Stmt& stmt, const ScopePtr& scope) {
    TextBuilder text(rt_.limits);
    const Flow flow = run_block(stmt.blocks[0], inner(scope), text);
    Value value = text.value();
    if (stmt.values[0] != nullptr) value = filtered(*stmt.values[0], scope, &value);
    assign(*stmt.target, std::move(value), scope);
    return flow;
  }

  Flow run_with(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
    const ScopePtr body = inner(scope);
    for (size_t i = 0; i < stmt.values.size(); ++i)
      body->set(stmt.parameters[i], eval(*stmt.values[i], scope));
    return run_block(stmt.blocks[0], body, out);
  }

  Flow run_generation(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out) {
    TextBuilder text(rt_.limits);
    const Flow flow = run_block(stmt.blocks[0], inner(scope), text);
    JinjaText generated = text.take();
    generated.mark_generated();
    out.add(generated);
    return flow;
  }

  static Value macro_of(const Stmt& stmt, const ScopePtr& scope) {
    auto macro = std::make_shared<Macro>();
    macro->definition = &stmt;
    macro->scope = scope;
    return Value(std::shared_ptr<Object>(std::move(macro)));
  }

  void assign(const Expr& target, Value value, const ScopePtr& scope) {
    if (target.kind == ExprKind::name) {
      scope->set(target.name, std::move(value));
    } else if (target.kind == ExprKind::attribute) {
      assign_attribute(target, std::move(value), scope);
    } else {
      const std::vector<Value> items = iterate(rt_, value);
      if (items.size() != target.parts.size())
        fail("expected {} values to unpack into {} names, found {}", target.parts.size(), target.parts.size(),
             items.size());
      for (size_t i = 0; i < items.size(); ++i)
        assign(*target.parts[i], items[i], scope);
    }
  }

  void assign_attribute(const Expr& target, Value value, const ScopePtr& scope) {
    const Value object = eval(*target.parts[0], scope);
    auto* space = dynamic_cast<Namespace*>(object.object());
    if (space == nullptr) fail("attributes can only be set on a namespace, found {}", type_name(object));
    if (value.object() != nullptr) make_list({value});  // throws if the value could contain the namespace
    const auto found = std::ranges::find(space->names, target.name, &std::pair<std::string, Value>::first);
    if (found != space->names.end()) {
      found->second = std::move(value);
    } else {
      space->names.emplace_back(target.name, std::move(value));
    }
  }

  // ---- expressions ----

  Value eval(const Expr& expr, const ScopePtr& scope) {
    const Level level(level_);
    rt_.limits.step();
    switch (expr.kind) {
      case ExprKind::constant:
        return expr.constant;
      case ExprKind::name:
        return named(expr, scope);
      case ExprKind::attribute: {
        const Value object = part(expr, 0, scope);
        return get_attribute(rt_, object, expr.name);
      }
      case ExprKind::subscript: {
        const Value object = part(expr, 0, scope), key = part(expr, 1, scope);
        return get_item(rt_, object, key);
      }
      case ExprKind::slice:
        return sliced(expr, scope);
      case ExprKind::call:
        return called(expr, scope);
      case ExprKind::filter:
        return filtered(expr, scope, nullptr);
      case ExprKind::test:
        return tested(expr, scope);
      case ExprKind::conditional:
        return conditional(expr, scope);
      case ExprKind::list:
        return make_list(values(expr, 0, scope));
      case ExprKind::tuple:
        return make_list(values(expr, 0, scope), ListKind::tuple);
      case ExprKind::dict:
        return dict(expr, scope);
      default:
        return operation(expr, scope);
    }
  }

  Value operation(const Expr& expr, const ScopePtr& scope) {
    switch (expr.kind) {
      case ExprKind::negation:
        return Value(!truthy(rt_, part(expr, 0, scope)));
      case ExprKind::unary: {
        const Value value = part(expr, 0, scope);
        return expr.name == "-" ? negative(value) : negative(negative(value));
      }
      case ExprKind::binary: {
        const Value left = part(expr, 0, scope), right = part(expr, 1, scope);
        return binary(rt_, expr.name, left, right);
      }
      case ExprKind::concat:
        return concatenated(expr, scope);
      case ExprKind::comparison:
        return compared(expr, scope);
      case ExprKind::logical_and:
      case ExprKind::logical_or: {
        Value left = part(expr, 0, scope);
        return truthy(rt_, left) == (expr.kind == ExprKind::logical_or) ? left : part(expr, 1, scope);
      }
      default:
        fail_unsupported("an expression of this kind is not supported");
    }
  }

  // Evaluates a part of an expression. Errors after this evaluation are reported with the line number of the
  // whole expression.
  Value part(const Expr& expr, size_t i, const ScopePtr& scope) {
    Value value = eval(*expr.parts[i], scope);
    line_ = expr.line;
    return value;
  }
  std::vector<Value> values(const Expr& expr, size_t from, const ScopePtr& scope) {
    std::vector<Value> out;
    for (size_t i = from; i < expr.parts.size(); ++i)
      out.push_back(part(expr, i, scope));
    return out;
  }

  Value named(const Expr& expr, const ScopePtr& scope) {
    line_ = expr.line;
    for (const Scope* at = scope.get(); at != nullptr; at = at->parent.get()) {
      rt_.limits.step();
      if (const Value* found = const_cast<Scope*>(at)->find(expr.name)) return *found;
    }
    if (is_function(expr.name)) return Value(std::shared_ptr<Object>(std::make_shared<Function>(expr.name)));
    for (const char* word : {"cycler", "joiner", "lipsum"}) {
      if (expr.name == word) fail_unsupported("{} is not supported", word);
    }
    return Value::undefined(fmt::format("'{}' is undefined", expr.name));
  }

  Value sliced(const Expr& expr, const ScopePtr& scope) {
    const Value object = part(expr, 0, scope);
    Value bounds[3];
    for (size_t i = 0; i < 3; ++i) {
      if (expr.parts[i + 1] != nullptr) bounds[i] = part(expr, i + 1, scope);
    }
    return get_slice(rt_, object, bounds[0], bounds[1], bounds[2]);
  }

  Value conditional(const Expr& expr, const ScopePtr& scope) {
    if (truthy(rt_, part(expr, 0, scope))) return part(expr, 1, scope);
    if (expr.parts[2] != nullptr) return part(expr, 2, scope);
    return Value::undefined("the inline if-expression evaluated to false and no else section was defined",
                            /*lenient=*/true);
  }

  Value dict(const Expr& expr, const ScopePtr& scope) {
    std::vector<std::pair<Value, Value>> items;
    for (size_t i = 0; i < expr.parts.size(); i += 2) {
      Value key = part(expr, i, scope);
      items.emplace_back(std::move(key), part(expr, i + 1, scope));
    }
    return make_dict(rt_.limits, std::move(items));
  }

  Value concatenated(const Expr& expr, const ScopePtr& scope) {
    TextBuilder out(rt_.limits);
    for (size_t i = 0; i < expr.parts.size(); ++i)
      out.add(to_text(rt_, part(expr, i, scope)));
    return out.value();
  }

  Value compared(const Expr& expr, const ScopePtr& scope) {
    Value left = part(expr, 0, scope);
    for (size_t i = 0; i < expr.ops.size(); ++i) {
      Value right = part(expr, i + 1, scope);
      if (!holds(expr.ops[i], left, right)) return Value(false);
      left = std::move(right);
    }
    return Value(true);
  }
  bool holds(const std::string& op, const Value& left, const Value& right) {
    if (op == "in") return contains(rt_, right, left);
    if (op == "not in") return !contains(rt_, right, left);
    for (const Value* value : {&left, &right}) {
      if (value->is_refused(rt_.options.strict_undefined)) fail("{}", value->undefined_what());
    }
    if (op == "==") return equals(rt_.limits, left, right);
    if (op == "!=") return !equals(rt_.limits, left, right);
    for (const Value* value : {&left, &right}) {
      if (value->is_undefined()) fail("{}", value->undefined_what());
    }
    const bool numbers = left.is_number() && right.is_number();
    if (numbers && (left.as_double() != left.as_double() || right.as_double() != right.as_double()))
      return false;
    const int sign = compare(rt_.limits, left, right);
    if (op == "<") return sign < 0;
    if (op == "<=") return sign <= 0;
    return op == ">" ? sign > 0 : sign >= 0;
  }

  // ---- calls ----

  Arguments arguments(const Expr& expr, const ScopePtr& scope) {
    Arguments out;
    for (size_t i = 1; i < expr.parts.size(); ++i) {
      const Expr& given = *expr.parts[i];
      if (given.kind == ExprKind::unary && given.name == "*") {
        for (Value& item : iterate(rt_, part(given, 0, scope)))
          out.positional.push_back(std::move(item));
      } else {
        out.positional.push_back(eval(given, scope));
      }
    }
    for (const auto& [name, given] : expr.named) {
      const Value value = eval(*given, scope);
      if (name != "**") {
        out.named.emplace_back(name, value);
        continue;
      }
      if (value.dict() == nullptr) fail("** requires a dict, found {}", type_name(value));
      for (const auto& [key, item] : value.dict()->items)
        out.named.emplace_back(need_text(key, "argument name").text, item);
    }
    line_ = expr.line;
    return out;
  }

  Value filtered(const Expr& expr, const ScopePtr& scope, const Value* block) {
    Value value;
    if (expr.parts[0] != nullptr) {
      value = block != nullptr && expr.parts[0]->kind == ExprKind::filter
                  ? filtered(*expr.parts[0], scope, block)
                  : eval(*expr.parts[0], scope);
    } else {
      value = *block;
    }
    const Arguments given = arguments(expr, scope);
    if (value.is_refused(rt_.options.strict_undefined) && expr.name != "default" && expr.name != "d")
      fail("{}", value.undefined_what());
    return apply_filter(rt_, expr.name, value, given);
  }

  Value tested(const Expr& expr, const ScopePtr& scope) {
    const Value value = part(expr, 0, scope);
    return Value(apply_test(rt_, expr.name, value, arguments(expr, scope)));
  }

  // `caller` is the macro that a call block defines.
  Value called(const Expr& expr, const ScopePtr& scope, const Value* caller = nullptr) {
    const Expr& callee = *expr.parts[0];
    const auto all_arguments = [&] {
      Arguments given = arguments(expr, scope);
      if (caller != nullptr) given.named.emplace_back("caller", *caller);
      return given;
    };
    if (callee.kind == ExprKind::attribute) {
      const Value object = part(callee, 0, scope);
      if (object.is_undefined()) fail("{}", object.undefined_what());
      const Arguments given = all_arguments();
      if (auto* loop = dynamic_cast<Loop*>(object.object())) return call_loop(*loop, callee.name, given);
      if (object.object() == nullptr) return call_method(rt_, object, callee.name, given);
      return call(get_attribute(rt_, object, callee.name), given, callee.name);
    }
    const Value function = part(expr, 0, scope);
    return call(function, all_arguments(), callee.name);
  }

  Value call(const Value& function, const Arguments& given, const std::string& name) {
    if (function.is_undefined()) fail("{}", function.undefined_what());
    if (const auto* macro = dynamic_cast<const Macro*>(function.object())) return call_macro(*macro, given);
    if (const auto* builtin = dynamic_cast<const Function*>(function.object()))
      return call_function(rt_, builtin->name, given);
    fail("{} has the type {} and cannot be called", name.empty() ? "the expression" : name,
         type_name(function));
  }

  Value call_loop(Loop& loop, const std::string& name, const Arguments& given) {
    if (name == "changed") {
      const Value values = make_list(given.positional, ListKind::tuple);
      const bool changed = !loop.last_changed || !equals(rt_.limits, *loop.last_changed, values);
      loop.last_changed = values;
      return Value(changed);
    }
    if (name != "cycle") fail_unsupported("loop.{} is not supported", printable_text(name, 32));
    if (given.positional.empty()) fail("loop.cycle: expected at least one value");
    return given.positional[loop.index % given.positional.size()];
  }

  // Assigns arguments to the parameters and special names of a macro, like Macro.__call__ of Jinja.
  void bind_arguments(const Stmt& stmt, const Arguments& given, Scope& body) {
    const size_t n = stmt.parameters.size(), positional = std::min(given.positional.size(), n);
    for (size_t i = 0; i < positional; ++i)
      body.set(stmt.parameters[i], given.positional[i]);
    std::vector<std::pair<std::string, Value>> named = given.named;
    const auto take = [&](const std::string& name) -> std::optional<Value> {
      const auto found = std::ranges::find(named, name, &std::pair<std::string, Value>::first);
      if (found == named.end()) return std::nullopt;
      Value value = std::move(found->second);
      named.erase(found);
      return value;
    };
    bool has_caller =
        positional == n && std::ranges::find(stmt.parameters, "caller") != stmt.parameters.end();
    for (size_t i = positional; i < n; ++i) {
      has_caller = has_caller || stmt.parameters[i] == "caller";
      if (auto value = take(stmt.parameters[i])) body.set(stmt.parameters[i], *std::move(value));
    }
    if (stmt.special.caller && !has_caller)
      body.set("caller", take("caller").value_or(Value::undefined("No caller defined")));
    if (stmt.special.kwargs) {
      std::vector<std::pair<Value, Value>> items;
      for (auto& [name, value] : named)
        items.emplace_back(Value(std::string_view(name)), std::move(value));
      body.set("kwargs", make_dict(rt_.limits, std::move(items)));
    } else if (!named.empty()) {
      fail("the macro {} has no parameter {}, or the parameter is given twice", stmt.name,
           printable_text(named[0].first, 32));
    }
    const auto rest = given.positional.begin() + static_cast<std::ptrdiff_t>(positional);
    if (stmt.special.varargs) {
      body.set("varargs", make_list({rest, given.positional.end()}, ListKind::tuple));
    } else if (rest != given.positional.end()) {
      fail("the macro {} takes at most {} arguments, found {}", stmt.name, n, given.positional.size());
    }
  }

  Value call_macro(const Macro& macro, const Arguments& given) {
    const Stmt& stmt = *macro.definition;
    const ScopePtr around = macro.scope.lock();
    if (around == nullptr) fail("the macro {} is called outside the block that defines it", stmt.name);
    const ScopePtr body = inner(around);
    bind_arguments(stmt, given, *body);
    const size_t without_default = stmt.parameters.size() - stmt.values.size();
    for (size_t i = 0; i < stmt.parameters.size(); ++i) {
      const std::string& name = stmt.parameters[i];
      if (body->find(name) != nullptr) continue;
      body->set(name, i < without_default
                          ? Value::undefined(fmt::format("parameter '{}' was not provided", name))
                          : eval(*stmt.values[i - without_default], body));
    }
    TextBuilder out(rt_.limits);
    run_block(stmt.blocks[0], body, out);
    return out.value();
  }

  const Program& program_;
  Runtime rt_;
  ScopePtr top_;
  int line_ = 1, level_ = 0;
};

}  // namespace
}  // namespace jinja

JinjaTemplate::JinjaTemplate(std::string_view source, const JinjaOptions& options, std::string name) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  if (source.size() > kMostBytes)
    fail("{}: expected a template of at most {} bytes, found {}", name, kMostBytes, source.size());
  if (const auto at = first_invalid_utf8(source)) fail("{}: byte {} is not valid UTF-8", name, *at);
  try {
    program_ =
        std::make_shared<const jinja::Program>(jinja::Program{name, options, jinja::parse(source, options)});
  } catch (const Error& e) {
    fail_because(e, "{}, {}", name, e.what());
  }
}

std::string JinjaTemplate::render(const nlohmann::ordered_json& context) const {
  return render_marked(context).text;
}

std::string JinjaTemplate::render(const nlohmann::json& context) const {
  return jinja::Interpreter(*program_, jinja::context_of(context)).run().text;
}

JinjaText JinjaTemplate::render_marked(const nlohmann::ordered_json& context) const {
  return jinja::Interpreter(*program_, jinja::context_of(context)).run();
}

}  // namespace gpt
