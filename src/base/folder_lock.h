#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace gpt {

// Locks a folder or a file for writing, so that other processes cannot write to it concurrently. The lock is
// released by the destructor, or when the process ends in any way. The lock file is FOLDER/.lock, or
// .NAME.lock next to a file. The lock file names the owning process and is removed when the lock is released.
// A lock file left by a killed process has no effect.
class FolderLock {
 public:
  using Note = std::function<void(std::string_view)>;

  // Locks a folder. Creates the folder if it is missing; the destructor then removes the folder if it is
  // still empty. is_new: the caller has just created the folder, so the destructor also removes this folder
  // if it is empty. Throws Error naming the process that holds the lock, or the path that cannot be written.
  // `note` receives a line if the file system does not support locks; in that case, other processes are not
  // locked out.
  static FolderLock of_folder(const std::string& folder, const Note& note, bool is_new = false);
  static FolderLock of_file(const std::string& file, const Note& note);  // the folder of the file must exist

  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  FolderLock(const std::string& locked, std::string path, std::string made, const Note& note);

  std::string path_;  // path of the lock file
  std::string made_;  // the folder, if this object created it, else ""
  int fd_ = -1;
};

}  // namespace gpt
