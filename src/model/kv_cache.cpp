#include "model/kv_cache.h"

#include <algorithm>
#include <functional>

#include "tensor/device.h"

namespace gpt {
namespace {

constexpr int64_t kBlock = KvCache::kBlock;

int64_t blocks_for(int64_t tokens) {
  return (tokens + kBlock - 1) / kBlock;
}

// Returns the index of the first page that contains a token that token n attends to.
int64_t first_seen(int64_t n, int64_t window) {
  return std::max<int64_t>(0, n - window) / kBlock;
}

// Returns the number of pages of class 0.
int64_t pool_blocks(const KvCache::Options& o) {
  int64_t blocks = blocks_for(o.tokens);
  const int64_t one = KvCache::blocks_of_sequence(o.capacity);
  if (o.tokens == 0 && __builtin_mul_overflow(one, o.slots, &blocks)) blocks = INT64_MAX;
  if (blocks > INT32_MAX) {
    fail_memory("KV cache: {} sequences of {} tokens are too many for this machine; use a smaller context",
                o.slots, o.capacity);
  }
  return blocks;
}

int64_t checked_blocks(const KvCache::Options& o) {
  const int64_t one = KvCache::blocks_of_sequence(o.capacity), blocks = pool_blocks(o);
  if (blocks < one) {
    fail_usage(
        "KV cache: expected space for at least one sequence of {} tokens, found space for {}; use a smaller "
        "context",
        one * kBlock, o.tokens);
  }
  return blocks;
}

// Returns the size in bytes of a layer's keys and values.
int64_t layer_bytes(const LayerConfig& layer, int64_t blocks, DType dtype) {
  if (dtype == DType::q4_0 && layer.head_dim % block_size(dtype).elements != 0) {
    fail_usage(
        "KV cache: expected a head_dim that is a multiple of {}, the block size of q4_0, found {}; use int8",
        block_size(dtype).elements, layer.head_dim);
  }
  const int64_t scale_bytes = dtype == DType::i8 ? sizeof(float) : 0;  // one scale per head
  const int64_t head_bytes = row_bytes(dtype, layer.head_dim) + scale_bytes;
  const Shape shape{2, blocks * kBlock, layer.projected_kv_heads(), head_bytes};
  return checked_size(shape, "KV cache");
}

void add_bytes(int64_t& total, int64_t bytes, int64_t tokens, size_t layers) {
  if (__builtin_add_overflow(total, bytes, &total)) {
    fail_memory("KV cache: {} tokens in {} layers are too many for this machine; use a smaller context",
                tokens, layers);
  }
}

}  // namespace

// The window classes of a model, and the pool size of each class.
struct KvCache::Layout {
  Layout(const std::vector<LayerConfig>& layers, const Options& o, int64_t blocks_of_first);

  std::vector<WindowClass> classes;
  std::vector<size_t> class_of;  // class of each layer
  std::vector<int64_t> most;     // maximum number of pages of a sequence, by class
  std::vector<int64_t> blocks;   // number of pages in the pool, by class
};

// If several layers read the keys and values of one layer, the longest window of these layers applies to all
// of them.
KvCache::Layout::Layout(const std::vector<LayerConfig>& layers, const Options& o, int64_t blocks_of_first) {
  std::vector<int64_t> windows(layers.size());
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const int64_t window = layers[layer].window;
    int64_t& longest = windows[kv_owner(layers, layer)];
    longest = std::max(longest, window > 0 ? std::min(window, o.capacity) : o.capacity);
  }
  std::vector<int64_t> distinct;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    windows[layer] = windows[kv_owner(layers, layer)];
    distinct.push_back(windows[layer]);
  }
  std::ranges::sort(distinct, std::greater());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.empty()) distinct.push_back(o.capacity);
  const int64_t step = o.step > 0 ? o.step : o.capacity;
  for (const int64_t window : distinct) {
    const bool first = classes.empty();
    classes.push_back({.window = first ? o.capacity : window, .spare = first ? 0 : kBlock});
    // The first and the last token may be in the middle of a page, which takes one extra page.
    most.push_back(first ? blocks_of_sequence(o.capacity)
                         : std::min(most.front(), blocks_for(window + kBlock + step) + 1));
    int64_t all = blocks_of_first;
    if (!first && !__builtin_mul_overflow(most.back(), int64_t{o.slots}, &all))
      all = std::min(all, blocks_of_first);
    blocks.push_back(all);
  }
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const auto found = static_cast<size_t>(std::ranges::find(distinct, windows[layer]) - distinct.begin());
    class_of.push_back(found);
    if (layers[layer].owns_kv()) classes[found].layers.push_back(layer);
  }
}

// A step starts with at most the last `capacity` tokens, and ends no later than the end of its current page
// (see Inference::room).
int64_t KvCache::blocks_of_sequence(int64_t capacity) {
  return blocks_for(capacity) + 1;
}

int64_t KvCache::bytes(const ModelConfig& c, int64_t tokens, DType dtype) {
  int64_t total = 0;
  const std::vector<LayerConfig> layers = layer_configs(c);
  for (const LayerConfig& layer : layers)
    add_bytes(total, layer_bytes(layer, blocks_for(tokens), dtype), tokens, layers.size());
  return total;
}

int64_t KvCache::bytes(const ModelConfig& c, const Options& o) {
  const std::vector<LayerConfig> layers = layer_configs(c);
  const Layout layout(layers, o, pool_blocks(o));
  int64_t total = 0;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const int64_t blocks = layout.blocks[layout.class_of[layer]];
    add_bytes(total, layer_bytes(layers[layer], blocks, o.dtype), blocks * kBlock, layers.size());
    if (const int64_t width = layers[layer].slot_state; width > 0)
      add_bytes(total, (o.slots + 1) * width * int64_t{sizeof(float)}, blocks * kBlock, layers.size());
  }
  return total;
}

int64_t KvCache::tokens_within(const ModelConfig& c, Options o, int64_t most_bytes) {
  int64_t low = 0, high = std::min<int64_t>(o.slots * blocks_of_sequence(o.capacity), INT32_MAX);
  while (low < high) {
    const int64_t middle = high - (high - low) / 2;
    o.tokens = middle * kBlock;
    if (bytes(c, o) <= most_bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low * kBlock;
}

KvCache::KvCache(const ModelConfig& c, const Options& o, Device* device)
    : capacity_(o.capacity), step_(o.step > 0 ? o.step : o.capacity), slots_(static_cast<size_t>(o.slots)) {
  const std::vector<LayerConfig> layers = layer_configs(c);
  Layout layout(layers, o, checked_blocks(o));
  buffer_ = Buffer(static_cast<size_t>(bytes(c, o)), "the KV cache", device);
  classes_ = std::move(layout.classes);
  class_of_ = std::move(layout.class_of);
  for (size_t k = 0; k < classes_.size(); ++k)
    classes_[k].pool = BlockPool(layout.blocks[k]);
  for (Slot& slot : slots_) {
    slot.tables.resize(classes_.size());
    for (size_t k = 0; k < classes_.size(); ++k)
      slot.tables[k].blocks.reserve(static_cast<size_t>(layout.most[k]));
  }
  int64_t next = 0;
  const auto place = [&](std::vector<TensorView>& views, size_t layer, DType dtype, int64_t columns) {
    TensorView& view = views.emplace_back();
    if (!layers[layer].owns_kv()) return;
    const int64_t rows = classes_[class_of_[layer]].pool.size() * kBlock;
    view = buffer_.view(next, dtype, Shape{rows, columns});
    next += rows * row_bytes(dtype, columns);
  };
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    place(keys_, layer, o.dtype, layers[layer].kv_dim());
    place(values_, layer, o.dtype, layers[layer].kv_dim());
  }
  if (o.dtype == DType::i8) {
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      place(key_scales_, layer, DType::f32, layers[layer].n_kv_head);
      place(value_scales_, layer, DType::f32, layers[layer].n_kv_head);
    }
  }
  key_scales_.resize(keys_.size());
  value_scales_.resize(keys_.size());
  if (std::ranges::all_of(layers, [](const LayerConfig& layer) { return layer.slot_state == 0; })) return;
  for (const LayerConfig& layer : layers) {
    TensorView& view = states_.emplace_back();
    if (layer.slot_state == 0) continue;
    view = buffer_.view(next, DType::f32, Shape{slots() + 1, layer.slot_state});
    next += view.size() * int64_t{sizeof(float)};
  }
}

TensorView KvCache::state(int64_t layer) const {
  if (states_.empty() || !states_[static_cast<size_t>(layer)]) return {};
  return states_[static_cast<size_t>(layer)].slice_rows(0, slots());
}

// Copies the states of a slot to another slot. The row with index slots() contains the cleared state.
void KvCache::copy_states(int64_t from, int64_t to) {
  for (const TensorView& state : states_) {
    if (state) copy_elements(state.slice_rows(from, 1), state.slice_rows(to, 1));
  }
}

int64_t KvCache::row(int slot, int64_t t, size_t window_class) const {
  return int64_t{at(slot).tables[window_class].of(t)} * kBlock + t % kBlock;
}

// Returns the parent of a page: the root for the first page, otherwise the serial number of the previous page
// in class 0. All classes use this serial number, so the parent is known even if a class no longer holds its
// own previous page.
uint64_t KvCache::parent_of(const Slot& s, int64_t block) const {
  return block == 0 ? s.root : classes_.front().pool.serial(s.tables.front().of((block - 1) * kBlock));
}

// Returns true if the next token belongs to a page that other slots hold too.
bool KvCache::last_is_shared(const Slot& s, size_t k) const {
  return s.length % kBlock != 0 && classes_[k].pool.holders(s.tables[k].of(s.length)) > 1;
}

// Returns the length of the sequence for which a slot has memory after reserve(n).
int64_t KvCache::most_reserved(const Slot& s, size_t k, int64_t n) const {
  return s.length + (k == 0 ? n : std::min(n, step_));
}

bool KvCache::reserve(int slot, int64_t n) {
  Slot& s = at(slot);
  release_unseen(s);
  for (size_t k = 0; k < classes_.size(); ++k) {
    const int64_t more = blocks_for(most_reserved(s, k, n)) - s.tables[k].end();
    if (std::max<int64_t>(more, 0) + last_is_shared(s, k) > classes_[k].pool.available()) return false;
  }
  for (size_t k = 0; k < classes_.size(); ++k) {
    BlockPool& pool = classes_[k].pool;
    Table& table = s.tables[k];
    if (last_is_shared(s, k)) {
      own_last(s, k, s.length % kBlock);
    } else if (s.length % kBlock != 0) {  // the page may contain tokens that were removed
      pool.truncate(table.of(s.length), s.length % kBlock);
    }
    while (table.end() < blocks_for(most_reserved(s, k, n)))
      table.blocks.push_back(pool.take(parent_of(s, table.end())));
  }
  return true;
}

void KvCache::append(int slot, std::span<const int32_t> tokens) {
  Slot& s = at(slot);
  for (const int32_t token : tokens) {
    for (size_t k = 0; k < classes_.size(); ++k)
      classes_[k].pool.append(s.tables[k].of(s.length), token);
    ++s.length;
  }
}

bool KvCache::can_truncate(int slot, int64_t n) const {
  const Slot& s = at(slot);
  if (!states_.empty() && n > 0 && n < s.length) return false;
  for (size_t k = 0; k < classes_.size(); ++k) {
    if (s.tables[k].first > 0 && s.tables[k].first * kBlock > n - classes_[k].window) return false;
  }
  return true;
}

bool KvCache::truncate(int slot, int64_t n) {
  Slot& s = at(slot);
  GPT_ASSERT(n >= 0 && n <= s.length);
  if (!can_truncate(slot, n)) return false;
  if (n == 0) copy_states(slots(), slot);
  s.length = n;
  release_unused(s);
  return true;
}

// Releases the last pages of the sequence first, so that these pages are reclaimed first. The first pages of
// a sequence are the most likely to be shared, and later pages cannot be reused without the first pages.
void KvCache::reset(int slot, uint64_t root) {
  Slot& s = at(slot);
  for (size_t k = 0; k < classes_.size(); ++k) {
    Table& table = s.tables[k];
    for (size_t i = table.blocks.size(); i-- > 0;)
      classes_[k].pool.release(table.blocks[i]);
    table.blocks.clear();
    table.first = 0;
  }
  s.length = 0;
  s.root = root;
  copy_states(slots(), slot);
}

void KvCache::forget(uint64_t first, uint64_t last) {
  for (WindowClass& window_class : classes_)
    window_class.pool.forget_after(first, last);
}

void KvCache::copy(int from, int to) {
  if (from == to) return;
  reset(to, at(from).root);
  release_unused(at(from));
  copy_states(from, to);
  at(to).length = at(from).length;
  for (size_t k = 0; k < classes_.size(); ++k) {
    const Table& source = at(from).tables[k];
    Table& table = at(to).tables[k];
    table.first = source.first;
    table.blocks.assign(source.blocks.begin(), source.blocks.end());
    for (const int32_t block : table.blocks)
      classes_[k].pool.hold(block);
  }
}

// Releases pages that no later token attends to, not even after a truncation. The page of the latest token is
// always kept, because it is the parent of the next page.
void KvCache::release_unseen(Slot& s) {
  for (size_t k = 0; k < classes_.size(); ++k) {
    const WindowClass& c = classes_[k];
    Table& table = s.tables[k];
    while ((table.first + 1) * kBlock <= s.length - c.window - c.spare) {
      classes_[k].pool.release(table.blocks.front());
      table.blocks.erase(table.blocks.begin());
      ++table.first;
    }
  }
}

// Releases pages that contain no token of the slot.
void KvCache::release_unused(Slot& s) {
  for (size_t k = 0; k < classes_.size(); ++k) {
    Table& table = s.tables[k];
    while (table.end() > blocks_for(s.length)) {
      classes_[k].pool.release(table.blocks.back());
      table.blocks.pop_back();
    }
  }
}

// Copies the first n tokens of a slot's last page to a new page that no other slot holds, and replaces the
// last page with it. Returns false if no page is free.
bool KvCache::own_last(Slot& s, size_t k, int64_t n) {
  BlockPool& pool = classes_[k].pool;
  int32_t& last = s.tables[k].blocks.back();
  const int32_t own = pool.take(pool.parent(last));
  if (own == BlockPool::kNone) return false;
  copy_rows(classes_[k], last, own, n);
  pool.append_from(last, own, n);
  pool.release(last);
  last = own;
  return true;
}

void KvCache::copy_rows(const WindowClass& of, int32_t from, int32_t to, int64_t n) {
  for (const size_t layer : of.layers) {
    for (const TensorView& v : {keys_[layer], values_[layer], key_scales_[layer], value_scales_[layer]}) {
      if (v) copy_elements(v.slice_rows(from * kBlock, n), v.slice_rows(to * kBlock, n));
    }
  }
}

// Returns the length of the longest prefix that can be reused. Class 0 must hold the complete prefix. Every
// other class must hold the tokens that the next token attends to.
int64_t KvCache::known(std::span<const int32_t> tokens, uint64_t root) const {
  if (!states_.empty()) return 0;
  struct Class {
    int64_t full_from = 0;  // index of the first page in the current run of full pages
    int64_t tokens = 0;     // number of matching tokens in the current page
  };
  std::vector<Class> others(classes_.size() - 1);
  int64_t best = 0;
  uint64_t parent = root;
  for (int64_t at = 0;; at += kBlock) {
    const auto rest = tokens.subspan(static_cast<size_t>(at));
    const auto piece = rest.first(std::min<size_t>(rest.size(), kBlock));
    const BlockPool::Match first = classes_.front().pool.find(parent, piece);
    int64_t n = first.tokens;
    for (size_t i = 0; i < others.size(); ++i) {
      others[i].tokens = classes_[i + 1].pool.find(parent, piece).tokens;
      n = std::min(n, others[i].tokens);
    }
    bool seen = true;
    for (size_t i = 0; i < others.size(); ++i) {
      seen = seen && others[i].full_from <= first_seen(at + n, classes_[i + 1].window);
      if (others[i].tokens < kBlock) others[i].full_from = at / kBlock + 1;
    }
    if (seen) best = at + n;
    if (first.tokens < kBlock) return best;
    parent = classes_.front().pool.serial(first.block);
  }
}

int64_t KvCache::reuse(int slot, std::span<const int32_t> tokens) {
  Slot& s = at(slot);
  GPT_ASSERT(s.length == 0 && !tokens.empty());
  reset(slot, s.root);
  int64_t n = known(tokens.first(tokens.size() - 1), s.root);
  while (!take_known(s, tokens.first(static_cast<size_t>(n)))) {
    reset(slot, s.root);
    n = known(tokens.first(static_cast<size_t>(n / kBlock * kBlock)), s.root);
  }
  s.length = n;
  return n;
}

// Fills the tables of an empty slot with the pages of a known prefix. Returns false if no page is free for a
// copy of the last page.
bool KvCache::take_known(Slot& s, std::span<const int32_t> tokens) {
  const int64_t n = std::ssize(tokens);
  for (size_t k = 0; k < classes_.size(); ++k) {
    BlockPool& pool = classes_[k].pool;
    Table& table = s.tables[k];
    table.first = k == 0 ? 0 : first_seen(n, classes_[k].window);
    for (int64_t at = table.first * kBlock; at < n; at += kBlock) {
      const auto piece =
          tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(std::min(kBlock, n - at)));
      const BlockPool::Match match = pool.find(parent_of(s, at / kBlock), piece);
      GPT_ASSERT(match.tokens == std::ssize(piece));
      pool.hold(match.block);
      table.blocks.push_back(match.block);
    }
  }
  return n % kBlock == 0 || own_known(s, n);
}

// Copies a partially filled last page, because the slot will write to it. Returns false if no page is free.
bool KvCache::own_known(Slot& s, int64_t n) {
  for (size_t k = 0; k < classes_.size(); ++k) {
    const BlockPool& pool = classes_[k].pool;
    const int32_t last = s.tables[k].blocks.back();
    if (n % kBlock == pool.filled(last) && pool.holders(last) == 1) continue;
    if (!own_last(s, k, n % kBlock)) return false;
  }
  return true;
}

KvCache::Prospect KvCache::prospect(std::span<const int32_t> tokens, uint64_t root) const {
  Prospect result{known(tokens.first(tokens.size() - 1), root), blocks_for(std::ssize(tokens))};
  const BlockPool& pool = classes_.front().pool;
  uint64_t parent = root;
  for (int64_t at = 0; at + kBlock <= result.known; at += kBlock) {
    const int32_t block = pool.find(parent, tokens.subspan(static_cast<size_t>(at), kBlock)).block;
    if (pool.holders(block) > 0) --result.blocks;  // the page is shared with its holders
    parent = pool.serial(block);
  }
  return result;
}

}  // namespace gpt
