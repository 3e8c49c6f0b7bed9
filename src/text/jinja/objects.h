#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/datetime.h"
#include "text/jinja/value.h"

namespace gpt::jinja {

// The variables of one scope of a template. The variables of enclosing scopes are visible too.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> names;

  Value* find(const std::string& name);
  void set(const std::string& name, Value value);
};

struct Namespace : Object {
  std::vector<std::pair<std::string, Value>> names;
  const char* kind() const override { return "namespace"; }
};

// The variable `loop` of a for statement.
struct Loop : Object {
  std::vector<Value> items;
  size_t index = 0;
  std::optional<Value> last_changed;  // arguments of the last call of loop.changed
  const char* kind() const override { return "loop"; }
};

// A macro, which can access the scope where it was defined as long as that scope exists.
struct Macro : Object {
  const Stmt* definition = nullptr;
  std::weak_ptr<Scope> scope;
  const char* kind() const override { return "macro"; }
};

// A function or method of Jinja, used as a value.
struct Function : Object {
  explicit Function(std::string called) : name(std::move(called)) {}
  std::string name;
  const char* kind() const override { return "function"; }
};

struct Datetime : Object {
  explicit Datetime(const PythonDatetime& value) : at(value) {}
  PythonDatetime at;
  const char* kind() const override { return "datetime.datetime"; }
};

}  // namespace gpt::jinja
