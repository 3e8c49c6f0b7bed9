#pragma once

#include <algorithm>
#include <string_view>

namespace gpt {

// Defines `visit` for an argument struct. Code that must process every field, such as pointer checks or
// copies into a queue, calls visit(args, fn), which calls fn(name, field) for each field. The macro must list
// all fields; otherwise it does not compile.
#define GPT_FIELDS(...)                          \
  template <class Args, class F>                 \
  static void visit(Args& args, F&& fn) {        \
    auto& [__VA_ARGS__] = args;                  \
    visit_fields(#__VA_ARGS__, fn, __VA_ARGS__); \
  }

// Calls fn(name, field) for each field. names: the field names, separated by commas.
template <class F, class... Field>
void visit_fields(std::string_view names, F&& fn, Field&... fields) {
  const auto next_name = [&] {
    const size_t comma = std::min(names.find(','), names.size());
    const std::string_view name = names.substr(0, comma);
    names.remove_prefix(std::min(comma + 2, names.size()));
    return name;
  };
  (fn(next_name(), fields), ...);
}

}  // namespace gpt
