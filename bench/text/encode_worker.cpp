// Measures the encoding speed of this project. bench/rivals/compare runs this program as a worker.
//   encode_worker TOKENIZER DOCUMENTS THREADS
// DOCUMENTS is a file of UTF-8 texts, each terminated by a zero byte. The program reads this file once. For
// every line of standard input, it encodes all documents again. If the line is "fresh", it uses a newly
// loaded tokenizer. The program prints a JSON line when it is ready, and one JSON line for every measurement.
// The measured time only includes encoding. The measured bytes do not include the zero bytes. `sum` is a
// checksum of the ids.

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <iostream>

#include "base/error.h"
#include "base/file.h"
#include "text/parallel_encode.h"

namespace gpt {
namespace {

std::vector<std::string_view> split_documents(std::string_view all) {
  std::vector<std::string_view> documents;
  while (!all.empty()) {
    const size_t end = std::min(all.find('\0'), all.size());
    documents.push_back(all.substr(0, end));
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return documents;
}

// Returns a checksum of all ids in order: h = 31 h + id + 1, modulo 2^61 - 1. Python can compute this
// checksum efficiently.
uint64_t checksum_of(const std::vector<std::vector<int32_t>>& ids) {
  constexpr uint64_t kModulus = (uint64_t{1} << 61) - 1;
  uint64_t sum = 0;
  for (const auto& document : ids) {
    for (const int32_t id : document)
      sum = static_cast<uint64_t>((static_cast<unsigned __int128>(sum) * 31 + static_cast<uint64_t>(id) + 1) %
                                  kModulus);
  }
  return sum;
}

std::string measure(const Tokenizer& tokenizer, std::span<const std::string_view> documents, size_t bytes,
                    ThreadPool& pool) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto ids = encode_all(tokenizer, documents, pool);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  size_t count = 0;
  for (const auto& document : ids)
    count += document.size();
  return fmt::format(R"({{"megabytes_per_second":{:.4f},"seconds":{:.6f},"ids":{},"sum":{}}})",
                     static_cast<double>(bytes) / 1e6 / seconds, seconds, count, checksum_of(ids));
}

int run(std::span<const char* const> arguments) {
  int threads = 0;
  if (arguments.size() == 4) {
    const std::string_view number = arguments[3];
    std::from_chars(number.data(), number.data() + number.size(), threads);
  }
  if (threads < 1 || threads > 1024) fail_usage("expected TOKENIZER DOCUMENTS THREADS");
  auto tokenizer = load_tokenizer(arguments[1]);
  const std::string all = read_file(arguments[2]);
  const std::vector<std::string_view> documents = split_documents(all);
  ThreadPool pool(threads);
  const size_t bytes = all.size() - documents.size();
  fmt::print("{{\"ready\":\"gpt.cpp\",\"documents\":{},\"bytes\":{}}}\n", documents.size(), bytes);
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "fresh") tokenizer = load_tokenizer(arguments[1]);
    fmt::print("{}\n", measure(*tokenizer, documents, bytes, pool));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) {
  try {
    return gpt::run({argv, static_cast<size_t>(argc)});
  } catch (const gpt::Error& error) {
    fmt::print(stderr, "encode_worker: {}\n", error.what());
    return 1;
  }
}
