#include "model/kv_cache.h"

#include <algorithm>

#include "tensor/device.h"

namespace gpt {
namespace {

constexpr int64_t kBlock = KvCache::kBlock;

int64_t blocks_for(int64_t tokens) {
  return (tokens + kBlock - 1) / kBlock;
}

int64_t checked_blocks(const KvCache::Options& o) {
  const int64_t one = KvCache::blocks_of_sequence(o.capacity);
  int64_t blocks = blocks_for(o.tokens);
  if (o.tokens == 0 && __builtin_mul_overflow(one, o.slots, &blocks)) blocks = INT64_MAX;
  if (blocks > INT32_MAX) {
    fail_memory(
        "key/value cache: {} sequences of {} tokens are too many for this machine; use a smaller context",
        o.slots, o.capacity);
  }
  if (blocks < one) {
    fail_usage("key/value cache: expected room for one sequence, {} tokens, found {}; use a smaller context",
               one * kBlock, o.tokens);
  }
  return blocks;
}

}  // namespace

// A step starts with the last `capacity` tokens at most and ends at the end of its block at the latest
// (Inference::room).
int64_t KvCache::blocks_of_sequence(int64_t capacity) {
  return blocks_for(capacity) + 1;
}

int64_t KvCache::bytes(const ModelConfig& c, int64_t tokens, DType dtype) {
  int64_t total = 0;
  for (const LayerConfig& layer : layer_configs(c)) {
    if (dtype == DType::q4_0 && layer.head_dim % block_size(dtype).elements != 0) {
      fail_usage(
          "key/value cache: q4_0 has blocks of {} elements; expected a head_dim that is a multiple of that, "
          "found {}; use int8",
          block_size(dtype).elements, layer.head_dim);
    }
    const int64_t scale_bytes = dtype == DType::i8 ? sizeof(float) : 0;  // per head
    const int64_t head_bytes = row_bytes(dtype, layer.head_dim) + scale_bytes;
    const Shape shape{2, blocks_for(tokens) * kBlock, layer.n_kv_head, head_bytes};
    if (__builtin_add_overflow(total, checked_size(shape, "key/value cache"), &total)) {
      fail_memory(
          "key/value cache: {} tokens in {} layers are too many for this machine; use a smaller context",
          tokens, c.n_layer);
    }
  }
  return total;
}

KvCache::KvCache(const ModelConfig& c, const Options& o, Device* device)
    : capacity_(o.capacity), pool_(0), slots_(static_cast<size_t>(o.slots)) {
  const int64_t blocks = checked_blocks(o);
  const int64_t rows = blocks * kBlock;
  buffer_ = Buffer(static_cast<size_t>(bytes(c, rows, o.dtype)), "the key/value cache", device);
  pool_ = BlockPool(blocks);
  for (Slot& slot : slots_)
    slot.table.reserve(static_cast<size_t>(blocks_of_sequence(capacity_)));
  int64_t next = 0;
  const auto place = [&](std::vector<TensorView>& views, DType dtype, int64_t columns) {
    views.push_back(buffer_.view(next, dtype, Shape{rows, columns}));
    next += rows * row_bytes(dtype, columns);
  };
  const std::vector<LayerConfig> layers = layer_configs(c);
  for (const LayerConfig& layer : layers) {
    place(keys_, o.dtype, layer.kv_dim());
    place(values_, o.dtype, layer.kv_dim());
  }
  key_scales_.resize(keys_.size());
  value_scales_.resize(keys_.size());
  if (o.dtype != DType::i8) return;
  key_scales_.clear();
  value_scales_.clear();
  for (const LayerConfig& layer : layers) {
    place(key_scales_, DType::f32, layer.n_kv_head);
    place(value_scales_, DType::f32, layer.n_kv_head);
  }
}

int64_t KvCache::row(int slot, int64_t t) const {
  return block_of(at(slot), t) * kBlock + t % kBlock;
}

uint64_t KvCache::last_serial(const Slot& s) const {
  return s.table.empty() ? s.root : pool_.serial(s.table.back());
}

// Whether the next token goes to a block that others hold too.
bool KvCache::last_is_shared(const Slot& s) const {
  return s.length % kBlock != 0 && pool_.holders(block_of(s, s.length)) > 1;
}

bool KvCache::reserve(int slot, int64_t n) {
  Slot& s = at(slot);
  release_unseen(s);
  const bool shared = last_is_shared(s);
  const int64_t more = blocks_for(s.length + n) - s.end();
  if (std::max<int64_t>(more, 0) + shared > pool_.available()) return false;
  if (shared) {
    own_last(s);
  } else if (s.length % kBlock != 0) {  // its block may hold tokens that were taken back
    pool_.truncate(block_of(s, s.length), s.length % kBlock);
  }
  for (int64_t i = 0; i < more; ++i)
    s.table.push_back(pool_.take(last_serial(s)));
  return true;
}

void KvCache::append(int slot, std::span<const int32_t> tokens) {
  Slot& s = at(slot);
  for (const int32_t token : tokens) {
    pool_.append(block_of(s, s.length), token);
    ++s.length;
  }
}

bool KvCache::truncate(int slot, int64_t n) {
  Slot& s = at(slot);
  GPT_ASSERT(n >= 0 && n <= s.length);
  if (s.first > 0 && s.first * kBlock > n - capacity_) return false;
  s.length = n;
  release_unused(s);
  return true;
}

// Later blocks first: the beginning of a sequence is what others most likely share, and is of no use
// without what comes before it.
void KvCache::reset(int slot, uint64_t root) {
  Slot& s = at(slot);
  for (size_t i = s.table.size(); i-- > 0;)
    pool_.release(s.table[i]);
  s.table.clear();
  s.length = s.first = 0;
  s.root = root;
}

void KvCache::copy(int from, int to) {
  if (from == to) return;
  reset(to, at(from).root);
  release_unused(at(from));
  at(to).length = at(from).length;
  at(to).first = at(from).first;
  at(to).table.assign(at(from).table.begin(), at(from).table.end());
  for (const int32_t block : at(to).table)
    pool_.hold(block);
}

// Blocks that no later token sees. The newest token's block always stays: it is the next one's parent.
void KvCache::release_unseen(Slot& s) {
  while ((s.first + 1) * kBlock <= s.length - capacity_) {
    pool_.release(s.table.front());
    s.table.erase(s.table.begin());
    ++s.first;
  }
}

// Blocks that no token of the slot is in.
void KvCache::release_unused(Slot& s) {
  while (s.end() > blocks_for(s.length)) {
    pool_.release(s.table.back());
    s.table.pop_back();
  }
}

// The last tokens of a slot move to a block of its own.
void KvCache::own_last(Slot& s) {
  const int32_t shared = s.table.back();
  const int32_t own = pool_.take(pool_.parent(shared));
  copy_rows(shared, own, s.length % kBlock);
  pool_.release(shared);
  s.table.back() = own;
}

void KvCache::copy_rows(int32_t from, int32_t to, int64_t n) {
  for (const std::vector<TensorView>* views : {&keys_, &values_, &key_scales_, &value_scales_}) {
    for (const TensorView& v : *views) {
      if (v) copy_elements(v.slice_rows(from * kBlock, n), v.slice_rows(to * kBlock, n));
    }
  }
  pool_.append_from(from, to, n);
}

int64_t KvCache::reuse(int slot, std::span<const int32_t> tokens) {
  Slot& s = at(slot);
  GPT_ASSERT(s.length == 0 && !tokens.empty());
  reset(slot, s.root);
  std::span<const int32_t> rest = tokens.first(tokens.size() - 1);
  while (s.length % kBlock == 0) {
    const uint64_t parent = last_serial(s);
    const auto [block, n] = pool_.find(parent, rest.first(std::min<size_t>(rest.size(), kBlock)));
    if (block == BlockPool::kNone) break;
    // A block that is not full belongs to the one that writes it.
    const bool copied = n < pool_.filled(block) || (n < kBlock && pool_.holders(block) > 0);
    pool_.hold(block);
    int32_t mine = block;
    if (copied) {
      mine = pool_.take(parent);
      if (mine != BlockPool::kNone) copy_rows(block, mine, n);
      pool_.release(block);
      if (mine == BlockPool::kNone) break;
    }
    s.table.push_back(mine);
    s.length += n;
    rest = rest.subspan(static_cast<size_t>(n));
  }
  return s.length;
}

KvCache::Prospect KvCache::prospect(std::span<const int32_t> tokens, uint64_t root) const {
  Prospect result{0, blocks_for(std::ssize(tokens))};
  std::span<const int32_t> rest = tokens.first(tokens.size() - 1);
  uint64_t parent = root;
  while (result.known % kBlock == 0) {
    const auto [block, n] = pool_.find(parent, rest.first(std::min<size_t>(rest.size(), kBlock)));
    if (block == BlockPool::kNone) break;
    result.known += n;
    if (n == kBlock && pool_.holders(block) > 0) --result.blocks;  // shared with those that hold it
    parent = pool_.serial(block);
    rest = rest.subspan(static_cast<size_t>(n));
  }
  return result;
}

}  // namespace gpt
