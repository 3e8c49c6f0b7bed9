#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace gpt {

// Keeps other processes from writing into a folder, or the file, that this one is writing. It lasts as long
// as the object lives, and no longer than the process, however that ends. The file that carries the lock is
// FOLDER/.lock, or .NAME.lock beside a file; it names the process and goes with the lock (after a kill it
// stays, and means nothing).
class FolderLock {
 public:
  using Note = std::function<void(std::string_view)>;

  // Makes the folder if it is missing; then it goes with the lock if it is still empty. is_new: so does a
  // folder that the caller has just made. Throws Error naming the process that has the lock, or what cannot
  // be written. `note` gets a line where the file system knows no locks, so that nobody is kept away.
  static FolderLock of_folder(const std::string& folder, const Note& note, bool is_new = false);
  static FolderLock of_file(const std::string& file, const Note& note);  // its folder must be there

  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  FolderLock(const std::string& locked, std::string path, std::string made, const Note& note);

  std::string path_;  // of the file that carries the lock
  std::string made_;  // the folder, if it was missing
  int fd_ = -1;
};

}  // namespace gpt
