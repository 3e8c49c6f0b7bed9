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

// Runs work(i, thread) for i in [0, n) on all threads; throws what the lowest i throws.
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

// The ids of a text cut before blanks behind something else, where may_cut(last byte) agrees. encode(part,
// begins) are the ids of a part, which may be the one with which the text begins.
template <class MayCut, class Encode>
std::vector<int32_t> encode_parts(std::string_view text, ThreadPool& pool, MayCut&& may_cut,
                                  Encode&& encode) {
  constexpr size_t kPart = size_t{1} << 18;  // bytes; depends on nothing, but no result depends on it either
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

// The ids of many texts, as encode gives them, computed by many threads. Throws what the first of them
// throws.
inline std::vector<std::vector<int32_t>> encode_all(const Tokenizer& tokenizer,
                                                    std::span<const std::string_view> texts,
                                                    ThreadPool& pool) {
  std::vector<std::vector<int32_t>> ids(texts.size());
  detail::parallel_try(std::ssize(texts), pool,
                       [&](size_t i, size_t) { ids[i] = tokenizer.encode(texts[i]); });
  return ids;
}

}  // namespace gpt
