#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace gpt {

struct Scalar {
  std::string tag;  // for example "loss/train"; TensorBoard groups tags by the part before the slash
  double value = 0;
};

// Returns the CRC-32C (Castagnoli) of RFC 3720 appendix B.4.
uint32_t crc32c(std::string_view bytes);

// Returns a TFRecord. It consists of the u64 length, the masked CRC of the length, the payload, and the
// masked CRC of the payload. All numbers are little-endian.
std::string tf_record(std::string_view payload);

// Return serialized `Event` messages (tensorflow/core/util/event.proto). wall_time is in seconds since 1970.
std::string tf_version_event(double wall_time);
std::string tf_scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars);
// Returns an event after which TensorBoard ignores the events of earlier files at step `first_step` and
// later.
std::string tf_restart_event(double wall_time, int64_t first_step);

// Removes the event files in a folder, so that a new run can write its own files there.
void remove_event_files(const std::string& dir);

// Writes a new file events.out.tfevents.<seconds>.<host>.<pid> in a folder, for TensorBoard. Each event is a
// single write.
class TensorBoardWriter {
 public:
  // A resumed run passes its step. TensorBoard then ignores the values that the interrupted run wrote for
  // later steps. TensorBoard reads files in the order of their names, so the time in the name of the new file
  // is later than the times in the names of all existing files. Throws Error naming the path.
  explicit TensorBoardWriter(const std::string& dir, std::optional<int64_t> resume_step = std::nullopt);

  // Adds one event with all values. On a full disk, throws Error and leaves no part of the event in the file.
  void add(int64_t step, std::span<const Scalar> scalars);
  const std::string& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

}  // namespace gpt
