#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/datetime.h"
#include "text/jinja/value.h"

namespace gpt::jinja {

// The names of one scope of a template: those of the scope around it are seen too.
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
  std::optional<Value> last_changed;  // the arguments of the last call of loop.changed
  const char* kind() const override { return "loop"; }
};

// A macro sees the scope that it was defined in, as long as that lives.
struct Macro : Object {
  const Stmt* definition = nullptr;
  std::weak_ptr<Scope> scope;
  const char* kind() const override { return "macro"; }
};

// A function of Jinja or a method, as a value.
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
