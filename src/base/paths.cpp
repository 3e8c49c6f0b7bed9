#include "base/paths.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

bool is_inside(const fs::path& path, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

}  // namespace

std::string resolved_path(const std::string& path) {
  std::error_code error;
  fs::path p = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) p = fs::absolute(path, error).lexically_normal();  // a loop of links, or no permission
  if (!p.has_filename()) p = p.parent_path();
  return p.string();
}

bool paths_overlap(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error) && !error) return true;
  const fs::path x = resolved_path(a), y = resolved_path(b);
  return is_inside(x, y) || is_inside(y, x);
}

void refuse_overlap(const std::string& out, std::span<const std::string> inputs) {
  for (const std::string& input : inputs) {
    if (!paths_overlap(out, input)) continue;
    std::error_code error;
    const fs::path x = resolved_path(out), y = resolved_path(input);
    const bool same = fs::equivalent(out, input, error) && !error;
    fail("{} {} {}, which is read; choose another output", out,
         same || x == y    ? "is the same file as"
         : is_inside(x, y) ? "lies inside"
                           : "contains",
         input);
  }
}

}  // namespace gpt
