#pragma once

#include <span>
#include <string>

namespace gpt {

// A path with links, "." and ".." resolved as far as it exists.
std::string resolved_path(const std::string& path);

// Whether two paths are one file (also by hard links), or one lies inside the other. Links are resolved; a
// path that does not exist yet is compared by its name.
bool paths_overlap(const std::string& a, const std::string& b);

// Throws Error when `out` overlaps one of the inputs, naming both.
void refuse_overlap(const std::string& out, std::span<const std::string> inputs);

}  // namespace gpt
