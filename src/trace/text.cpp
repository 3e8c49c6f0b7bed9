#include "trace/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/ranges.h"
#include "model/config.h"
#include "model/model_counts.h"
#include "report/table.h"
#include "report/utf8_text.h"
#include "tensor/element.h"

namespace gpt {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Change, added, absolute, relative, cosine, norm)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Neuron, index, value)

namespace {

std::string heading(const std::string& title, const TraceRequest& request) {
  return request.colour ? "\n\x1b[1m" + title + "\x1b[0m\n" : "\n" + title + "\n";
}

constexpr int64_t kMaxHeat = 40;  // maximum number of tokens in a heat map: 80 columns

std::string steps_table(const Capture& capture, int64_t layer) {
  TextTable table{.columns = {"step", "shape", "|x| per token", "rms", "min", "max", ""}};
  for (const BlockStep& s : block_steps(capture, layer)) {
    const bool weights = s.name == "attention";
    table.rows.push_back({s.name, shape_string(s.shape), weights ? "" : fixed(mean_row_norm(s.view), 4),
                          fixed(s.rms, 4), fixed(s.low, 3), fixed(s.high, 3), s.about});
  }
  return format_table(table);
}

// Returns the three keys with the largest attention weights for a query.
std::string looks_at(const Capture& capture, const TokenNames& names, int64_t layer, int64_t head,
                     int64_t query) {
  const TensorView weights = capture.block(layer).weights;
  auto keys = transformed_indices(query + 1, [&](int64_t t) {
    return std::pair(-element(weights, head * capture.n_tokens() + query, t), t);
  });
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
  TextTable table{.columns = {"head", "entropy", "itself", "previous", "first", "distance", "pattern",
                              fmt::format("token {} ({}) attends to", query, token)}};
  for (int64_t head = 0; head < capture.config().n_head; ++head) {
    const HeadSummary s = head_summary(capture, layer, head);
    table.rows.push_back({std::to_string(head), fixed(s.entropy, 2), fixed(s.self, 2), fixed(s.previous, 2),
                          fixed(s.first, 2), fixed(s.distance, 1), head_habit(s),
                          looks_at(capture, names, layer, head, query)});
  }
  return "Attention of each head, mean over all tokens: entropy in bits; weight of the token itself, the\n"
         "previous token and the first token; distance of the attended tokens.\n" +
         format_table(table);
}

std::vector<std::string> token_labels(const Capture& capture, const TokenNames& names, int64_t count) {
  return transformed_indices(count, [&](int64_t t) {
    return fmt::format("{} {:>3}", names.short_name(capture.ids()[static_cast<size_t>(t)], 10), t);
  });
}

std::string head_map(const Capture& capture, const TokenNames& names, const TraceRequest& r, int64_t layer) {
  const int64_t T = capture.n_tokens(), shown = std::min(T, kMaxHeat);
  const auto values = transformed_indices(shown, [&](int64_t i) {
    return transformed_indices(shown, [&](int64_t j) {
      return is_masked(capture.config(), i, j) ? NAN
                                               : element(capture.block(layer).weights, r.head * T + i, j);
    });
  });
  std::string out = fmt::format(
      "Head {}: one row per query and one column per key, in token order; later keys {}are masked.\n", r.head,
      capture.config().sliding_window > 0
          ? fmt::format("and keys outside the window of {} tokens ", capture.config().sliding_window)
          : "");
  out += heat_rows(values, token_labels(capture, names, shown), r.unicode);
  return T > shown ? out + fmt::format("the first {} of {} tokens\n", shown, T) : out;
}

// Returns a table for one query. For each key, it shows the dot product, the scaled score, the masked score
// and the softmax weight.
std::string score_table(const Capture& capture, const TokenNames& names, const TraceRequest& r,
                        int64_t layer) {
  const int64_t query = chosen_query(capture, r), D = capture.config().head_dim;
  const std::vector<AttentionScore> row = score_row(capture, layer, r.head, query);
  TextTable table{
      .columns = {"key", "token", "q.k", fmt::format("x 1/sqrt({})", D), "masked", "softmax", ""}};
  const auto T = static_cast<int64_t>(row.size());
  // The table has at most 30 keys before the query and 2 keys after it.
  for (int64_t t = std::max<int64_t>(0, query - 30); t < std::min(T, query + 3); ++t) {
    const AttentionScore& s = row[static_cast<size_t>(t)];
    table.rows.push_back({std::to_string(t), names.quoted(capture.ids()[static_cast<size_t>(t)], 16),
                          fixed(s.dot, 4), fixed(s.scaled, 4), s.masked ? "-inf" : fixed(s.scaled, 4),
                          fixed(s.weight, 4),
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
      "MLP: {} of all (token, neuron) pairs are active; {} of the {} neurons are inactive for all tokens.\n"
      "Strongest neurons of token {}:{}\n",
      format_percent(s.active), format_percent(s.never), capture.config().d_ff, query, top);
}

std::string block_text(const Capture& capture, const TokenNames& names, const TraceRequest& r,
                       int64_t layer) {
  std::string out = heading(fmt::format("Block {}", layer), r) + steps_table(capture, layer) + "\n";
  if (r.head < 0) {
    out += heads_table(capture, names, r, layer);
  } else {
    out += head_map(capture, names, r, layer) + "\n" + score_table(capture, names, r, layer);
  }
  return out + "\n" + mlp_text(capture, r, layer);
}

constexpr int64_t kMaxPositions = 64;
constexpr size_t kLensTokens = 6;  // maximum number of token columns in the logit lens table

std::string candidate(const TokenNames& names, const Candidate& c, int width) {
  return fmt::format("{} {:.1f}%", names.short_name(c.id, width), 100 * c.probability);
}

std::string positions_table(const std::vector<Prediction>& all, const Capture& capture,
                            const TokenNames& names, const TraceRequest& r) {
  TextTable table{
      .columns = {"pos", "after", "entropy", "actual next", "p", "rank", "most likely next tokens"}};
  const size_t first = all.size() > kMaxPositions ? all.size() - kMaxPositions : 0;
  for (size_t t = first; t < all.size(); ++t) {
    const Prediction& p = all[t];
    std::string top;
    for (size_t i = 0; i < std::min<size_t>(p.top.size(), 4); ++i)
      top += (i > 0 ? "  " : "") + candidate(names, p.top[i], 8);
    const bool known = p.next >= 0;
    table.rows.push_back({std::to_string(t), names.short_name(capture.ids()[t], 10), fixed(p.entropy, 2),
                          known ? names.short_name(p.next, 10) : "",
                          known ? format_percent(p.next_probability) : "",
                          known ? std::to_string(p.next_rank) : "", top});
  }
  std::string out = heading("Next tokens at every position", r);
  out += fmt::format("{} [{},{}] logits; softmax converts them to probabilities. Entropy in bits.\n",
                     capture.config().final_norm ? "Final norm and head give" : "The head gives",
                     capture.n_tokens(), capture.config().vocab_size);
  if (first > 0) out += fmt::format("the last {} of {} positions\n", kMaxPositions, all.size());
  return out + format_table(table);
}

std::string ranking(const Prediction& last, const TokenNames& names, const TraceRequest& r) {
  std::string out = heading(fmt::format("Top {} next tokens", last.top.size()), r);
  for (size_t i = 0; i < last.top.size(); ++i) {
    const Candidate& c = last.top[i];
    out += fmt::format("{:>3}. Token {}{}: {:.2f} %  (logit {:.4f})\n", i + 1, c.id,
                       names.known() ? " " + names.quoted(c.id, 20) : "", 100 * c.probability, c.logit);
  }
  return out;
}

// Returns a table of the top predictions after every layer, for the last tokens of the prompt.
std::string lens_text(const LogitLens& lens, const Capture& capture, const TokenNames& names,
                      const TraceRequest& r) {
  const size_t T = capture.ids().size(), first = T > kLensTokens ? T - kLensTokens : 0;
  TextTable table{.columns = {"after"}};
  for (size_t t = first; t < T; ++t)
    table.columns.push_back(fmt::format("{} {}", t, names.short_name(capture.ids()[t], 8)));
  for (size_t i = 0; i < lens.size(); ++i) {
    std::vector<std::string> row = {i == 0 ? "embedding" : fmt::format("block {}", i - 1)};
    for (size_t t = first; t < T; ++t) {
      const Candidate& c = lens[i][t].top.front();
      row.push_back(fmt::format("{} {:.0f}%", names.short_name(c.id, 8), 100 * c.probability));
    }
    table.rows.push_back(row);
  }
  return heading("Logit lens", r) +
         fmt::format(
             "Predictions if the model stopped after a given block: {} applied to the block's output.\n",
             capture.config().final_norm ? "final norm and head" : "the head") +
         format_table(table);
}

std::string predictions_text(Capture& capture, const TokenNames& names, const TraceRequest& r) {
  const std::vector<Prediction> all = predictions(capture, r.top_k);
  return lens_text(logit_lens(capture, 1), capture, names, r) + positions_table(all, capture, names, r) +
         ranking(all.back(), names, r);
}

constexpr int64_t kMaxRows = 64;  // maximum number of rows in a table with one row per token

void check(const Capture& capture, const TraceRequest& r) {
  const auto in_range = [](const char* key, int64_t value, int64_t count, const char* what) {
    if (count == 0 && value > 0) fail_parameter(key, "the model has none, found {}", value);
    if (count > 0 && (value < -1 || value >= count))
      fail_parameter(key, "expected 0 to {}, found {}: {}", count - 1, value, what);
  };
  in_range("block", r.block, capture.n_layer(), "the model has no such block");
  in_range("head", r.head, capture.config().n_head, "the model has no such head");
  in_range("query", r.query, capture.n_tokens(), "the prompt has no such token");
}

std::string facts(const Capture& capture, const TraceRequest& r) {
  const ModelConfig& c = capture.config();
  const ModelCounts counts(c);
  std::string heads = fmt::format("{} of width {}", format_amount(c.n_head, "head"), c.head_dim);
  if (c.n_kv_head != c.n_head) heads += fmt::format(", {} KV heads", c.n_kv_head);
  return fmt::format("{}: {} parameters, {}, width {}, {}, vocabulary {}\n", visible_text(r.model),
                     format_thousands(counts.total), format_amount(c.n_layer, "block"), c.n_embd, heads,
                     format_thousands(c.vocab_size)) +
         fmt::format("{} {} computed in {}; {} of intermediate results\n", capture.n_tokens(),
                     capture.n_tokens() == 1 ? "token" : "tokens", r.computed, format_bytes(capture.bytes()));
}

// Returns a table with one row per token: the token and the norm of its embedding before the first layer.
std::string tokens_text(const Capture& capture, const TokenNames& names, const TraceRequest& r) {
  const TensorView positions = capture.position_rows();
  const TensorView sum = capture.residual(0);
  TextTable table{.columns = {"pos", "id"}};
  if (names.known()) table.columns.insert(table.columns.end(), {"token", "bytes"});
  table.columns.push_back("|token row|");
  if (positions) table.columns.push_back("|position row|");
  if (positions || capture.embedding_sum())
    table.columns.push_back(capture.n_layer() > 0 ? "|input of block 0|" : "|input of the head|");
  for (int64_t t = 0; t < std::min(capture.n_tokens(), kMaxRows); ++t) {
    const int32_t id = capture.ids()[static_cast<size_t>(t)];
    std::vector<std::string> row = {std::to_string(t), std::to_string(id)};
    if (names.known()) row.insert(row.end(), {names.quoted(id, 20), names.hex(id, 8)});
    row.push_back(fixed(row_norm(capture.token_rows(), t), 4));
    if (positions) row.push_back(fixed(row_norm(positions, t), 4));
    row.push_back(fixed(row_norm(sum, t), 4));
    table.rows.push_back(row);
  }
  const ModelConfig& c = capture.config();
  std::string how =
      fmt::format("Each token id selects a row of the {} x {} embedding matrix", c.vocab_size, c.n_embd);
  if (positions) how += ", a learned row for its position is added";
  if (c.embd_norm) how += ", and a norm is applied";
  return heading("Tokens and embedding", r) + how +
         fmt::format(": [{},{}].\n", capture.n_tokens(), c.n_embd) + format_table(table) +
         (capture.n_tokens() > kMaxRows ? fmt::format("... and {} more\n", capture.n_tokens() - kMaxRows)
                                        : "");
}

std::string rope_text(const Capture& capture, const TraceRequest& r) {
  const ModelConfig& c = capture.config();
  if (c.position != Position::rope) return "";
  const std::vector<double> frequencies = rope_frequencies(rope_of(c));
  const int64_t last = capture.n_tokens() - 1;
  TextTable table{.columns = {"pair", "channels", "frequency", "angle per token", "positions per rotation",
                              fmt::format("angle at {}", last)}};
  const auto n = static_cast<int64_t>(frequencies.size());
  for (int64_t i = 0; i < n; ++i) {
    if (i >= 4 && i + 1 < n) continue;
    const double f = frequencies[static_cast<size_t>(i)];
    const bool halves = c.rope_layout == RopeLayout::halves;
    table.rows.push_back({std::to_string(i),
                          halves ? fmt::format("{}, {}", i, i + n) : fmt::format("{}, {}", 2 * i, 2 * i + 1),
                          fixed(f, 6), fmt::format("{:.4f} rad", f), fixed(2 * M_PI / f, 1),
                          fixed(f * static_cast<double>(last), 5)});
  }
  return heading("Rotary positions", r) +
         fmt::format(
             "Queries and keys of each head are rotated by position x frequency: {} pairs of channels, "
             "direction {:+}.\n",
             n, c.rope_sign) +
         format_table(table);
}

// Returns a table of the change that each sub-layer makes to the residual stream.
std::string changes_text(const Capture& capture, const TraceRequest& r) {
  TextTable table{.columns = {"", "shape", "|stream|", "|change|", "relative", "cosine", ""}};
  const std::string shape = fmt::format("[{},{}]", capture.n_tokens(), capture.config().n_embd);
  table.rows.push_back({"embedding", shape, fixed(frobenius(capture.residual(0)), 3)});
  for (int64_t layer = 0; layer < capture.n_layer(); ++layer) {
    const BlockChange b = block_change(capture, layer);
    const auto add = [&](const std::string& name, const Change& c) {
      const auto bar = static_cast<size_t>(std::lround(20 * std::min(c.relative, 2.0) / 2));
      table.rows.push_back({name, shape, fixed(c.norm, 3), fixed(c.absolute, 3), fixed(c.relative, 3),
                            fmt::format("{:+.3f}", c.cosine), std::string(bar, '=')});
    };
    add(fmt::format("block {} attention", layer), b.attention);
    add(fmt::format("block {} mlp", layer), b.mlp);
    add(fmt::format("block {} in total", layer), b.block);
  }
  if (capture.config().final_norm)
    table.rows.push_back({"final norm", shape, fixed(frobenius(capture.normed()), 3)});
  return heading("The residual stream", r) +
         "Change of the stream by each sub-layer: |after - before| over all tokens, and relative to\n"
         "|before|; cosine of the angle between before and after. A bar of 20 \"=\" is a change of 200 %.\n" +
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
  return heading("KV cache", r) +
         fmt::format("Keys and values: 2 x {} x {} x {} channels per token.\n",
                     format_amount(capture.n_layer(), "block"),
                     format_amount(capture.config().n_kv_head, "head"), capture.config().head_dim) +
         format_table(table);
}

using nlohmann::json;

json tokens_json(const Capture& capture, const TokenNames& names) {
  return transformed(capture.ids(), [&](int32_t id) {
    json token = {{"id", id}};
    if (names.known()) token.update({{"text", names.raw(id)}, {"bytes", names.hex(id, SIZE_MAX)}});
    return token;
  });
}

json prediction_json(const Prediction& p, const TokenNames& names) {
  const auto top = transformed(p.top, [&](const Candidate& c) {
    json entry = {{"id", c.id}, {"logit", c.logit}, {"probability", c.probability}};
    if (names.known()) entry["text"] = names.raw(c.id);
    return entry;
  });
  json out = {{"top", top}, {"entropy_bits", p.entropy}, {"log_sum", p.log_sum}};
  if (p.next >= 0)
    out.update({{"next", {{"id", p.next}, {"probability", p.next_probability}, {"rank", p.next_rank}}}});
  return out;
}

json block_json(const Capture& capture, int64_t layer, int64_t top_k) {
  const BlockChange change = block_change(capture, layer);
  const auto heads = transformed_indices(capture.config().n_head, [&](int64_t head) {
    const HeadSummary s = head_summary(capture, layer, head);
    return json{{"entropy_bits", s.entropy}, {"itself", s.self},       {"previous", s.previous},
                {"first", s.first},          {"distance", s.distance}, {"habit", head_habit(s)}};
  });
  const MlpSummary mlp = mlp_summary(capture, layer);
  return {{"attention", change.attention},
          {"mlp", change.mlp},
          {"block", change.block},
          {"heads", heads},
          {"active", mlp.active},
          {"never_active", mlp.never},
          {"top_neurons_of_last_token", top_neurons(capture, layer, capture.n_tokens() - 1, top_k)}};
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
      // The square root makes small weights visible.
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
    if (r.block < 0 || r.block == layer) out += block_text(capture, names, r, layer);
  }
  return out + predictions_text(capture, names, r) + cache_text(capture, r);
}

std::string trace_json(Capture& capture, const TokenNames& names, const TraceRequest& r) {
  const ModelCounts counts(capture.config());
  const auto activations = transformed(capture.activations(), [](const NamedActivation& a) {
    return json{{"name", a.name},
                {"shape", a.shape},
                {"norm", frobenius(a.view)},
                {"mean_row_norm", mean_row_norm(a.view)}};
  });
  const auto blocks = transformed_indices(capture.n_layer(),
                                          [&](int64_t layer) { return block_json(capture, layer, r.top_k); });
  const auto row_json = [&](const std::vector<Prediction>& row) {
    return json(transformed(row, [&](const Prediction& p) { return prediction_json(p, names); }));
  };
  const json out = {{"model", r.model},
                    {"computed", r.computed},
                    {"config", model_keys_json(capture.config())},
                    {"parameters", counts.total},
                    {"kv_cache_bytes_per_token",
                     {{"fp32", counts.cache_bytes_per_token(4)}, {"bf16", counts.cache_bytes_per_token(2)}}},
                    {"tokens", tokens_json(capture, names)},
                    {"activations", activations},
                    {"blocks", blocks},
                    {"lens", transformed(logit_lens(capture, 1), row_json)},
                    {"predictions", row_json(predictions(capture, r.top_k))}};
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace gpt
