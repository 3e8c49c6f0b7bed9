#include "distributed/shares.h"

#include "base/ranges.h"

namespace gpt {

std::vector<double> joined(Communicator& processes, const std::vector<double>& own, const char* what) {
  const std::vector<double> counts = gather(processes, static_cast<double>(own.size()), what);
  std::vector<std::vector<double>> parts;
  for (const double count : counts)
    parts.emplace_back(static_cast<size_t>(count));
  parts[static_cast<size_t>(processes.rank())] = own;
  std::vector<std::span<std::byte>> pieces;
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

ItemRange own_items(const Communicator& processes, int64_t count) {
  const int64_t rank = processes.rank(), size = processes.size();
  return {.begin = count * rank / size, .end = count * (rank + 1) / size};
}

std::optional<std::vector<double>> compute_in_shares(
    Communicator& processes, int64_t count, const std::function<std::vector<double>(int64_t)>& numbers_of,
    const std::function<bool()>& stop, const char* what) {
  std::vector<double> all;
  for (int64_t round = 0; round < count; round += processes.size()) {
    if (stop()) return std::nullopt;
    const int64_t item = round + processes.rank();
    const std::vector<double> own = item < count ? numbers_of(item) : std::vector<double>();
    const std::vector<double> of_round = joined(processes, own, what);
    all.insert(all.end(), of_round.begin(), of_round.end());
  }
  return all;
}

}  // namespace gpt
