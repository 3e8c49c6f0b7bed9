#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpt {

// How a new folder takes the place of an old one.
enum class ReplaceMode {
  exchange,     // one atomic system call where the file system has it, else rename_pair
  rename_pair,  // old away, new in; a kill in between is repaired by recover_directory
};

// Replaces a whole folder so that a kill at any moment leaves the complete old or the complete new one.
//
//   DirectoryWriter writer("run/last");
//   ... write files into writer.path() ...
//   writer.commit();
//
// The new folder is a sibling of the final one, named .NAME.tmp-PID-N and locked while its writer lives;
// what killed writers left behind is removed by the next one. `commit` fsyncs every file, writes
// manifest.json (sizes and XXH3-64 checksums), and swaps. Of the old folder's files those are deleted that
// the new one has too, or that the old manifest names and that are as it says; all others are moved to the
// new folder. A final folder that has files but no manifest.json is refused. Errors (no permission, disk
// full) throw Error and leave the old folder as it was.
class DirectoryWriter {
 public:
  explicit DirectoryWriter(const std::string& final_path, ReplaceMode mode = ReplaceMode::exchange);
  ~DirectoryWriter();  // without commit: removes the new folder
  DirectoryWriter(const DirectoryWriter&) = delete;
  DirectoryWriter& operator=(const DirectoryWriter&) = delete;

  const std::string& path() const { return temporary_; }  // an existing, empty folder
  void commit();

 private:
  std::string final_;
  std::string temporary_;
  ReplaceMode mode_;
  int lock_ = -1;  // of temporary_
};

// What a DirectoryWriter of `final_path` that writes files of these names will do to the files there now.
struct FolderChanges {
  std::vector<std::string> created, replaced, removed;
  std::vector<std::string> kept;  // written by others, or changed since
};
// Throws Error when a file is in the way that this program did not write, or that was changed since: for
// folders that a user named. Reads what it compares.
FolderChanges folder_changes(const std::string& final_path, const std::vector<std::string>& names);

// Puts back what a writer killed between the two renames of rename_pair moved away. Does nothing when
// there is nothing to repair or when a writer is at work. Call it before reading a folder.
void recover_directory(const std::string& final_path);

// Compares a folder with its manifest.json: every file there and as long as it was, and, if `checksums`,
// with the same XXH3-64. Files that the manifest does not name are ignored. Throws Error naming the file,
// expected and found.
void verify_manifest(const std::string& folder, bool checksums);

inline constexpr const char* kManifestName = "manifest.json";

// Fsyncs every file and folder below `folder`, then writes its manifest and fsyncs that. Files are listed
// by path relative to `folder`. Throws Error when something in it is neither a file nor a folder.
void seal_directory(const std::string& folder);

struct FileRecord {
  uint64_t size = 0;
  std::string xxh3;
};

// What the manifest of `folder` lists, by path relative to it; nothing where there is no manifest. Throws
// Error when it is no manifest.
std::map<std::string, FileRecord> read_manifest(const std::string& folder);

// Whether `path` is a regular file, no link, with the size and the checksum of the record. Reads it all.
bool is_as_recorded(const std::string& path, const FileRecord& record);

}  // namespace gpt
