#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpt {

// Selects how a new folder replaces an old one.
enum class ReplaceMode {
  exchange,     // one atomic system call; falls back to rename_pair if the file system lacks it
  rename_pair,  // renames the old folder away, then the new one into place; recover_directory repairs an
                // interrupted pair
};

// Replaces a whole folder. If the process is killed at any moment, either the complete old folder or the
// complete new folder remains.
//
//   DirectoryWriter writer("run/last");
//   ... write files into writer.path() ...
//   writer.commit();
//
// The new folder is created next to the final one, is named .NAME.tmp-PID-N, and stays locked while its
// writer is alive. The next writer removes the temporary folders of killed writers. `commit` fsyncs every
// file, writes manifest.json (sizes and XXH3-64 checksums), and swaps the folders. `commit` then deletes each
// file of the old folder that the new folder also contains, or that still matches its entry in the old
// manifest. All other files are moved to the new folder. The constructor rejects a final folder that contains
// files but no manifest.json. Errors (no permission, disk full) throw Error and leave the old folder
// unchanged.
class DirectoryWriter {
 public:
  explicit DirectoryWriter(const std::string& final_path, ReplaceMode mode = ReplaceMode::exchange);
  ~DirectoryWriter();  // removes the new folder if it was not committed
  DirectoryWriter(const DirectoryWriter&) = delete;
  DirectoryWriter& operator=(const DirectoryWriter&) = delete;

  const std::string& path() const { return temporary_; }  // an existing, empty folder
  void commit();

 private:
  std::string final_;
  std::string temporary_;
  ReplaceMode mode_;
  int lock_ = -1;  // file descriptor that holds the lock on temporary_
};

// Lists how a DirectoryWriter for `final_path` will change the files that are in the folder now.
struct FolderChanges {
  std::vector<std::string> created, replaced, removed;
  std::vector<std::string> kept;  // not written by this program, or changed after this program wrote them
};
// Predicts the effect of writing files with these names into `final_path`, a folder chosen by the user.
// Throws Error if one of the names belongs to a file that this program did not write, or that was changed
// after this program wrote it. Reads existing files to compare their checksums.
FolderChanges folder_changes(const std::string& final_path, const std::vector<std::string>& names);

// Restores a folder whose writer was killed between the two renames of rename_pair. Does nothing if there is
// nothing to repair or if a writer is running. Call it before reading a folder.
void recover_directory(const std::string& final_path);

// Checks a folder against its manifest.json. Every listed file must exist with the recorded size and, if
// `checksums` is true, the recorded XXH3-64. Files that the manifest does not list are ignored. Throws Error
// that names the file and the expected and found values.
void verify_manifest(const std::string& folder, bool checksums);

inline constexpr const char* kManifestName = "manifest.json";

// Fsyncs every file and folder below `folder`, then writes the manifest and fsyncs it. The manifest lists
// files by their path relative to `folder`. Throws Error if `folder` contains anything other than files and
// folders.
void seal_directory(const std::string& folder);

struct FileRecord {
  uint64_t size = 0;
  std::string xxh3;
};

// Returns the manifest entries of `folder`, keyed by relative path. The result is empty if the folder has no
// manifest. Throws Error if the manifest is malformed.
std::map<std::string, FileRecord> read_manifest(const std::string& folder);

// Returns true if `path` is a regular file (not a symbolic link) with the recorded size and checksum. Reads
// the whole file.
bool is_as_recorded(const std::string& path, const FileRecord& record);

}  // namespace gpt
