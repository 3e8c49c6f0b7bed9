#include "chat/chat_rows.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/error.h"
#include "base/ranges.h"
#include "base/rng.h"

namespace gpt {
namespace {

// Numbers of the random streams that are derived from a seed. kHeldOut selects the held-out examples, kEpoch
// shuffles an epoch, and kPass + i shuffles a pass over part i.
constexpr uint64_t kHeldOut = uint64_t{1} << 40, kEpoch = kHeldOut + 1, kPass = kHeldOut + 2;

std::vector<size_t> shuffled(size_t n, uint64_t seed, uint64_t step, uint64_t use) {
  RandomStream random(seed, RandomSite::data, step, use);
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i)
    order[i] = i;
  for (size_t i = n; i > 1; --i)
    std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

// Returns the number of conversations that an epoch takes from each part.
std::vector<size_t> epoch_counts(std::span<const ChatPart> parts) {
  const auto weight_of = [](const ChatPart& part) {
    if (part.train.empty()) return 0.0;
    return part.weight > 0 ? part.weight : static_cast<double>(part.train.size());
  };
  const bool own = std::ranges::all_of(parts, [](const ChatPart& part) { return part.weight == 0; });
  const double weights = sum_of(parts, weight_of);
  const auto total =
      static_cast<double>(sum_of(parts, [](const ChatPart& part) { return part.train.size(); }));
  return transformed(parts, [&](const ChatPart& part) {
    if (own || part.train.empty()) return part.train.size();
    return std::max<size_t>(1, static_cast<size_t>(std::llround(total * weight_of(part) / weights)));
  });
}

}  // namespace

ChatPart make_chat_part(std::string name, double weight, std::vector<ChatExample> examples, double held_out,
                        uint64_t seed) {
  if (!(held_out >= 0 && held_out < 1))
    fail_parameter("held_out", "expected a fraction of at least 0 and below 1, found {}", held_out);
  if (!(weight >= 0 && weight < kMostPartWeight))
    fail_parameter("weight", "expected a number of at least 0 and below {:g} for {}, found {}",
                   kMostPartWeight, name, weight);
  const size_t n = examples.size();
  size_t held = static_cast<size_t>(std::llround(static_cast<double>(n) * held_out));
  if (held_out > 0 && n >= 2) held = std::clamp<size_t>(held, 1, n - 1);
  std::vector<bool> is_held(n);
  const std::vector<size_t> order = shuffled(n, seed, 0, kHeldOut);
  for (size_t i = 0; i < held; ++i)
    is_held[order[i]] = true;
  ChatPart part{std::move(name), weight, {}, {}};
  for (size_t i = 0; i < n; ++i)
    (is_held[i] ? part.held_out : part.train).push_back(std::move(examples[i]));
  return part;
}

std::vector<const ChatExample*> chat_epoch(std::span<const ChatPart> parts, uint64_t seed, int64_t epoch) {
  const std::vector<size_t> counts = epoch_counts(parts);
  std::vector<const ChatExample*> seen;
  for (size_t p = 0; p < parts.size(); ++p) {
    const std::vector<ChatExample>& train = parts[p].train;
    const size_t first = counts[p] * static_cast<size_t>(epoch);
    std::vector<size_t> order;
    for (size_t at = first; at < first + counts[p]; ++at) {
      const uint64_t pass = at / train.size();
      if (order.empty() || at % train.size() == 0) order = shuffled(train.size(), seed, pass, kPass + p);
      seen.push_back(&train[order[at % train.size()]]);
    }
  }
  if (seen.empty()) fail("there are no conversations to train on");
  std::vector<const ChatExample*> out;
  for (const size_t i : shuffled(seen.size(), seed, static_cast<uint64_t>(epoch), kEpoch))
    out.push_back(seen[i]);
  return out;
}

namespace {

// Appends all ids of a conversation except the last id, which is only a target.
void append(ChatRow& row, const ChatExample& example) {
  for (size_t i = 0; i + 1 < example.ids.size(); ++i) {
    const bool counts = example.weights[i + 1] != 0;
    row.ids.push_back(example.ids[i]);
    row.targets.push_back(counts ? example.ids[i + 1] : -1);
    row.weights.push_back(counts ? 1.0f : 0.0f);
    row.starts.push_back(i == 0 ? 1 : 0);
  }
}

void pad(ChatRow& row, size_t n_ctx) {
  const size_t begin = row.ids.size();
  if (begin == n_ctx) return;
  row.ids.resize(n_ctx, 0);
  row.targets.resize(n_ctx, -1);
  row.weights.resize(n_ctx, 0.0f);
  row.starts.resize(n_ctx, 0);
  row.starts[begin] = 1;
}

}  // namespace

std::vector<ChatRow> pack_chat_rows(std::span<const ChatExample* const> examples, int64_t n_ctx,
                                    int64_t open) {
  if (n_ctx < 1) fail_parameter("n_ctx", "expected 1 or more, found {}", n_ctx);
  const auto room = static_cast<size_t>(n_ctx);
  std::vector<ChatRow> rows;
  std::deque<ChatRow> opened;
  const auto close_first = [&] {
    pad(opened.front(), room);
    rows.push_back(std::move(opened.front()));
    opened.pop_front();
  };
  for (const ChatExample* example : examples) {
    const size_t n = example->ids.empty() ? 0 : example->ids.size() - 1;
    if (n > room)
      fail("a conversation has {} tokens, but a row has room for {}", example->ids.size(), room + 1);
    if (n == 0) continue;
    auto row = std::ranges::find_if(opened, [&](const ChatRow& r) { return r.ids.size() + n <= room; });
    if (row == opened.end()) {
      if (std::ssize(opened) >= std::max<int64_t>(open, 1)) close_first();
      opened.emplace_back();
      row = opened.end() - 1;
    }
    append(*row, *example);
  }
  while (!opened.empty())
    close_first();
  return rows;
}

}  // namespace gpt
