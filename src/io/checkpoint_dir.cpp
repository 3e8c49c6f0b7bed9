#include "io/checkpoint_dir.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

// Removes a trailing slash, so "a/b/" and "a/b" name the same folder, and resolves a symbolic link to its
// target.
std::string normalized(const std::string& path) {
  fs::path p = fs::path(path).lexically_normal();
  if (!p.has_filename()) p = p.parent_path();
  if (!p.has_filename() || p.filename() == "." || p.filename() == "..") {
    fail("cannot save to {}: expected the name of a folder", path.empty() ? "\"\"" : path);
  }
  std::error_code error;
  if (!fs::is_symlink(p, error)) return p.string();
  const fs::path target = fs::canonical(p, error);
  if (error) fail("cannot follow the link {}: {}", path, error.message());
  return target.string();
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string sibling(const std::string& path, const std::string& suffix) {
  return fmt::format("{}/.{}{}", parent_of(path), fs::path(path).filename().string(), suffix);
}

std::string old_name(const std::string& path) {
  return sibling(path, ".old");
}

void remove_tree(const std::string& path) {
  std::error_code error;  // the next writer retries what cannot be removed now
  fs::remove_all(path, error);
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

using Records = std::map<std::string, FileRecord>;

bool lists_below(const Records& ours, const fs::path& folder) {
  const std::string prefix = folder.generic_string() + "/";
  const auto next = ours.lower_bound(prefix);
  return next != ours.end() && next->first.starts_with(prefix);
}

std::vector<fs::path> names_in(const fs::path& folder) {
  std::vector<fs::path> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error))
    names.push_back(it->path().filename());
  return names;
}

// Moves files that this program did not write, or that changed since then, from folder `from` to folder `to`.
// Does not move a file if its name also exists in `to`. Deletes all files in `from` that are not moved.
void keep_foreign(const fs::path& from, const fs::path& to, const fs::path& below, const Records& ours) {
  std::error_code error;
  int64_t number = 0;
  for (const fs::path& last : names_in(from / below)) {
    fault_point("save.discard", number++);
    const fs::path name = below / last;
    if (name == kManifestName) continue;  // removed last
    const bool folder = fs::is_directory(fs::symlink_status(from / name, error));
    const bool replaced = is_there(to / name);
    const auto record = ours.find(name.generic_string());
    if (folder && (replaced || lists_below(ours, name))) {
      keep_foreign(from, to, name, ours);
    } else if (replaced || (record != ours.end() && is_as_recorded((from / name).string(), record->second))) {
      fs::remove(from / name, error);
    } else {
      fs::create_directories((to / name).parent_path(), error);
      fs::rename(from / name, to / name, error);
    }
  }
  if (below.empty()) fs::remove(from / kManifestName, error);
  fs::remove(from / below, error);  // fails if a file could not be moved
}

// Removes a replaced or unfinished version of `final_path`. Files that this program did not write are moved
// to `final_path`. Files that cannot be read or moved are left for the next writer.
void discard(const std::string& path, const std::string& final_path) {
  if (!is_there(fs::path(path) / kManifestName)) return remove_tree(path);  // the folder was never complete
  try {
    keep_foreign(path, final_path, {}, read_manifest(path));
  } catch (const Error&) {  // with a damaged manifest it is unknown which files may be deleted
  }
}

// Locks an existing folder. The kernel releases the lock when the process exits or is killed. Returns -1 if
// another process holds the lock or the folder does not exist. If the file system does not support locks, the
// folder stays unlocked, and two writers of one folder must not run concurrently.
int lock_directory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return fd;
  close(fd);
  return -1;
}

std::vector<std::string> temporaries_of(const std::string& final_path) {
  const std::string prefix = fs::path(sibling(final_path, ".tmp-")).filename().string();
  const fs::path parent = parent_of(final_path);
  std::vector<std::string> found;
  for (const fs::path& name : names_in(parent)) {
    if (name.string().starts_with(prefix)) found.push_back((parent / name).string());
  }
  return found;
}

// Removes the temporary folders of killed writers. Returns true if another writer is still alive.
bool remove_stale(const std::string& final_path) {
  bool alive = false;
  for (const std::string& path : temporaries_of(final_path)) {
    const int lock = lock_directory(path);
    if (lock >= 0) {
      discard(path, final_path);
      close(lock);
    } else {
      std::error_code error;
      alive = alive || fs::exists(path, error);
    }
  }
  return alive;
}

// Recovers from a kill in the middle of rename_pair. Assumes that no writer is alive.
void repair(const std::string& final_path) {
  const std::string old = old_name(final_path);
  std::error_code error;
  if (!fs::exists(fs::path(old) / kManifestName, error)) return;
  if (fs::exists(final_path, error)) return discard(old, final_path);
  if (rename(old.c_str(), final_path.c_str()) != 0) {
    fail("cannot restore {} from {}: {}; rename it by hand", final_path, old, std::strerror(errno));
  }
  sync_directory(parent_of(final_path));
}

void check_replaceable(const std::string& final_path) {
  std::error_code error;
  if (!fs::exists(final_path, error)) return;
  if (!fs::is_directory(final_path, error))
    fail("cannot save to {}: a file with this name exists", final_path);
  const bool empty = fs::is_empty(final_path, error);
  if (error) fail("cannot save to {}: {}", final_path, error.message());
  if (!empty && !fs::exists(fs::path(final_path) / kManifestName, error)) {
    fail(
        "cannot save to {}: the folder has files that this program did not write; choose another folder or "
        "empty this one",
        final_path);
  }
}

void rename_or_fail(const std::string& from, const std::string& to, const std::string& final_path) {
  if (rename(from.c_str(), to.c_str()) != 0) {
    fail("cannot save {}: renaming {} to {} failed: {}", final_path, from, to, std::strerror(errno));
  }
}

void replace_by_renames(const std::string& temporary, const std::string& final_path) {
  const std::string old = old_name(final_path);
  discard(old, final_path);
  rename_or_fail(final_path, old, final_path);
  fault_point("save.moved");
  try {
    rename_or_fail(temporary, final_path, final_path);
  } catch (...) {
    rename(old.c_str(), final_path.c_str());
    throw;
  }
  fault_point("save.replaced");
  sync_directory(parent_of(final_path));
  discard(old, final_path);
}

void replace(const std::string& temporary, const std::string& final_path, ReplaceMode mode) {
  std::error_code error;
  if (!fs::exists(final_path, error)) {
    rename_or_fail(temporary, final_path, final_path);
    sync_directory(parent_of(final_path));
    return;
  }
  if (mode == ReplaceMode::exchange) {
    if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final_path.c_str(), RENAME_EXCHANGE) == 0) {
      fault_point("save.replaced");
      sync_directory(parent_of(final_path));
      discard(temporary, final_path);  // now the name of the old folder
      return;
    }
    if (errno != EINVAL && errno != ENOSYS) {
      fail("cannot save {}: {}", final_path, std::strerror(errno));
    }
  }
  replace_by_renames(temporary, final_path);
}

// Reads the file in chunks instead of mapping it. Mapped pages would count as memory of the process, and a
// checkpoint is larger than the weights.
FileRecord record_of(const std::string& path) {
  constexpr size_t kPiece = size_t{1} << 20;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  if (state == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("cannot open {}: {}", path, std::strerror(errno));
  std::vector<char> piece(kPiece);
  FileRecord record;
  while (file) {
    file.read(piece.data(), std::ssize(piece));
    if (file.bad()) fail("cannot read {}: {}", path, std::strerror(errno));
    const auto n = static_cast<size_t>(file.gcount());
    XXH3_64bits_update(state.get(), piece.data(), n);
    record.size += n;
  }
  record.xxh3 = fmt::format("{:016x}", uint64_t{XXH3_64bits_digest(state.get())});
  return record;
}

void sync_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("cannot open {}: {}", path, std::strerror(errno));
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  if (error != 0 && error != EINVAL) fail("cannot write {}: {}", path, std::strerror(error));
}

// Paths in a manifest are untrusted and must stay inside the folder.
void check_name(const std::string& name, const std::string& manifest) {
  const fs::path path(name);
  bool inside = !name.empty() && path.is_relative() && name.find('\0') == std::string::npos;
  for (const fs::path& part : path)
    inside = inside && part != ".." && part != "." && !part.empty();
  if (!inside) fail("{}: expected paths inside the folder, found {}", manifest, printable(name));
}

}  // namespace

DirectoryWriter::DirectoryWriter(const std::string& final_path, ReplaceMode mode)
    : final_(normalized(final_path)), mode_(mode) {
  make_directories(parent_of(final_));
  if (!remove_stale(final_)) repair(final_);
  check_replaceable(final_);
  for (int n = 0; lock_ < 0; ++n) {
    if (n == 1000) fail("cannot save to {}: too many other processes are writing to it", final_);
    temporary_ = sibling(final_, fmt::format(".tmp-{}-{}", getpid(), n));
    if (mkdir(temporary_.c_str(), 0777) == 0) {
      // Locking fails if another process has just removed the folder. The loop then tries the next name.
      lock_ = lock_directory(temporary_);
    } else if (errno != EEXIST) {
      fail("cannot create the folder {}: {}", temporary_, std::strerror(errno));
    }
  }
  fault_point("save.begin");
}

DirectoryWriter::~DirectoryWriter() {
  if (!temporary_.empty()) remove_tree(temporary_);
  if (lock_ >= 0) close(lock_);
}

void DirectoryWriter::commit() {
  GPT_ASSERT(!temporary_.empty());
  seal_directory(temporary_);
  fault_point("save.sealed");
  replace(temporary_, final_, mode_);
  temporary_.clear();
  close(lock_);
  lock_ = -1;
}

FolderChanges folder_changes(const std::string& final_path, const std::vector<std::string>& names) {
  const fs::path folder = normalized(final_path);
  check_replaceable(folder.string());
  const Records ours = read_manifest(folder.string());
  FolderChanges changes;
  for (const std::string& name : names) {
    const auto record = ours.find(name);
    if (!is_there(folder / name)) {
      changes.created.push_back(name);
    } else if (record != ours.end() && is_as_recorded((folder / name).string(), record->second)) {
      changes.replaced.push_back(name);
    } else {
      fail("{} was {}; move it away, or choose another output", (folder / name).string(),
           record == ours.end() ? "not written by this program" : "changed since this program wrote it");
    }
  }
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error); !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().lexically_relative(folder).generic_string();
    const bool written = name == kManifestName || std::ranges::find(names, name) != names.end();
    if (written || (it->is_directory() && !it->is_symlink())) continue;
    const auto record = ours.find(name);
    const bool stale = record != ours.end() && is_as_recorded(it->path().string(), record->second);
    (stale ? changes.removed : changes.kept).push_back(name);
  }
  return changes;
}

void recover_directory(const std::string& final_path) {
  const std::string path = normalized(final_path);
  std::error_code error;
  if (!fs::exists(old_name(path), error)) return;
  if (!remove_stale(path)) repair(path);
}

std::map<std::string, FileRecord> read_manifest(const std::string& folder) {
  const std::string manifest = (fs::path(folder) / kManifestName).string();
  std::error_code error;
  if (!fs::exists(manifest, error)) return {};
  const nlohmann::json root = read_json_file(manifest);
  std::map<std::string, FileRecord> files;
  const auto bad = [&](const std::string& where) {
    fail(
        "{}: expected an object \"files\" with \"size\" and \"xxh3\" of each file, found something else at "
        "{}",
        manifest, where);
  };
  if (!root.is_object() || !root.contains("files") || !root["files"].is_object()) bad("the top level");
  for (const auto& [name, record] : root["files"].items()) {
    check_name(name, manifest);
    if (!record.is_object() || !record.contains("size") || !record["size"].is_number_unsigned() ||
        !record.contains("xxh3") || !record["xxh3"].is_string()) {
      bad(printable(name));
    }
    files[name] = {record["size"].get<uint64_t>(), record["xxh3"].get<std::string>()};
  }
  return files;
}

bool is_as_recorded(const std::string& path, const FileRecord& record) {
  std::error_code error;
  if (fs::symlink_status(path, error).type() != fs::file_type::regular) return false;
  return fs::file_size(path, error) == record.size && !error && record_of(path).xxh3 == record.xxh3;
}

void seal_directory(const std::string& folder) {
  nlohmann::json files = nlohmann::json::object();
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const std::string path = it->path().string();
    if (it->is_symlink() || !(it->is_regular_file() || it->is_directory())) {
      fail("cannot save {}: expected a regular file or a folder", path);
    }
    if (it->is_directory()) {
      sync_directory(path);
      continue;
    }
    sync_file(path);
    const std::string name = it->path().lexically_relative(folder).generic_string();
    if (name == kManifestName) continue;
    fault_point("save.synced", std::ssize(files));
    const FileRecord record = record_of(path);
    files[name] = {{"size", record.size}, {"xxh3", record.xxh3}};
  }
  if (error) fail("cannot list {}: {}", folder, error.message());
  const nlohmann::json root = {{"format", "gpt.cpp manifest"}, {"version", 1}, {"files", files}};
  // The manifest is written atomically, so a folder that has a manifest is complete even if its writer was
  // killed.
  write_file_atomic((fs::path(folder) / kManifestName).string(), root.dump(1) + "\n");
  sync_directory(folder);
}

void verify_manifest(const std::string& folder, bool checksums) {
  const std::string manifest = (fs::path(folder) / kManifestName).string();
  std::error_code gone;
  if (!fs::exists(manifest, gone)) fail_not_found("{} is missing", manifest);
  for (const auto& [name, expected] : read_manifest(folder)) {
    const std::string path = (fs::path(folder) / name).string();
    std::error_code error;
    if (!fs::is_regular_file(path, error)) fail_not_found("{} is missing, but {} lists it", path, manifest);
    const uint64_t size = fs::file_size(path, error);
    if (error) fail("cannot read {}: {}", path, error.message());
    if (size != expected.size) fail("{} is damaged: expected {} bytes, found {}", path, expected.size, size);
    if (!checksums) continue;
    const std::string found = record_of(path).xxh3;
    if (found != expected.xxh3) {
      fail("{} is damaged: expected the checksum {}, found {}", path, printable(expected.xxh3), found);
    }
  }
}

}  // namespace gpt
