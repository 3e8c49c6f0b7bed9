#include "base/error.h"

namespace gpt::detail {

void assertion_failed(const char* condition, const char* file, int line) {
  throw std::logic_error(
      fmt::format("internal error: {} does not hold ({}:{}); please report this", condition, file, line));
}

}  // namespace gpt::detail
