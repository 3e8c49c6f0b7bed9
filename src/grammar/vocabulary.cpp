#include "grammar/vocabulary.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "text/tokenizer.h"

namespace gpt::grammar {
namespace {

constexpr size_t kLongestToken = 4096;  // in bytes; longer tokens are not allowed in constrained text

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  GPT_ASSERT(tokens_.size() < static_cast<size_t>(std::numeric_limits<int32_t>::max()));
  std::vector<int32_t> order;
  for (int32_t id = 0; id < size(); ++id) {
    if (tokens_[static_cast<size_t>(id)].size() > kLongestToken) tokens_[static_cast<size_t>(id)].clear();
    if (!tokens_[static_cast<size_t>(id)].empty()) order.push_back(id);
  }
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return std::pair(bytes_of(a), a) < std::pair(bytes_of(b), b); });
  nodes_.push_back({0, 0, 0, 0});
  std::vector<size_t> path{0};  // nodes on the path to the previous token
  for (const int32_t id : order) {
    const std::string_view bytes = bytes_of(id);
    longest_ = std::max(longest_, bytes.size());
    size_t shared = 0;
    while (shared + 1 < path.size() && shared < bytes.size() &&
           nodes_[path[shared + 1]].byte == static_cast<uint8_t>(bytes[shared]))
      ++shared;
    for (; path.size() > shared + 1; path.pop_back())
      nodes_[path.back()].end = static_cast<int32_t>(nodes_.size());
    for (size_t i = shared; i < bytes.size(); ++i) {
      path.push_back(nodes_.size());
      nodes_.push_back({0, static_cast<int32_t>(ids_.size()), static_cast<uint16_t>(i + 1),
                        static_cast<uint8_t>(bytes[i])});
    }
    ids_.push_back(id);
  }
  for (const size_t node : path)
    nodes_[node].end = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({0, static_cast<int32_t>(ids_.size()), 0, 0});
}

int32_t Vocabulary::child(int32_t node, uint8_t byte) const {
  const int32_t end = nodes_[static_cast<size_t>(node)].end;
  for (int32_t at = node + 1; at < end; at = nodes_[static_cast<size_t>(at)].end)
    if (nodes_[static_cast<size_t>(at)].byte == byte) return at;
  return -1;
}

std::shared_ptr<const Vocabulary> make_vocabulary(const Tokenizer& tokenizer, int64_t vocab_size) {
  const SpecialIds special = tokenizer.special_ids();
  std::vector<std::string> tokens(static_cast<size_t>(std::min(tokenizer.vocab_size(), vocab_size)));
  for (int32_t id = 0; id < std::ssize(tokens); ++id) {
    if (tokenizer.is_text(id) && id != special.bos && id != special.eos && id != special.unk &&
        id != special.pad)
      tokens[static_cast<size_t>(id)] = tokenizer.token_bytes(id);
  }
  return std::make_shared<const Vocabulary>(std::move(tokens));
}

}  // namespace gpt::grammar
