#include "data/preview.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/format.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "base/utf8.h"

namespace gpt {
namespace {

constexpr int64_t kCorpusChars = 200;
constexpr int64_t kBatchChars = 50;
constexpr int64_t kBatchIds = 12;
constexpr int64_t kTokenChars = 12;

// Returns the first characters of a text, line by line, with unprintable characters escaped.
std::string printable_lines(std::string_view text, int64_t max_chars) {
  size_t end = 0;
  for (int64_t i = 0; i < max_chars && end < text.size(); ++i) {
    end += static_cast<size_t>(decode_utf8(text, end).length);
  }
  return sum_of(lines_of(text.substr(0, end)),
                [&](std::string_view line) { return printable_text(line, max_chars) + '\n'; });
}

std::string preview_row(const Tokenizer& tokenizer, const int32_t* row, int64_t n_ctx) {
  std::string ids;
  for (int64_t t = 0; t < std::min(n_ctx, kBatchIds); ++t)
    ids += fmt::format("{}{}", t == 0 ? "" : " ", row[t]);
  std::string bytes;
  // 50 characters have at most 200 bytes, and every token in the text has at least one byte.
  for (int64_t t = 0; t < n_ctx && std::ssize(bytes) < 4 * kBatchChars; ++t) {
    if (row[t] >= 0) bytes += tokenizer.token_bytes(row[t]);
  }
  return fmt::format("\"{}\"  ids {}{}", printable_text(bytes, kBatchChars), ids,
                     n_ctx > kBatchIds ? " ..." : "");
}

// Returns a token as printable text in quotes, or "-" for an ignored target.
std::string quoted_token(const Tokenizer& tokenizer, int32_t id) {
  if (id < 0) return "-";
  return '"' + printable_text(tokenizer.token_bytes(id), kTokenChars) + '"';
}

int64_t characters(std::string_view text) {
  int64_t n = 0;
  for (size_t at = 0; at < text.size(); ++n)
    at += static_cast<size_t>(decode_utf8(text, at).length);
  return n;
}

}  // namespace

std::string preview_corpus(const Corpus& corpus) {
  const CorpusStats stats = corpus_stats(corpus);
  std::string out = fmt::format("corpus: {} in {}, {}", format_amount(stats.bytes, "byte"),
                                format_amount(std::ssize(corpus.documents), "document"),
                                format_amount(stats.distinct_bytes, "distinct byte"));
  if (stats.chars) {
    out += fmt::format("; {}, {} distinct\n", format_amount(*stats.chars, "character"),
                       format_thousands(*stats.distinct_chars));
  } else {
    out += "; not valid UTF-8\n";
  }
  out += printable_lines(corpus.text, kCorpusChars);
  return out;
}

std::string preview_split(const TokenSplit& split, const Tokenizer& tokenizer) {
  return fmt::format("tokens: {} for training, {} for validation; {} tokenizer, vocabulary {}\n",
                     format_thousands(split.train.size()), format_thousands(split.val.size()),
                     tokenizer.kind(), format_thousands(tokenizer.vocab_size()));
}

std::string preview_batch(const Tokenizer& tokenizer, const int32_t* ids, const int32_t* targets,
                          int64_t rows, int64_t batch_size, int64_t n_ctx) {
  const int64_t shown = std::min(rows, kPreviewRows);
  std::string out = fmt::format("batch: x [{}, {}], y [{}, {}], int32", batch_size, n_ctx, batch_size, n_ctx);
  if (shown < batch_size) out += shown == 1 ? "; first row:" : fmt::format("; first {} rows:", shown);
  out += "\n";
  for (int64_t row = 0; row < shown; ++row) {
    out += fmt::format("  x[{}] {}\n", row, preview_row(tokenizer, ids + row * n_ctx, n_ctx));
    out += fmt::format("  y[{}] {}\n", row, preview_row(tokenizer, targets + row * n_ctx, n_ctx));
  }
  return out;
}

std::string preview_pairs(const Tokenizer& tokenizer, const int32_t* ids, const int32_t* targets,
                          int64_t n_ctx) {
  constexpr int64_t kLineChars = 80;
  std::string lines[] = {"  position", "  x       ", "  id      ", "  y       ", "  id      "};
  int64_t t = 0;
  for (; t < std::min(n_ctx, kBatchIds); ++t) {
    const std::string cells[] = {fmt::format("{}", t), quoted_token(tokenizer, ids[t]),
                                 fmt::format("{}", ids[t]), quoted_token(tokenizer, targets[t]),
                                 fmt::format("{}", targets[t])};
    int64_t width = 0;
    for (const std::string& cell : cells)
      width = std::max(width, characters(cell));
    if (t > 0 && characters(lines[0]) + 2 + width > kLineChars) break;
    for (size_t i = 0; i < std::size(cells); ++i)
      lines[i] += std::string(static_cast<size_t>(2 + width - characters(cells[i])), ' ') + cells[i];
  }
  std::string out = fmt::format("the first {} tokens of x[0], each with its target token y[0] below\n", t);
  for (const std::string& line : lines)
    out += line + '\n';
  return out;
}

}  // namespace gpt
