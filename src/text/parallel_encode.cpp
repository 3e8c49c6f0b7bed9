#include "text/parallel_encode.h"

namespace gpt {

std::vector<std::vector<int32_t>> encode_all(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> texts, ThreadPool& pool) {
  std::vector<std::vector<int32_t>> ids(texts.size());
  detail::parallel_try(std::ssize(texts), pool, [&](size_t i) { ids[i] = tokenizer.encode(texts[i]); });
  return ids;
}

}  // namespace gpt
