#include "trace/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tensor/element.h"
#include "trace/picture.h"
#include "trace/views.h"

namespace gpt {
namespace {

constexpr double kEdge = 16, kTitleRoom = 40;
constexpr int64_t kMaxSmall = 32, kMaxLarge = 40;  // maximum number of tokens in a small and in a large map
constexpr size_t kLevels = 12;                     // number of shades in a small map

// Returns the opacity for an attention weight. The square root makes small weights visible.
double shade(double weight) {
  return std::sqrt(std::clamp(weight, 0.0, 1.0));
}

double weight(const Capture& capture, int64_t layer, int64_t head, int64_t query, int64_t key) {
  return element(capture.block(layer).weights, head * capture.n_tokens() + query, key);
}

bool masked(const Capture& capture, int64_t query, int64_t key) {
  return is_masked(capture.config(), query, key);
}

std::string token(const Capture& capture, const TokenNames& names, int64_t t) {
  return names.short_name(capture.ids()[static_cast<size_t>(t)], 10);
}

// Returns a caption that states how many tokens the picture shows.
std::string extent(const Capture& capture, int64_t tokens) {
  return tokens < capture.n_tokens() ? fmt::format("the first {} of {} tokens", tokens, capture.n_tokens())
                                     : fmt::format("{} tokens", tokens);
}

// Draws a legend of the shades for weights from 0 to 1. The legend is at most 250 pixels wide.
void draw_scale(Picture& picture, double x, double y) {
  picture.text(x, y + 11, "gc-text", "weight 0");
  double at = x + 60;
  for (const double w : {0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0}) {
    picture.area(at, y, 16, 14, Ink::embedding, shade(w), fmt::format("{:g}", w));
    at += 16;
  }
  picture.text(at + 6, y + 11, "gc-text", "1");
}

// Draws the attention map of one head with squares of `cell` pixels. All squares of the same shade are one
// SVG path.
void draw_small(Picture& picture, const Capture& capture, int64_t layer, int64_t head, double x, double y,
                int64_t tokens, double cell) {
  std::array<std::vector<std::pair<double, double>>, kLevels + 1> places;
  std::vector<std::pair<double, double>> hidden;
  for (int64_t i = 0; i < tokens; ++i) {
    for (int64_t j = 0; j < tokens; ++j) {
      const std::pair<double, double> place{x + static_cast<double>(j) * cell,
                                            y + static_cast<double>(i) * cell};
      if (masked(capture, i, j)) {
        hidden.push_back(place);
        continue;
      }
      const double s = shade(weight(capture, layer, head, i, j)) * kLevels;
      places[static_cast<size_t>(std::lround(s))].push_back(place);
    }
  }
  picture.squares(hidden, cell, Ink::plain, 0.12);
  for (size_t level = 1; level <= kLevels; ++level)
    picture.squares(places[level], cell - 0.6, Ink::embedding, static_cast<double>(level) / kLevels);
}

std::string all_heads(const Capture& capture) {
  const int64_t tokens = std::min(capture.n_tokens(), kMaxSmall), H = capture.config().n_head;
  const double map = H <= 6 ? 118 : 76, cell = map / static_cast<double>(tokens);
  const double step = map + 14, left = kEdge + 62;
  const double width = std::max(left + static_cast<double>(H) * step + kEdge, 420.0);
  const double top = kTitleRoom + 48;
  Picture picture(width, top + static_cast<double>(capture.n_layer()) * step + 30,
                  "Attention of every head of every block");
  picture.text(kEdge, 28, "gc-title", "Attention: rows are queries, columns are keys");
  draw_scale(picture, kEdge, 44);
  for (int64_t head = 0; head < H; ++head)
    picture.text(left + static_cast<double>(head) * step + map / 2, top - 8, "gc-text gc-middle",
                 fmt::format("head {}", head));
  for (int64_t layer = 0; layer < capture.n_layer(); ++layer) {
    const double y = top + static_cast<double>(layer) * step;
    picture.text(kEdge, y + map / 2, "gc-text", fmt::format("block {}", layer));
    for (int64_t head = 0; head < H; ++head)
      draw_small(picture, capture, layer, head, left + static_cast<double>(head) * step, y, tokens, cell);
  }
  const double bottom = top + static_cast<double>(capture.n_layer()) * step + 12;
  picture.text(kEdge, bottom, "gc-text", extent(capture, tokens) + "; grey: masked");
  return picture.document();
}

std::string one_head(const Capture& capture, const TokenNames& names, int64_t layer, int64_t head) {
  const int64_t tokens = std::min(capture.n_tokens(), kMaxLarge);
  const double cell = std::clamp(460.0 / static_cast<double>(tokens), 12.0, 46.0);
  const double left = kEdge + 84, top = kTitleRoom + 100, side = cell * static_cast<double>(tokens);
  Picture picture(std::max(left + side + 44, 420.0), top + side + 58,
                  fmt::format("Attention of block {}, head {}", layer, head));
  picture.text(kEdge, 28, "gc-title", fmt::format("Block {}, head {}: attention weights", layer, head));
  draw_scale(picture, kEdge, 44);
  for (int64_t t = 0; t < tokens; ++t) {
    const double at = (static_cast<double>(t) + 0.5) * cell;
    picture.text(left - 8, top + at + 4.5, "gc-tick gc-right", token(capture, names, t));
    picture.turned_text(left + at + 3, top - 8, "gc-tick", token(capture, names, t));
  }
  for (int64_t i = 0; i < tokens; ++i) {
    for (int64_t j = 0; j < tokens; ++j) {
      const double x = left + static_cast<double>(j) * cell, y = top + static_cast<double>(i) * cell;
      if (masked(capture, i, j)) {
        picture.area(x, y, cell, cell, Ink::plain, 0.12);
        continue;
      }
      const double w = weight(capture, layer, head, i, j);
      picture.area(
          x, y, cell - 1, cell - 1, Ink::embedding, 0.08 + 0.92 * shade(w),
          fmt::format("{} attends to {}: {:.3f}", token(capture, names, i), token(capture, names, j), w));
      if (cell >= 30 && w >= 0.005)
        picture.text(x + cell / 2, y + cell / 2 + 4.5, w > 0.35 ? "gc-middle gt-on" : "gc-tick gc-middle",
                     fmt::format("{:.2f}", w));
    }
  }
  picture.text(kEdge, top + side + 24, "gc-text", "rows: query tokens; columns: key tokens");
  picture.text(kEdge, top + side + 42, "gc-text", extent(capture, tokens) + "; grey: masked");
  return picture.document();
}

void draw_heat_map(Picture& picture, const HeatMap& map, double x, double y, double cell) {
  picture.text(x, y - 10, "gc-text", map.title);
  for (size_t i = 0; i < map.values.size(); ++i) {
    for (size_t j = 0; j < map.values[i].size(); ++j) {
      const double v = map.values[i][j], at_x = x + static_cast<double>(j) * cell,
                   at_y = y + static_cast<double>(i) * cell;
      const bool masked = std::isnan(v);
      const double share = masked ? 0.12 : map.diverging ? std::min(std::abs(v), 1.0) : shade(v);
      picture.area(at_x, at_y, cell - 1, cell - 1,
                   masked                   ? Ink::plain
                   : map.diverging && v < 0 ? Ink::attention
                                            : Ink::embedding,
                   share);
      picture.text(at_x + cell / 2, at_y + cell / 2 + 4.5,
                   !masked && share > 0.6 ? "gc-middle gt-on" : "gc-tick gc-middle",
                   masked ? "×" : fmt::format("{:.2f}", v));
    }
  }
}

}  // namespace

std::string heat_maps_svg(const std::string& title, const std::vector<HeatMap>& maps) {
  constexpr double kCell = 38;
  size_t columns = 1, rows = 1;
  for (const HeatMap& map : maps) {
    rows = std::max(rows, map.values.size());
    for (const auto& row : map.values)
      columns = std::max(columns, row.size());
  }
  const double step = static_cast<double>(columns) * kCell + 26, top = kTitleRoom + 34;
  Picture picture(2 * kEdge + static_cast<double>(maps.size()) * step - 26,
                  top + static_cast<double>(rows) * kCell + 40, title);
  picture.text(kEdge, 28, "gc-title", title);
  for (size_t i = 0; i < maps.size(); ++i)
    draw_heat_map(picture, maps[i], kEdge + static_cast<double>(i) * step, top, kCell);
  picture.text(kEdge, top + static_cast<double>(rows) * kCell + 24, "gc-text",
               "rows: queries; columns: keys; ×: masked");
  return picture.document();
}

std::string attention_svg(const Capture& capture, const TokenNames& names, int64_t layer, int64_t head) {
  return head < 0 ? all_heads(capture) : one_head(capture, names, std::max<int64_t>(layer, 0), head);
}

std::string residual_svg(const Capture& capture) {
  struct Row {
    std::string name;
    Ink ink;
    double norm, moved;
  };
  const double root = std::sqrt(static_cast<double>(capture.n_tokens()));
  std::vector<Row> rows = {{"embedding", Ink::embedding, frobenius(capture.residual(0)) / root, 0}};
  for (int64_t layer = 0; layer < capture.n_layer(); ++layer) {
    const BlockChange b = block_change(capture, layer);
    rows.push_back({fmt::format("{} attention", layer), Ink::attention, b.attention.norm / root,
                    b.attention.absolute / root});
    rows.push_back({fmt::format("{} MLP", layer), Ink::mlp, b.mlp.norm / root, b.mlp.absolute / root});
  }
  double largest = 1e-30;
  for (const Row& row : rows)
    largest = std::max({largest, row.norm, row.moved});
  constexpr double kWidth = 620, kLeft = 118, kRoom = 350, kStep = 30, kTop = 88;
  Picture picture(kWidth, kTop + kStep * static_cast<double>(rows.size()) + 20,
                  "The residual stream after each sub-layer");
  picture.text(kEdge, 28, "gc-title", "The residual stream after each sub-layer");
  picture.text(kEdge, 50, "gc-text",
               "Pale bar: norm of the stream after the sub-layer (root mean square over tokens).");
  picture.text(kEdge, 68, "gc-text", "Solid bar: norm of the change that the sub-layer makes.");
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const double y = kTop + kStep * static_cast<double>(i), scale = kRoom / largest;
    picture.text(kLeft - 10, y + 16, "gc-text gc-right", row.name);
    picture.area(kLeft, y, std::max(row.norm * scale, 0.5), 22, row.ink, 0.25);
    picture.area(kLeft, y + 5, std::max(row.moved * scale, 0.0), 12, row.ink, 1);
    picture.text(
        kLeft + std::max(row.norm, row.moved) * scale + 8, y + 16, "gc-tick",
        i == 0 ? fmt::format("{:.2f}", row.norm) : fmt::format("{:.2f}, change {:.2f}", row.norm, row.moved));
  }
  return picture.document();
}

}  // namespace gpt
