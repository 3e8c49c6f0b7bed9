#include "serve/openai/truncation.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace gpt::serve {
namespace {

using Ordered = nlohmann::ordered_json;

bool has_role(const Ordered& message, const char* role) {
  return message["role"] == role;
}

// Returns the indices at which turns begin: the first message after the system messages, and each user
// message that follows a message of a different role.
std::vector<size_t> turn_starts(const Ordered& messages) {
  size_t first = 0;
  while (first < messages.size() &&
         (has_role(messages[first], "system") || has_role(messages[first], "developer")))
    ++first;
  std::vector<size_t> starts = {first};
  for (size_t i = first + 1; i < messages.size(); ++i) {
    if (has_role(messages[i], "user") && !has_role(messages[i - 1], "user")) starts.push_back(i);
  }
  return starts;
}

}  // namespace

std::optional<Truncation> Truncation::read(const Fields& fields, int64_t n_ctx) {
  if (fields.choice("truncation", {"auto", "disabled"}).value_or("disabled") == "disabled")
    return std::nullopt;
  double room = static_cast<double>(n_ctx);
  for (const char* name : {"max_tokens", "max_completion_tokens"})
    room = std::min(room, fields.number(name, 0, INFINITY).value_or(room));
  return Truncation(n_ctx, static_cast<int64_t>(room));
}

// Uses bisection, because the number of ids decreases with the number of removed turns.
ShorterConversation forget_turns(const Ordered& conversation, const Truncation& truncation,
                                 const std::function<std::vector<int32_t>(const Ordered&)>& encode) {
  const std::vector<size_t> starts = turn_starts(conversation["messages"]);
  const auto without = [&](size_t turns) {
    Ordered rest = conversation;
    Ordered& messages = rest["messages"];
    messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(starts.front()),
                   messages.begin() + static_cast<std::ptrdiff_t>(starts[turns]));
    return ShorterConversation{encode(rest), static_cast<int64_t>(starts[turns] - starts.front())};
  };
  size_t low = 0, high = starts.size() - 1;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (std::ssize(without(middle).ids) <= truncation.kept_tokens()) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return without(high);
}

int64_t forget_tokens(std::vector<int32_t>& ids, const Truncation& truncation, int64_t first) {
  const int64_t removed = std::ssize(ids) - truncation.kept_tokens();
  if (removed <= 0) return 0;
  const auto begin = ids.begin() + (ids.front() == first ? 1 : 0);
  ids.erase(begin, begin + removed);
  return removed;
}

}  // namespace gpt::serve
