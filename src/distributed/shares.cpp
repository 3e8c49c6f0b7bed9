#include "distributed/shares.h"

#include <algorithm>

#include "base/ranges.h"

namespace gpt {

std::vector<double> joined(Communicator& processes, const std::vector<double>& own, const char* what) {
  const std::vector<double> counts = gather(processes, static_cast<double>(own.size()), what);
  std::vector<std::vector<double>> parts;
  parts.reserve(counts.size());
  for (const double count : counts)
    parts.emplace_back(static_cast<size_t>(count));
  parts[static_cast<size_t>(processes.rank())] = own;
  std::vector<std::span<std::byte>> pieces;
  pieces.reserve(parts.size());
  for (std::vector<double>& part : parts)
    pieces.push_back(std::as_writable_bytes(std::span(part)));
  finish(gather(processes, pieces, what));
  std::vector<double> all;
  for (const std::vector<double>& part : parts)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<std::string> joined(Communicator& processes, const std::vector<std::string>& own,
                                const char* what) {
  const std::vector<double> sizes = joined(
      processes, transformed(own, [](const std::string& x) { return static_cast<double>(x.size()); }), what);
  const std::string text = sum_of(gather(processes, sum_of(own), what));
  size_t at = 0;
  return transformed(sizes, [&](double size) {
    const auto n = static_cast<size_t>(size);
    at += n;
    return text.substr(at - n, n);
  });
}

int64_t share_size(const Communicator& processes, int64_t count, int64_t most) {
  if (processes.size() == 1) return count;
  return std::clamp<int64_t>((count + processes.size() - 1) / processes.size(), 1, most);
}

}  // namespace gpt
