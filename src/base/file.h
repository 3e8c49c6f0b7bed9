#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// Opens a regular file for reading, without blocking if the path is a pipe or a device. Throws Error naming
// the path if the file cannot be opened.
int open_regular_file(const std::string& path);

// Reads a whole regular file. Throws Error if the file is missing, unreadable or larger than max_bytes.
std::string read_file(const std::string& path, uint64_t max_bytes = uint64_t{1} << 40);

// Writes a file atomically: after a crash it has either the old or the new content. Writes a temporary file
// in the same folder, calls fsync, renames the file and calls fsync on the folder. On failure (disk full, no
// permission), throws Error, removes the temporary file and keeps the old file.
void write_file_atomic(const std::string& path, std::string_view content);

// A buffered file writer; `finish` calls fsync and closes the file. All errors throw Error naming the path.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void finish();

 private:
  void flush();
  std::string path_;
  std::string buffer_;
  int fd_ = -1;
};

// A new temporary file in the folder of the file that it will replace, with a unique name. The file is locked
// during the lifetime of the object, so that the next writer can remove files left by killed processes. The
// destructor removes the file unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& final_path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  void rename_to(const std::string& final_path);

 private:
  bool lock() const;
  void remove_stale() const;

  std::string folder_, prefix_, path_;
  int fd_ = -1;
};

// Writes a file atomically, like the function above. `write` produces the content piece by piece. If `write`
// throws, the old file is kept.
void write_file_atomic(const std::string& path, const std::function<void(FileWriter&)>& write);

void sync_directory(const std::string& path);
void make_directories(const std::string& path);  // throws Error naming the path

// A log file to which whole records are appended. All errors throw Error naming the path.
class AppendFile {
 public:
  enum class Mode { keep, empty, must_be_new };

  AppendFile(const std::string& path, Mode mode);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Appends the record with one write, so a killed process truncates at most the last record. If the disk is
  // full, removes the part that was written and throws, so that the next record is not appended to a
  // truncated one.
  void append(std::string_view record);

  void sync();  // calls fsync
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

// Returns the number of bytes that can still be written to the file system of an existing folder, or nothing
// if the file system does not report it.
std::optional<uint64_t> free_space(const std::string& folder);

// Throws Error if fewer than `bytes` bytes are free. `what` names the data to be written, for example
// "run/last".
void require_space(const std::string& folder, uint64_t bytes, const std::string& what);

// The kind of file that a path leads to after following links. `broken`: a dangling link, a loop of links, or
// a path without permission to inspect it.
enum class PathKind : uint8_t { nothing, file, folder, other, broken };

// Returns the kind of file. Never throws.
PathKind path_kind(const std::string& path);

// Return true if the path exists, is a folder, or is a regular file, respectively. Throw Error naming the
// path if the path is broken, so that an unreadable path is not mistaken for a missing one.
bool path_exists(const std::string& path);
bool is_folder(const std::string& path);
bool is_file(const std::string& path);

struct FolderEntry {
  std::string name;  // without the folder's path
  PathKind kind;
  bool link;
};
// Returns the entries of a folder, sorted by name. Throws Error naming the folder if it cannot be read.
std::vector<FolderEntry> list_folder(const std::string& path);

// Return the size of a file in bytes, and its modification time in nanoseconds. Throw Error naming the path.
uint64_t file_bytes(const std::string& path);
int64_t file_modified(const std::string& path);
// Identity, size and modification time of a file. A different stamp means that the file was modified or
// replaced; comparing stamps does not read the file.
struct FileStamp {
  uint64_t device = 0, inode = 0, bytes = 0;
  int64_t modified = 0;  // in nanoseconds
  bool operator==(const FileStamp&) const = default;
};
// Returns the stamp of a file, or nothing if the file does not exist.
std::optional<FileStamp> file_stamp(const std::string& path);
FileStamp file_stamp(int fd);  // stamp of an open file
// Removes a file if it exists. Throws Error naming the path on failure.
void remove_file(const std::string& path);

// Returns an absolute path. Links, "." and ".." are resolved as far as the path exists.
std::string resolved_path(const std::string& path);

// Returns true if two paths are the same file (including hard links) or if one is inside the other. Resolves
// links. A path that does not exist yet is compared by name.
bool paths_overlap(const std::string& a, const std::string& b);

// Throws Error naming both paths if `out` overlaps one of the inputs.
void refuse_overlap(const std::string& out, std::span<const std::string> inputs);

}  // namespace gpt
