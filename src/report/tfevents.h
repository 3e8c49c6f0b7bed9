#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace gpt {

struct Scalar {
  std::string tag;  // e.g. "loss/train"; TensorBoard groups by the part before the slash
  double value = 0;
};

// CRC-32C (Castagnoli), RFC 3720 appendix B.4.
uint32_t crc32c(std::string_view bytes);

// A TFRecord: u64 length, masked CRC of the length, payload, masked CRC of the payload; little-endian.
std::string tf_record(std::string_view payload);

// Serialized `Event` messages (tensorflow/core/util/event.proto). wall_time: seconds since 1970.
std::string tf_version_event(double wall_time);
std::string tf_scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars);
// Tells TensorBoard to forget events of this and later steps from earlier files.
std::string tf_restart_event(double wall_time, int64_t first_step);

// Removes the event files in a folder, before a new run writes its own there.
void remove_event_files(const std::string& dir);

// A new file events.out.tfevents.<seconds>.<host>.<pid> in a folder, for TensorBoard. Each call is one write.
class TensorBoardWriter {
 public:
  // On a resumed run pass its step: what an interrupted run wrote for later steps is then not shown.
  // The time in the name is never below that of a file already there, because TensorBoard reads files in
  // order of their names. Throws Error naming the path.
  explicit TensorBoardWriter(const std::string& dir, std::optional<int64_t> resume_step = std::nullopt);

  // Adds one event with all the values; on a full disk throws Error and leaves no part of it behind.
  void add(int64_t step, std::span<const Scalar> scalars);
  const std::string& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

}  // namespace gpt
