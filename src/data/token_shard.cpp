#include "data/token_shard.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "text/tokenizer_facts.h"

namespace gpt {
namespace {

constexpr std::string_view kMagic = "GPTTOKEN";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 128;
constexpr size_t kHashedBytes = kHeaderBytes - sizeof(uint64_t);

constexpr size_t kLlmcHeaderInts = 256;
constexpr int32_t kLlmcMagic16 = 20240520, kLlmcVersion16 = 1;  // for the tokenizer of GPT-2
constexpr int32_t kLlmcMagic32 = 20240801, kLlmcVersion32 = 7;  // for the tokenizer of Llama 3

static_assert(std::endian::native == std::endian::little, "shards are read in place");

// Byte offsets of the header fields of the format `gpt`.
enum Offset : size_t {
  kAtVersion = 8,
  kAtWidth = 12,
  kAtCount = 16,
  kAtVocabSize = 24,
  kAtVocabHash = 32,
  kAtChecksum = 40,
  kAtTextBytes = 48,
  kAtDocuments = 56,
  kAtDocumentToken = 64,
  kAtZeros = 72,
};

template <class T>
T get(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
template <class T>
void put(std::vector<std::byte>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::vector<std::byte> own_header(const ShardInfo& info) {
  std::vector<std::byte> h(kHeaderBytes);
  std::memcpy(h.data(), kMagic.data(), kMagic.size());
  put(h, kAtVersion, kVersion);
  put(h, kAtWidth, static_cast<uint32_t>(info.bytes_per_id));
  put(h, kAtCount, info.count);
  put(h, kAtVocabSize, info.vocab_size);
  put(h, kAtVocabHash, info.vocab_hash);
  put(h, kAtChecksum, info.checksum);
  put(h, kAtTextBytes, info.text_bytes);
  put(h, kAtDocuments, info.documents);
  put(h, kAtDocumentToken, info.document_token);
  put(h, kHashedBytes, XXH3_64bits(h.data(), kHashedBytes));
  return h;
}

std::vector<std::byte> llmc_header(const ShardInfo& info) {
  std::vector<std::byte> h(kLlmcHeaderInts * sizeof(int32_t));
  put(h, 0, info.bytes_per_id == 2 ? kLlmcMagic16 : kLlmcMagic32);
  put(h, 4, info.bytes_per_id == 2 ? kLlmcVersion16 : kLlmcVersion32);
  put(h, 8, static_cast<int32_t>(info.count));
  return h;
}

}  // namespace

uint64_t vocabulary_hash(const Tokenizer& tokenizer) {
  std::string all;
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string bytes = bytes_of_id(tokenizer, id);
    const auto size = static_cast<uint32_t>(bytes.size());
    all.append(reinterpret_cast<const char*>(&size), sizeof size);
    all += bytes;
  }
  return XXH3_64bits(all.data(), all.size());
}

TokenShard::TokenShard(const std::string& path)
    : file_(std::make_shared<const MappedFile>(path)), name_(path) {
  read_header(file_->bytes());
}

TokenShard::TokenShard(std::span<const std::byte> bytes, const std::string& name) : name_(name) {
  read_header(bytes);
}

void TokenShard::read_header(std::span<const std::byte> bytes) {
  size_t header = kHeaderBytes;
  const int32_t magic = bytes.size() >= sizeof(int32_t) ? get<int32_t>(bytes, 0) : 0;
  if (magic == kLlmcMagic16 || magic == kLlmcMagic32) {
    header = kLlmcHeaderInts * sizeof(int32_t);
    info_.format = ShardFormat::llmc;
    info_.bytes_per_id = magic == kLlmcMagic16 ? 2 : 4;
    const int32_t version = magic == kLlmcMagic16 ? kLlmcVersion16 : kLlmcVersion32;
    if (bytes.size() < header || get<int32_t>(bytes, 4) != version)
      fail("cannot read {}: expected version {} of llm.c's token files with a header of {} bytes", name_,
           version, header);
    info_.count = get<int32_t>(bytes, 8);
  } else {
    read_own_header(bytes);
  }
  const uint64_t room = bytes.size() - header;
  const auto width = static_cast<uint64_t>(info_.bytes_per_id);
  if (info_.count < 0 || static_cast<uint64_t>(info_.count) != room / width || room % width != 0) {
    fail(
        "cannot read {}: its header specifies {} ids of {} bytes, but the file has {} bytes of ids; it is "
        "damaged or was not copied completely",
        name_, info_.count, width, room);
  }
  ids_ = bytes.subspan(header);
}

void TokenShard::read_own_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    fail("cannot read {}: expected a token shard of gpt data pack or llm.c, found something else", name_);
  const auto version = get<uint32_t>(bytes, kAtVersion), width = get<uint32_t>(bytes, kAtWidth);
  if (version != kVersion)
    fail("cannot read {}: expected version {} of the shard format, found {}", name_, kVersion, version);
  if (get<uint64_t>(bytes, kHashedBytes) != XXH3_64bits(bytes.data(), kHashedBytes))
    fail("cannot read {}: its header is damaged; pack the text again with gpt data pack", name_);
  info_ = {.bytes_per_id = static_cast<int>(width),
           .count = get<int64_t>(bytes, kAtCount),
           .vocab_size = get<int64_t>(bytes, kAtVocabSize),
           .vocab_hash = get<uint64_t>(bytes, kAtVocabHash),
           .checksum = get<uint64_t>(bytes, kAtChecksum),
           .text_bytes = get<int64_t>(bytes, kAtTextBytes),
           .documents = get<int64_t>(bytes, kAtDocuments),
           .document_token = get<int64_t>(bytes, kAtDocumentToken)};
  const auto zeros = bytes.subspan(kAtZeros, kHashedBytes - kAtZeros);
  const bool sane = (width == 2 || width == 4) && info_.vocab_size > 0 && info_.vocab_size <= INT32_MAX &&
                    info_.text_bytes >= 0 && info_.documents >= 0 && info_.document_token >= -1 &&
                    info_.document_token < info_.vocab_size &&
                    std::ranges::all_of(zeros, [](std::byte b) { return b == std::byte{0}; });
  if (!sane)
    fail("cannot read {}: its header has inconsistent values; pack the text again with gpt data pack", name_);
}

uint64_t TokenShard::ids_offset() const {
  return info_.format == ShardFormat::gpt ? kHeaderBytes : kLlmcHeaderInts * sizeof(int32_t);
}

const uint16_t* TokenShard::ids16() const {
  GPT_ASSERT(info_.bytes_per_id == 2);
  return reinterpret_cast<const uint16_t*>(ids_.data());
}
const uint32_t* TokenShard::ids32() const {
  GPT_ASSERT(info_.bytes_per_id == 4);
  return reinterpret_cast<const uint32_t*>(ids_.data());
}

void TokenShard::verify() const {
  if (info_.format == ShardFormat::llmc) return;  // llm.c's shards have no checksum
  const uint64_t checksum = XXH3_64bits(ids_.data(), ids_.size());
  if (checksum != info_.checksum) {
    fail(
        "{} is damaged: expected the checksum {:016x}, found {:016x}; pack the text again with gpt data pack",
        name_, info_.checksum, checksum);
  }
  for (int64_t i = 0; i < info_.count; ++i) {
    const int64_t id = info_.bytes_per_id == 2 ? ids16()[i] : ids32()[i];
    if (id >= info_.vocab_size)
      fail("{}: token {} has the id {}: expected 0 to {}", name_, i, id, info_.vocab_size - 1);
  }
}

void TokenShard::require_vocabulary(uint64_t hash, int64_t vocab_size) const {
  if (info_.format == ShardFormat::llmc || info_.vocab_hash == hash) return;
  fail(
      "{} was packed with a different vocabulary: {} tokens with hash {:016x}; the tokenizer has {} tokens "
      "with hash {:016x}; set `tokenizer` to the tokenizer of the shard (gpt data pack writes it next to the "
      "shards)",
      name_, info_.vocab_size, info_.vocab_hash, vocab_size, hash);
}

bool is_token_shard(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  char first[8] = {};
  const ssize_t n = ::read(fd, first, sizeof first);
  close(fd);
  int32_t magic = 0;
  std::memcpy(&magic, first, sizeof magic);
  return n == sizeof first &&
         (std::string_view(first, sizeof first) == kMagic || magic == kLlmcMagic16 || magic == kLlmcMagic32);
}

struct ShardWriter::State {
  std::string path;
  TemporaryFile temporary;
  ShardInfo info;
  FileWriter file;
  XXH3_state_t* hash;
  std::vector<uint16_t> narrow;

  State(const std::string& p, const ShardInfo& i)
      : path(p), temporary(p), info(i), file(temporary.path()), hash(XXH3_createState()) {
    XXH3_64bits_reset(hash);
    file.write(header());
  }
  ~State() { XXH3_freeState(hash); }

  std::vector<std::byte> header() const {
    return info.format == ShardFormat::gpt ? own_header(info) : llmc_header(info);
  }
  void write(std::span<const std::byte> bytes) {
    XXH3_64bits_update(hash, bytes.data(), bytes.size());
    file.write(bytes);
  }
  // Writes the header again when all its fields are known.
  void write_header() {
    const std::vector<std::byte> bytes = header();
    const int fd = open(temporary.path().c_str(), O_WRONLY | O_CLOEXEC);
    const bool good =
        fd >= 0 && pwrite(fd, bytes.data(), bytes.size(), 0) == std::ssize(bytes) && fsync(fd) == 0;
    const int error = errno;
    if (fd >= 0) close(fd);
    if (!good) fail("cannot write {}: {}", path, std::strerror(error));
  }
};

ShardWriter::ShardWriter(const std::string& path, const ShardInfo& info) {
  GPT_ASSERT(info.bytes_per_id == 2 || info.bytes_per_id == 4);
  state_ = std::make_unique<State>(path, info);
  state_->info.count = state_->info.text_bytes = state_->info.documents = 0;
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::write(std::span<const int32_t> ids) {
  State& s = *state_;
  s.info.count += std::ssize(ids);
  if (s.info.format == ShardFormat::llmc && s.info.count > INT32_MAX)
    fail("{}: llm.c's format holds at most {} ids in a file; use a smaller `shard_tokens`", s.path,
         INT32_MAX);
  if (s.info.bytes_per_id == 4) {
    s.write(std::as_bytes(ids));
    return;
  }
  s.narrow.assign(ids.begin(), ids.end());
  s.write(std::as_bytes(std::span(s.narrow)));
}

void ShardWriter::add_text(int64_t bytes, int64_t documents) {
  state_->info.text_bytes += bytes;
  state_->info.documents += documents;
}

ShardInfo ShardWriter::complete() {
  State& s = *state_;
  s.info.checksum = XXH3_64bits_digest(s.hash);
  s.file.finish();
  s.write_header();
  return s.info;
}

void ShardWriter::publish() {
  state_->temporary.rename_to(state_->path);
  state_.reset();
}

}  // namespace gpt
