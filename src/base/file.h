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

// Opens a regular file to read, without waiting where it is none. Throws Error when it cannot, naming it.
int open_regular_file(const std::string& path);

// Reads a whole regular file; throws Error when it is missing, unreadable or larger than max_bytes.
std::string read_file(const std::string& path, uint64_t max_bytes = uint64_t{1} << 40);

// Writes a file so that a crash leaves either the old or the new content: temporary name in the same
// folder, fsync, rename, fsync of the folder. Throws Error (disk full, no permission) and removes the
// temporary file; what was there before stays.
void write_file_atomic(const std::string& path, std::string_view content);

// A file being written with buffering; `finish` fsyncs and closes. Every error throws, naming the path.
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

// A new file beside the one it is to replace, under a name that no other file has. It is locked while its
// writer lives; those of killed writers are removed by the next one. Goes with the object unless renamed.
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

// As above, with content that `write` hands to the writer piece by piece; what it throws leaves the old file.
void write_file_atomic(const std::string& path, const std::function<void(FileWriter&)>& write);

void sync_directory(const std::string& path);
void make_directories(const std::string& path);  // throws Error naming the path

// A log file to which whole records are added. Every error throws Error naming the path.
class AppendFile {
 public:
  enum class Mode { keep, empty, must_be_new };

  AppendFile(const std::string& path, Mode mode);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Adds the bytes with one write, so that a kill tears at most the last record. When the disk is full, takes
  // back what was written of the record and throws: a later one is then never glued to a torn one.
  void append(std::string_view record);

  void sync();  // forces everything to the disk
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

// Bytes that may still be written on the file system of an existing folder; nothing where it does not say.
std::optional<uint64_t> free_space(const std::string& folder);

// Throws Error unless so many bytes may be written there. `what` is to be written, for example "run/last".
void require_space(const std::string& folder, uint64_t bytes, const std::string& what);

// What a path leads to, links followed. `broken`: a link that leads nowhere or round in circles, or what may
// not be looked at.
enum class PathKind : uint8_t { nothing, file, folder, other, broken };

// Never throws.
PathKind path_kind(const std::string& path);

// Whether something of that kind is there. Throw Error naming the path where it is broken, so that what
// cannot be read is not taken for missing.
bool path_exists(const std::string& path);
bool is_folder(const std::string& path);
bool is_file(const std::string& path);

struct FolderEntry {
  std::string name;  // without the folder
  PathKind kind;
  bool link;
};
// What a folder holds, sorted by name. Throws Error naming the folder when it cannot be read.
std::vector<FolderEntry> list_folder(const std::string& path);

// Bytes of a file, and when it was last written, in nanoseconds. Throw Error naming the path.
uint64_t file_bytes(const std::string& path);
int64_t file_modified(const std::string& path);
// What tells, without reading it, that a file was written to or replaced by another.
struct FileStamp {
  uint64_t device = 0, inode = 0, bytes = 0;
  int64_t modified = 0;  // in nanoseconds
  bool operator==(const FileStamp&) const = default;
};
// Nothing where there is no such file.
std::optional<FileStamp> file_stamp(const std::string& path);
FileStamp file_stamp(int fd);  // of an open one
// Throws Error naming the path where it cannot be removed; one that is not there is none.
void remove_file(const std::string& path);

// A path with links, "." and ".." resolved as far as it exists.
std::string resolved_path(const std::string& path);

// Whether two paths are one file (also by hard links), or one lies inside the other. Links are resolved; a
// path that does not exist yet is compared by its name.
bool paths_overlap(const std::string& a, const std::string& b);

// Throws Error when `out` overlaps one of the inputs, naming both.
void refuse_overlap(const std::string& out, std::span<const std::string> inputs);

}  // namespace gpt
