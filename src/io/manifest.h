#pragma once

#include <string>

namespace gpt {

inline constexpr const char* kManifestName = "manifest.json";

// Fsyncs every file and folder below `folder`, then writes its manifest and fsyncs that. Files are listed
// by path relative to `folder`. Throws Error when something in it is neither a file nor a folder.
void seal_directory(const std::string& folder);

}  // namespace gpt
