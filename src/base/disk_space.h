#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpt {

// Bytes that may still be written on the file system of an existing folder; nothing where it does not say.
std::optional<uint64_t> free_space(const std::string& folder);

// Throws Error unless so many bytes may be written there. `what` is to be written, for example "run/last".
void require_space(const std::string& folder, uint64_t bytes, const std::string& what);

}  // namespace gpt
