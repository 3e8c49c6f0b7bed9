#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gpt {

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
