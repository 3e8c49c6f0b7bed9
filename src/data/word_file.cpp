#include "data/word_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace gpt {
namespace {

using nlohmann::json;

// Maximum size of the text that one task counts. The limit ensures that the total count of all words and the
// total count of all token pairs, over all tasks, fit into 64 bits.
constexpr uint64_t kMaxTextBytes = uint64_t{1} << 50;
constexpr JsonLimits kHeadLimits{.max_elements = uint64_t{1} << 24};  // the first line names all input files

bool is_head(const json& head) {
  if (!head.is_object() || !head.contains("inputs") || !head.contains("bytes") || has_fraction(head))
    return false;
  const json& bytes = head.at("bytes");
  return bytes.is_number_unsigned() && bytes.get<uint64_t>() <= kMaxTextBytes;
}

}  // namespace

WordFile::WordFile(const std::string& path) : file_(path), name_(path) {
  read_head(file_.bytes());
}

WordFile::WordFile(std::span<const std::byte> bytes, const std::string& name) : name_(name) {
  read_head(bytes);
}

WordFile::~WordFile() = default;

void WordFile::read_head(std::span<const std::byte> bytes) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t line = all.find('\n');
  if (line == std::string_view::npos || all.size() < line + 1 + sizeof(uint64_t)) fail_damaged();
  rest_ = all.substr(0, all.size() - sizeof(uint64_t));
  uint64_t checksum = 0;
  std::memcpy(&checksum, all.data() + rest_.size(), sizeof checksum);
  if (checksum != XXH3_64bits(rest_.data(), rest_.size())) fail_damaged();
  json head;
  try {
    head = parse_json(rest_.substr(0, line), name_, kHeadLimits);
  } catch (const Error&) {
    fail_damaged();
  }
  if (!is_head(head)) fail_damaged();
  text_bytes_ = head.at("bytes");
  if (head.contains("task") && head["task"].is_string()) task_ = head["task"];
  inputs_ = std::make_unique<const json>(std::move(head.at("inputs")));
  rest_.remove_prefix(line + 1);
}

bool WordFile::next(std::string_view& word, uint64_t& count) {
  if (rest_.empty()) return false;
  count = number<uint64_t>();
  const auto length = number<uint32_t>();
  const uint64_t occupied = std::max<uint64_t>(1, length);
  if (length > rest_.size() || count == 0 || count > (kMaxTextBytes - bytes_) / occupied) fail_damaged();
  bytes_ += count * occupied;
  word = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return true;
}

template <class T>
T WordFile::number() {
  if (rest_.size() < sizeof(T)) fail_damaged();
  T value{};
  std::memcpy(&value, rest_.data(), sizeof value);
  rest_.remove_prefix(sizeof value);
  return value;
}

void WordFile::fail_damaged() const {
  fail(
      "{} is damaged: expected word counts written by gpt tokenizer train --task; remove it and run the task "
      "again",
      name_);
}

}  // namespace gpt
