#include <fmt/format.h>

#include "op/op_case.h"

namespace gpt::testing {
namespace {

GPT_OP_CASES(add) {
  for (int64_t cols : {0, 1, 15, 33, 1000}) {
    for (int64_t rows : {0, 1, 5, 40}) {
      list.add(fmt::format("{}x{}", rows, cols), [=](OpFrame& f) {
        const TensorView a = f.input({rows, cols}, with_specials(normal_values()), 3);
        const TensorView b = f.input({rows, cols}, normal_values());
        f.run(&KernelTable::add, {.out = f.output({rows, cols}, relative(1), 5), .a = a, .b = b});
      });
    }
  }
  list.add("in place", [](OpFrame& f) {
    const TensorView a = f.inout({30, 700}, normal_values(), relative(1));
    f.run(&KernelTable::add, {.out = a, .a = a, .b = a});
  });
}

}  // namespace
}  // namespace gpt::testing
