#include "report/tfevents.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <vector>

namespace gpt {
namespace {

constexpr std::string_view kFilePrefix = "events.out.tfevents.";
constexpr uint32_t kCrcPolynomial = 0x82F63B78;  // 0x1EDC6F41 with its bits reversed
constexpr uint32_t kMaskDelta = 0xA282EAD8;      // tensorflow/core/lib/hash/crc32c.h

// Protobuf wire types and the field numbers of event.proto and summary.proto.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
enum EventField : uint32_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
constexpr uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimple = 2, kSessionStatus = 1;
constexpr uint64_t kSessionStart = 1;

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCrcPolynomial : 0);
    table[i] = crc;
  }
  return table;
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + kMaskDelta;
}

void put_little_endian(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    out.push_back(static_cast<char>(static_cast<uint8_t>(value >> (8 * i))));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(static_cast<char>(static_cast<uint8_t>(value | 0x80)));
  out.push_back(static_cast<char>(static_cast<uint8_t>(value)));
}

void put_key(std::string& out, uint32_t field, WireType type) {
  put_varint(out, (field << 3) | type);
}

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_double(std::string& out, uint32_t field, double value) {
  put_key(out, field, kFixed64);
  put_little_endian(out, std::bit_cast<uint64_t>(value), 8);
}

void put_float(std::string& out, uint32_t field, float value) {
  put_key(out, field, kFixed32);
  put_little_endian(out, std::bit_cast<uint32_t>(value), 4);
}

void put_integer(std::string& out, uint32_t field, uint64_t value) {
  put_key(out, field, kVarint);
  put_varint(out, value);
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> buffer{};
  if (gethostname(buffer.data(), buffer.size() - 1) != 0 || buffer[0] == '\0') return "localhost";
  std::string name(buffer.data());
  std::ranges::replace(name, '/', '-');
  return name;
}

// Returns the time for the name of a new file: now, or one second after the newest event file in the folder.
int64_t file_time(const std::string& dir, double now) {
  auto time = static_cast<int64_t>(now);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kFilePrefix)) continue;
    int64_t existing = 0;
    const char* first = name.data() + kFilePrefix.size();
    std::from_chars(first, name.data() + name.size(), existing);
    // Ignore times in the far future. File names sort by time only if the time has ten digits.
    if (existing < 9'999'999'999) time = std::max(time, existing + 1);
  }
  return time;
}

std::string new_file_path(const std::string& dir, double now) {
  const std::string name =
      fmt::format("{}{:010}.{}.{}", kFilePrefix, file_time(dir, now), host_name(), getpid());
  return (std::filesystem::path(dir) / name).string();
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_crc_table();
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF];
  return ~crc;
}

std::string tf_record(std::string_view payload) {
  std::string record;
  put_little_endian(record, payload.size(), 8);
  put_little_endian(record, masked_crc32c(record), 4);
  record += payload;
  put_little_endian(record, masked_crc32c(payload), 4);
  return record;
}

std::string tf_version_event(double wall_time) {
  std::string event;
  put_double(event, kWallTime, wall_time);
  put_bytes(event, kFileVersion, "brain.Event:2");
  return event;
}

std::string tf_scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, kValueTag, scalar.tag);
    put_float(value, kValueSimple, static_cast<float>(scalar.value));
    put_bytes(summary, kSummaryValue, value);
  }
  std::string event;
  put_double(event, kWallTime, wall_time);
  put_integer(event, kStep, static_cast<uint64_t>(step));
  put_bytes(event, kSummary, summary);
  return event;
}

std::string tf_restart_event(double wall_time, int64_t first_step) {
  std::string session;
  put_integer(session, kSessionStatus, kSessionStart);
  std::string event;
  put_double(event, kWallTime, wall_time);
  put_integer(event, kStep, static_cast<uint64_t>(first_step));
  put_bytes(event, kSessionLog, session);
  return event;
}

void remove_event_files(const std::string& dir) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.is_regular_file() && entry.path().filename().string().starts_with(kFilePrefix))
      files.push_back(entry.path());
  }
  for (const std::filesystem::path& file : files)
    std::filesystem::remove(file);
}

TensorBoardWriter::TensorBoardWriter(const std::string& dir, std::optional<int64_t> resume_step)
    : file_(new_file_path(dir, now_seconds()), AppendFile::Mode::must_be_new) {
  const double now = now_seconds();
  file_.append(tf_record(tf_version_event(now)));
  if (resume_step) file_.append(tf_record(tf_restart_event(now, *resume_step + 1)));
}

void TensorBoardWriter::add(int64_t step, std::span<const Scalar> scalars) {
  file_.append(tf_record(tf_scalars_event(now_seconds(), step, scalars)));
}

}  // namespace gpt
