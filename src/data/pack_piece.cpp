#include "data/pack_piece.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "data/shard_set.h"

namespace gpt {
namespace {

constexpr uint64_t kPieceMagic = 0x32434f4c42545047;  // "GPTBLOC2"
constexpr size_t kWordBytes = sizeof(uint64_t);

uint64_t hash_of(const void* words, size_t count) {
  return XXH3_64bits(words, count * kWordBytes);
}

}  // namespace

std::string piece_index_name(int64_t piece) {
  return std::filesystem::path(shard_file_name(piece)).replace_extension(".blocks").string();
}

PieceWriter::PieceWriter(const std::string& folder, int64_t piece, const ShardInfo& info)
    : index_path_(pack_file(folder, piece_index_name(piece))),
      shard_(pack_file(folder, shard_file_name(piece)), info),
      index_{kPieceMagic, 0} {}

void PieceWriter::add(const EncodedBlock& block) {
  if (index_.size() == 2) sum_.begin = {.block = block.begin};
  const auto documents = std::ssize(block.documents);
  for (const int64_t word : {block.begin.file, block.number, static_cast<int64_t>(block.begin.offset),
                             block.begin.line, static_cast<int64_t>(block.end), int64_t{block.last},
                             static_cast<int64_t>(block.ids.size()), int64_t{documents}, block.text_bytes})
    index_.push_back(static_cast<uint64_t>(word));
  index_.insert(index_.end(), block.documents.begin(), block.documents.end());
  shard_.write(block.ids);
  shard_.add_text(block.text_bytes, documents);
  sum_.tokens += std::ssize(block.ids);
  sum_.text_bytes += block.text_bytes;
  sum_.documents += documents;
}

// The index is written first, because a shard without its index would be an incomplete piece.
void PieceWriter::publish() {
  sum_.checksum = shard_.complete().checksum;
  index_[1] = sum_.checksum;
  index_.push_back(hash_of(index_.data(), index_.size()));
  write_file_atomic(index_path_, std::string_view(reinterpret_cast<const char*>(index_.data()),
                                                  index_.size() * kWordBytes));
  shard_.publish();
}

Piece::Piece(const std::string& folder, int64_t piece, const PackedShard& expected, const PieceLimits& limits)
    : shard_(pack_file(folder, shard_file_name(piece))),
      file_(pack_file(folder, piece_index_name(piece))),
      index_(file_.bytes()),
      name_(file_.path()),
      expected_(expected),
      limits_(limits) {
  check();
}

Piece::Piece(TokenShard shard, std::span<const std::byte> index, const std::string& name,
             const PackedShard& expected, const PieceLimits& limits)
    : shard_(std::move(shard)), index_(index), name_(name), expected_(expected), limits_(limits) {
  check();
}

void Piece::check() {
  const ShardInfo& info = shard_.info();
  if (info.format != ShardFormat::gpt || info.count != expected_.tokens ||
      info.checksum != expected_.checksum)
    fail("{}: expected {} ids with the checksum {:016x} as in pack.json, found {} ids with {:016x}",
         shard_.name(), expected_.tokens, expected_.checksum, info.count, info.checksum);
  if (info.vocab_size > limits_.vocab_size)
    fail("{}: expected a vocabulary of at most {} tokens, found {}", shard_.name(), limits_.vocab_size,
         info.vocab_size);
  const size_t words = index_.size() / kWordBytes;
  if (words < 3 || index_.size() % kWordBytes != 0) fail_damaged();
  end_ = words;
  at_ = words - 1;
  if (word() != hash_of(index_.data(), words - 1)) fail_damaged();
  end_ = words - 1;
  at_ = 0;
  if (word() != kPieceMagic || word() != expected_.checksum) fail_damaged();
  read_head();
}

void Piece::fail_damaged() const {
  fail("{} is damaged: expected the block index of {}", name_, shard_.name());
}

uint64_t Piece::word() {
  if (at_ >= end_) fail_damaged();
  uint64_t value = 0;
  std::memcpy(&value, index_.data() + kWordBytes * at_++, kWordBytes);
  return value;
}

void Piece::read_head() {
  head_.reset();
  if (at_ == end_) {
    if (ids_at_ != shard_.info().count) fail_damaged();
    return;
  }
  EncodedBlock block;
  block.begin.file = static_cast<int64_t>(word());
  block.number = static_cast<int64_t>(word());
  block.begin.offset = word();
  block.begin.line = static_cast<int64_t>(word());
  block.end = word();
  block.last = word() != 0;
  const uint64_t ids = word(), documents = word(), text_bytes = word();
  const auto room = static_cast<uint64_t>(shard_.info().count - ids_at_);
  const bool in_text = block.begin.file >= 0 && block.begin.file < limits_.files && block.number >= 0 &&
                       block.number < INT64_MAX && block.begin.offset <= block.end;
  if (!in_text || ids > room || documents > end_ - at_ ||
      text_bytes > static_cast<uint64_t>(shard_.info().text_bytes))
    fail_damaged();
  block.text_bytes = static_cast<int64_t>(text_bytes);
  head_ids_ = static_cast<int64_t>(ids);
  for (uint64_t i = 0; i < documents; ++i)
    block.documents.push_back(word());
  const bool rising = std::ranges::is_sorted(block.documents);
  if (!rising || (documents > 0 && block.documents.back() > ids)) fail_damaged();
  head_ = std::move(block);
}

void Piece::pass() {
  GPT_ASSERT(head_);
  ids_at_ += head_ids_;
  read_head();
}

EncodedBlock Piece::take() {
  GPT_ASSERT(head_);
  if (!checked_) {
    const std::string what = damaged_ids(shard_, expected_.checksum);
    if (!what.empty()) fail("{}: {}", shard_.name(), what);
    checked_ = true;
  }
  EncodedBlock block = std::move(*head_);
  const auto begin = static_cast<size_t>(ids_at_), end = begin + static_cast<size_t>(head_ids_);
  if (shard_.info().bytes_per_id == 2) {
    block.ids.assign(shard_.ids16() + begin, shard_.ids16() + end);
  } else {
    block.ids.assign(shard_.ids32() + begin, shard_.ids32() + end);
  }
  ids_at_ += head_ids_;
  read_head();
  return block;
}

void Piece::verify() {
  while (head_)
    take();
}

}  // namespace gpt
