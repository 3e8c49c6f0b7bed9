#include "io/manifest.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "io/checkpoint_dir.h"
#include "io/json.h"
#include "io/printable.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

// Read piece by piece: the pages of a mapped file would count as memory of the process, and a checkpoint is
// larger than the weights.
FileRecord record_of(const std::string& path) {
  constexpr size_t kPiece = size_t{1} << 20;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  if (state == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  const auto closed = [](const int* fd) { close(*fd); };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("cannot open {}: {}", path, std::strerror(errno));
  const std::unique_ptr<const int, decltype(closed)> guard(&fd, closed);
  std::vector<char> piece(kPiece);
  FileRecord record;
  while (true) {
    const ssize_t n = read(fd, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read {}: {}", path, std::strerror(errno));
    if (n == 0) break;
    XXH3_64bits_update(state.get(), piece.data(), static_cast<size_t>(n));
    record.size += static_cast<uint64_t>(n);
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

// A path in a manifest is untrusted: it must stay inside the folder.
void check_name(const std::string& name, const std::string& manifest) {
  const fs::path path(name);
  bool inside = !name.empty() && path.is_relative() && name.find('\0') == std::string::npos;
  for (const fs::path& part : path)
    inside = inside && part != ".." && part != "." && !part.empty();
  if (!inside) fail("{}: expected paths inside the folder, found {}", manifest, printable(name));
}

}  // namespace

std::map<std::string, FileRecord> read_manifest(const std::string& folder) {
  const std::string manifest = (fs::path(folder) / kManifestName).string();
  std::error_code error;
  if (!fs::exists(manifest, error)) return {};
  const nlohmann::json root = read_json_file(manifest);
  std::map<std::string, FileRecord> files;
  const auto bad = [&](const std::string& where) {
    fail("{}: expected an object \"files\" with a size and an xxh3 for each, found something else at {}",
         manifest, where);
  };
  if (!root.is_object() || !root.contains("files") || !root["files"].is_object()) bad("the top");
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
      fail("cannot save {}: expected files and folders only", path);
    }
    if (it->is_directory()) {
      sync_directory(path);
      continue;
    }
    sync_file(path);
    const std::string name = it->path().lexically_relative(folder).generic_string();
    if (name == kManifestName) continue;
    const FileRecord record = record_of(path);
    files[name] = {{"size", record.size}, {"xxh3", record.xxh3}};
  }
  if (error) fail("cannot list {}: {}", folder, error.message());
  const nlohmann::json root = {{"format", "gpt.cpp manifest"}, {"version", 1}, {"files", files}};
  // At once: a folder that has a manifest is complete, whenever its writer was killed.
  write_file_atomic((fs::path(folder) / kManifestName).string(), root.dump(1) + "\n");
  sync_directory(folder);
}

void verify_manifest(const std::string& folder, bool checksums) {
  const std::string manifest = (fs::path(folder) / kManifestName).string();
  std::error_code gone;
  if (!fs::exists(manifest, gone)) fail("{} is missing", manifest);
  for (const auto& [name, expected] : read_manifest(folder)) {
    const std::string path = (fs::path(folder) / name).string();
    std::error_code error;
    if (!fs::is_regular_file(path, error)) fail("{} is missing: {} lists it", path, manifest);
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
