#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace gpt {

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
