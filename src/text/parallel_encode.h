#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "base/ranges.h"
#include "base/thread_pool.h"
#include "text/tokenizer.h"

namespace gpt {

namespace detail {

// Runs work(i, thread) for i in [0, n) on all threads. If several calls throw, rethrows the exception of the
// lowest i.
template <class Work>
void parallel_try(int64_t n, ThreadPool& pool, Work&& work) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(n));
  pool.parallel_for(n, [&](int64_t i, int thread) {
    try {
      work(static_cast<size_t>(i), static_cast<size_t>(thread));
    } catch (...) {
      errors[static_cast<size_t>(i)] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

// Encodes the parts of a text in parallel. The text may be cut before a space if may_cut() is true for the
// byte before the space. encode(part, begins) returns the ids of a part; `begins` is true for the first part
// of the text.
template <class MayCut, class Encode>
std::vector<int32_t> encode_parts(std::string_view text, ThreadPool& pool, MayCut&& may_cut,
                                  Encode&& encode) {
  constexpr size_t kPart = size_t{1} << 18;  // in bytes; the size does not affect the ids
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find(' ', begin + kPart);
    while (end != std::string_view::npos && !may_cut(text[end - 1]))
      end = text.find(' ', end + 1);
    parts.push_back(text.substr(begin, end - begin));
    begin += parts.back().size();
  }
  std::vector<std::vector<int32_t>> ids(parts.size());
  parallel_try(std::ssize(parts), pool, [&](size_t i, size_t) { ids[i] = encode(parts[i], i == 0); });
  std::vector<int32_t> all;
  all.reserve(sum_of(ids, &std::vector<int32_t>::size));
  for (const auto& part : ids)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace detail

// Encodes many texts in parallel and returns the ids of Tokenizer::encode. If several texts cause errors,
// throws the error of the first one.
inline std::vector<std::vector<int32_t>> encode_all(const Tokenizer& tokenizer,
                                                    std::span<const std::string_view> texts,
                                                    ThreadPool& pool) {
  std::vector<std::vector<int32_t>> ids(texts.size());
  detail::parallel_try(std::ssize(texts), pool,
                       [&](size_t i, size_t) { ids[i] = tokenizer.encode(texts[i]); });
  return ids;
}

}  // namespace gpt
