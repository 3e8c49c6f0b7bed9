#include "trace/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "model/model_counts.h"
#include "report/table.h"
#include "report/utf8_text.h"
#include "tensor/element.h"

namespace gpt {

namespace detail {

std::string heading(const std::string& title, const TraceRequest& request) {
  return request.colour ? "\n\x1b[1m" + title + "\x1b[0m\n" : "\n" + title + "\n";
}

}  // namespace detail

namespace {

using detail::heading;

constexpr int64_t kMaxRows = 64;  // of a table with a line per token

void check(const Capture& capture, const TraceRequest& r) {
  const auto in_range = [](const char* flag, int64_t value, int64_t count, const char* what) {
    if (count == 0 && value > 0) fail_usage("{}: the model has none, found {}", flag, value);
    if (count > 0 && (value < -1 || value >= count))
      fail_usage("{}: expected 0 to {}, found {}: {}", flag, count - 1, value, what);
  };
  in_range("--block", r.block, capture.n_layer(), "the model has no such block");
  in_range("--head", r.head, capture.config().n_head, "the model has no such head");
  in_range("--query", r.query, capture.n_tokens(), "the prompt has no such token");
}

std::string facts(const Capture& capture, const TraceRequest& r) {
  const ModelConfig& c = capture.config();
  const ModelCounts counts(c);
  std::string heads = fmt::format("{} heads of {}", c.n_head, c.head_dim);
  if (c.n_kv_head != c.n_head) heads += fmt::format(" ({} for keys and values)", c.n_kv_head);
  return fmt::format("{}: {} parameters, {} blocks, width {}, {}, vocabulary {}\n", visible_text(r.model),
                     format_thousands(counts.total), c.n_layer, c.n_embd, heads,
                     format_thousands(c.vocab_size)) +
         fmt::format("{} {} through the model in {}; {} of intermediate results\n", capture.n_tokens(),
                     capture.n_tokens() == 1 ? "token" : "tokens", r.computed, format_bytes(capture.bytes()));
}

std::string more_rows(int64_t count) {
  return count > kMaxRows ? fmt::format("... and {} more\n", count - kMaxRows) : "";
}

// Tokens and what they become before the first block, a line each.
std::string tokens_text(const Capture& capture, const TokenNames& names, const TraceRequest& r) {
  const TensorView positions = capture.position_rows();
  const TensorView sum = capture.residual(0);
  TextTable table{.columns = {"pos", "id"}};
  if (names.known()) table.columns.insert(table.columns.end(), {"token", "bytes"});
  table.columns.push_back("|token row|");
  if (positions) table.columns.push_back("|position row|");
  if (positions || capture.embedding_sum())
    table.columns.push_back(capture.n_layer() > 0 ? "|into block 0|" : "|into the head|");
  for (int64_t t = 0; t < std::min(capture.n_tokens(), kMaxRows); ++t) {
    const int32_t id = capture.ids()[static_cast<size_t>(t)];
    std::vector<std::string> row = {std::to_string(t), std::to_string(id)};
    if (names.known()) row.insert(row.end(), {names.quoted(id, 20), names.hex(id, 8)});
    row.push_back(fmt::format("{:.4f}", row_norm(capture.token_rows(), t)));
    if (positions) row.push_back(fmt::format("{:.4f}", row_norm(positions, t)));
    row.push_back(fmt::format("{:.4f}", row_norm(sum, t)));
    table.rows.push_back(row);
  }
  const ModelConfig& c = capture.config();
  std::string how = fmt::format("Each id looks up a row of the {} x {} embedding", c.vocab_size, c.n_embd);
  if (positions) how += ", its position adds a learned row";
  if (c.embd_norm) how += ", and a norm follows";
  return heading("Tokens and embedding", r) + how +
         fmt::format(": [{},{}].\n", capture.n_tokens(), c.n_embd) + format_table(table) +
         more_rows(capture.n_tokens());
}

std::string rope_text(const Capture& capture, const TraceRequest& r) {
  const ModelConfig& c = capture.config();
  if (c.position != Position::rope) return "";
  const std::vector<double> frequencies = rope_frequencies(c);
  const int64_t last = capture.n_tokens() - 1;
  TextTable table{.columns = {"pair", "channels", "frequency", "turn per token", "positions per turn",
                              fmt::format("angle at {}", last)}};
  const auto n = static_cast<int64_t>(frequencies.size());
  for (int64_t i = 0; i < n; ++i) {
    if (i >= 4 && i + 1 < n) continue;
    const double f = frequencies[static_cast<size_t>(i)];
    const bool halves = c.rope_layout == RopeLayout::halves;
    table.rows.push_back({std::to_string(i),
                          halves ? fmt::format("{}, {}", i, i + n) : fmt::format("{}, {}", 2 * i, 2 * i + 1),
                          fmt::format("{:.6f}", f), fmt::format("{:.4f} rad", f),
                          fmt::format("{:.1f}", 2 * M_PI / f),
                          fmt::format("{:.5f}", f * static_cast<double>(last))});
  }
  return heading("Rotary positions", r) +
         fmt::format(
             "Every head's queries and keys turn by position x frequency, {} pairs of channels, "
             "direction {:+}.\n",
             n, c.rope_sign) +
         format_table(table);
}

// One line per sub-layer: how far it moves the stream.
std::string changes_text(const Capture& capture, const TraceRequest& r) {
  TextTable table{.columns = {"", "shape", "|stream|", "|change|", "relative", "cosine", ""}};
  const std::string shape = fmt::format("[{},{}]", capture.n_tokens(), capture.config().n_embd);
  table.rows.push_back({"embedding", shape, fmt::format("{:.3f}", frobenius(capture.residual(0)))});
  for (int64_t layer = 0; layer < capture.n_layer(); ++layer) {
    const BlockChange b = block_change(capture, layer);
    const auto add = [&](const std::string& name, const Change& c) {
      const auto bar = static_cast<size_t>(std::lround(20 * std::min(c.relative, 2.0) / 2));
      table.rows.push_back({name, shape, fmt::format("{:.3f}", c.norm), fmt::format("{:.3f}", c.absolute),
                            fmt::format("{:.3f}", c.relative), fmt::format("{:+.3f}", c.cosine),
                            std::string(bar, '=')});
    };
    add(fmt::format("block {} attention", layer), b.attention);
    add(fmt::format("block {} mlp", layer), b.mlp);
    add(fmt::format("block {} in all", layer), b.block);
  }
  if (capture.config().final_norm)
    table.rows.push_back({"final norm", shape, fmt::format("{:.3f}", frobenius(capture.normed()))});
  return heading("The residual stream", r) +
         "What every sub-layer makes of the stream: |after - before| over all tokens, and as a part of\n"
         "|before|; the cosine between both says how far it turned. A bar of 20 is twice the stream.\n" +
         format_table(table);
}

std::string cache_text(const Capture& capture, const TraceRequest& r) {
  const ModelCounts counts(capture.config());
  const auto bytes = [&](int64_t element, int64_t tokens) {
    return format_bytes(counts.cache_bytes_per_token(element) * tokens);
  };
  TextTable table{.columns = {"tokens", "fp32", "bf16", "int8"}};
  for (const int64_t n : {int64_t{1}, capture.n_tokens(), capture.config().n_ctx})
    table.rows.push_back({format_thousands(n), bytes(4, n), bytes(2, n), bytes(1, n)});
  return heading("Keys and values to keep", r) +
         fmt::format("2 x {} blocks x {} heads x {} numbers for every token that later ones may look at.\n",
                     capture.n_layer(), capture.config().n_kv_head, capture.config().head_dim) +
         format_table(table);
}

}  // namespace

std::string heat_rows(const std::vector<std::vector<double>>& values, const std::vector<std::string>& labels,
                      bool unicode) {
  static constexpr const char* kAscii[] = {" ", ".", ":", "-", "=", "+", "*", "#", "%", "@"};
  static constexpr const char* kShades[] = {" ", "░", "▒", "▓", "█"};
  int width = 0;
  for (const std::string& label : labels)
    width = std::max(width, display_width(label));
  std::string out;
  for (size_t r = 0; r < values.size(); ++r) {
    const std::string label = r < labels.size() ? labels[r] : "";
    std::string line = std::string(static_cast<size_t>(width - display_width(label)), ' ') + label + " |";
    for (const double v : values[r]) {
      if (!(v >= 0)) {
        line += unicode ? " ·" : "  ";
        continue;
      }
      const double x = std::min(v, 1.0);
      // The square root lets small weights be seen.
      const size_t levels = unicode ? 5 : 10;
      const auto level = static_cast<size_t>(std::lround(std::sqrt(x) * static_cast<double>(levels - 1)));
      const char* cell = unicode ? kShades[level] : kAscii[level];
      line += std::string(cell) + cell;
    }
    out += line + "|\n";
  }
  return out;
}

std::string trace_text(Capture& capture, const TokenNames& names, const TraceRequest& r) {
  check(capture, r);
  std::string out = facts(capture, r) + tokens_text(capture, names, r) + rope_text(capture, r);
  out += changes_text(capture, r);
  for (int64_t layer = 0; layer < capture.n_layer(); ++layer) {
    if (r.block < 0 || r.block == layer) out += detail::block_text(capture, names, r, layer);
  }
  return out + detail::predictions_text(capture, names, r) + cache_text(capture, r);
}

}  // namespace gpt
