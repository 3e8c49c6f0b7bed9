#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "report/table.h"
#include "tensor/element.h"
#include "trace/steps.h"
#include "trace/text.h"

namespace gpt {
namespace {

constexpr int64_t kMaxHeat = 40;  // tokens of a heat map: 80 columns

std::string steps_table(const Capture& capture, int64_t layer) {
  TextTable table{.columns = {"step", "shape", "|x| per token", "rms", "min", "max", ""}};
  for (const BlockStep& s : block_steps(capture, layer)) {
    const bool weights = s.name == "attention";
    table.rows.push_back(
        {s.name, shape_string(s.shape), weights ? "" : fmt::format("{:.4f}", mean_row_norm(s.view)),
         fmt::format("{:.4f}", s.rms), fmt::format("{:.3f}", s.low), fmt::format("{:.3f}", s.high), s.about});
  }
  return format_table(table);
}

// The keys that a query gives most weight.
std::string looks_at(const Capture& capture, const TokenNames& names, int64_t layer, int64_t head,
                     int64_t query) {
  const TensorView weights = capture.block(layer).weights;
  std::vector<std::pair<double, int64_t>> keys;
  for (int64_t t = 0; t <= query; ++t)
    keys.push_back({-element(weights, head * capture.n_tokens() + query, t), t});
  std::ranges::sort(keys);
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(keys.size(), 3); ++i) {
    const int32_t id = capture.ids()[static_cast<size_t>(keys[i].second)];
    out += fmt::format("{}{} {:.2f}", i > 0 ? "  " : "", names.short_name(id, 8), -keys[i].first);
  }
  return out;
}

int64_t chosen_query(const Capture& capture, const TraceRequest& r) {
  return r.query < 0 ? capture.n_tokens() - 1 : r.query;
}

std::string heads_table(const Capture& capture, const TokenNames& names, const TraceRequest& r,
                        int64_t layer) {
  const int64_t query = chosen_query(capture, r);
  const std::string token = names.short_name(capture.ids()[static_cast<size_t>(query)], 8);
  TextTable table{.columns = {"head", "entropy", "itself", "previous", "first", "distance", "habit",
                              fmt::format("token {} ({}) looks at", query, token)}};
  for (int64_t head = 0; head < capture.config().n_head; ++head) {
    const HeadSummary s = head_summary(capture, layer, head);
    table.rows.push_back({std::to_string(head), fmt::format("{:.2f}", s.entropy),
                          fmt::format("{:.2f}", s.self), fmt::format("{:.2f}", s.previous),
                          fmt::format("{:.2f}", s.first), fmt::format("{:.1f}", s.distance), head_habit(s),
                          looks_at(capture, names, layer, head, query)});
  }
  return "Attention of each head: entropy in bits and weight on the token itself, the previous and the "
         "first\n"
         "one, as means over tokens; how many tokens back it looks.\n" +
         format_table(table);
}

std::vector<std::string> token_labels(const Capture& capture, const TokenNames& names, int64_t count) {
  std::vector<std::string> labels;
  for (int64_t t = 0; t < count; ++t)
    labels.push_back(fmt::format("{} {:>3}", names.short_name(capture.ids()[static_cast<size_t>(t)], 10), t));
  return labels;
}

std::string head_map(const Capture& capture, const TokenNames& names, const TraceRequest& r, int64_t layer) {
  const int64_t T = capture.n_tokens(), shown = std::min(T, kMaxHeat);
  std::vector<std::vector<double>> values(static_cast<size_t>(shown));
  for (int64_t i = 0; i < shown; ++i) {
    for (int64_t j = 0; j < shown; ++j)
      values[static_cast<size_t>(i)].push_back(
          is_masked(capture.config(), i, j) ? NAN : element(capture.block(layer).weights, r.head * T + i, j));
  }
  std::string out = fmt::format(
      "Head {}: a row per query, a column per key, in the order of the tokens; later keys {}are masked.\n",
      r.head, capture.config().sliding_window > 0 ? "and those outside the window " : "");
  out += heat_rows(values, token_labels(capture, names, shown), r.unicode);
  return T > shown ? out + fmt::format("the first {} of {} tokens\n", shown, T) : out;
}

// Dot product, scale, mask, softmax: one row of a head.
std::string score_table(const Capture& capture, const TokenNames& names, const TraceRequest& r,
                        int64_t layer) {
  const int64_t query = chosen_query(capture, r), D = capture.config().head_dim;
  const std::vector<Score> row = score_row(capture, layer, r.head, query);
  TextTable table{
      .columns = {"key", "token", "q.k", fmt::format("x 1/sqrt({})", D), "masked", "softmax", ""}};
  const auto T = static_cast<int64_t>(row.size());
  // Rows around the query, and of those before it the last ones.
  for (int64_t t = std::max<int64_t>(0, query - 30); t < std::min(T, query + 3); ++t) {
    const Score& s = row[static_cast<size_t>(t)];
    table.rows.push_back({std::to_string(t), names.quoted(capture.ids()[static_cast<size_t>(t)], 16),
                          fmt::format("{:.4f}", s.dot), fmt::format("{:.4f}", s.scaled),
                          s.masked ? "-inf" : fmt::format("{:.4f}", s.scaled),
                          fmt::format("{:.4f}", s.weight),
                          std::string(static_cast<size_t>(std::lround(20 * s.weight)), '=')});
  }
  return fmt::format(
             "Head {}, query {}: from dot products to weights. The head's output is the sum of\n"
             "weight x value over all keys.\n",
             r.head, query) +
         format_table(table);
}

std::string mlp_text(const Capture& capture, const TraceRequest& r, int64_t layer) {
  const MlpSummary s = mlp_summary(capture, layer);
  const int64_t query = chosen_query(capture, r);
  std::string top;
  for (const Neuron& n : top_neurons(capture, layer, query, r.top_k))
    top += fmt::format("  {} ({:+.3f})", n.index, n.value);
  return fmt::format(
      "MLP: {} of all (token, neuron) pairs are active, {} of the {} neurons for no token.\n"
      "Strongest neurons of token {}:{}\n",
      format_percent(s.active), format_percent(s.never), capture.config().d_ff, query, top);
}

}  // namespace

std::string detail::block_text(const Capture& capture, const TokenNames& names, const TraceRequest& r,
                               int64_t layer) {
  std::string out = heading(fmt::format("Block {}", layer), r) + steps_table(capture, layer) + "\n";
  if (r.head < 0) {
    out += heads_table(capture, names, r, layer);
  } else {
    out += head_map(capture, names, r, layer) + "\n" + score_table(capture, names, r, layer);
  }
  return out + "\n" + mlp_text(capture, r, layer);
}

}  // namespace gpt
