// Draws the model architecture as boxes and wires in an SVG picture. `page/diagram.js` draws the same diagram
// on the HTML page.

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/ranges.h"
#include "report/utf8_text.h"
#include "trace/figures.h"
#include "trace/picture.h"

namespace gpt {
namespace {

// One element of a vertical chain: a box, a plain wire, or a sum that joins the residual wire.
struct Link {
  enum class Kind { wire, box, sum };
  Ink ink = Ink::plain;
  std::string label = {}, note = {};
  std::string wire = {};  // shape of the tensor on the wire after this element
  Kind kind = Kind::box;
  bool branches = false;  // true if the next residual connection starts after this element
};
using Chain = std::vector<Link>;

const char* norm_name(const ModelConfig& c) {
  return c.norm == NormKind::rms ? "RMSNorm" : "LayerNorm";
}

const char* act_name(Act act) {
  constexpr const char* kNames[] = {"GELU (tanh form)", "GELU", "ReLU", "ReLU²", "SiLU(gate) × fc"};
  return kNames[static_cast<size_t>(act)];
}

std::string stream(const ModelConfig& c) {
  return fmt::format("[T, {}]", c.n_embd);
}

Link norm_link(const ModelConfig& c, const char* where) {
  const char* parameters = !c.norm_affine ? "no parameters" : c.has_norm_bias() ? "gain and bias" : "gain";
  return {Ink::norm, norm_name(c), fmt::format("{}, {}", where, parameters), stream(c)};
}

std::string matrix(int64_t in, int64_t out, bool bias) {
  return fmt::format("{} → {}{}", in, out, bias ? " + bias" : "");
}

Chain model_chain(const ModelConfig& c) {
  const bool pre = c.norm_position == NormPosition::pre;
  const std::string embedding = fmt::format("[{}, {}]", c.vocab_size, c.n_embd);
  const std::string logits = fmt::format("[T, {}] logits", c.vocab_size);
  Chain chain = {{.wire = "T ids", .kind = Link::Kind::wire}};
  chain.push_back({Ink::embedding, "Token embedding", embedding, stream(c)});
  if (c.position == Position::learned)
    chain.push_back(
        {Ink::embedding, "+ position embedding", fmt::format("[{}, {}]", c.n_ctx, c.n_embd), stream(c)});
  if (c.embd_norm) chain.push_back({Ink::norm, norm_name(c), "embedding norm, no parameters", stream(c)});
  chain.push_back({Ink::plain, fmt::format("{} block{}", c.n_layer, c.n_layer == 1 ? "" : "s"),
                   pre ? "norm before each sub-layer" : "norm after each sub-layer", stream(c)});
  if (c.final_norm) chain.push_back(norm_link(c, "final norm"));
  chain.push_back(
      {Ink::embedding, "Output head", c.tie_embeddings ? "tied to the token embedding" : embedding, logits});
  if (c.logit_softcap > 0)
    chain.push_back({Ink::norm, "Softcap", fmt::format("{0:g} tanh(z / {0:g})", c.logit_softcap), logits});
  chain.push_back(
      {Ink::plain, "Softmax", "probabilities of the next token", fmt::format("[T, {}]", c.vocab_size)});
  return chain;
}

void add_attention(Chain& chain, const ModelConfig& c) {
  const std::string q = fmt::format("[T, {}, {}]", c.n_head, c.head_dim);
  const std::string qk = c.n_kv_head == c.n_head
                             ? "q, k, v: " + q
                             : fmt::format("q: {}; k, v: [T, {}, {}]", q, c.n_kv_head, c.head_dim);
  chain.push_back({Ink::attention, "Query, key, value", matrix(c.n_embd, c.qkv_dim(), c.qkv_bias), qk});
  if (c.position == Position::rope)
    chain.push_back(
        {Ink::attention, "Rotate q and k", fmt::format("by position, base {:g}", c.rope_theta), qk});
  if (c.qk_norm) chain.push_back({Ink::norm, "RMSNorm of q and k", "per head, no parameters", qk});
  chain.push_back(
      {Ink::attention, fmt::format("q·k / √{}", c.head_dim),
       c.sliding_window > 0 ? fmt::format("causal mask, last {} keys", c.sliding_window) : "causal mask",
       fmt::format("[{}, T, T]", c.n_head)});
  const int64_t shared = c.n_head / c.n_kv_head;
  chain.push_back(
      {Ink::attention, "Softmax, then × v",
       shared == 1 ? "separate v for each head" : fmt::format("{} heads share one k and v", shared), q});
  chain.push_back({Ink::attention, "Projection", matrix(c.q_dim(), c.n_embd, c.out_bias), stream(c)});
}

void add_mlp(Chain& chain, const ModelConfig& c) {
  const char* twice = c.is_gated() ? "2 × " : "";
  chain.push_back({Ink::mlp, c.is_gated() ? "fc and gate" : "fc",
                   fmt::format("{} → {}{}{}", c.n_embd, twice, c.d_ff, c.mlp_bias ? " + bias" : ""),
                   fmt::format("[T, {}{}]", twice, c.d_ff)});
  chain.push_back({Ink::mlp, act_name(c.act), "applied to each neuron", fmt::format("[T, {}]", c.d_ff)});
  chain.push_back({Ink::mlp, "Projection", matrix(c.d_ff, c.n_embd, c.mlp_bias), stream(c)});
}

Chain block_chain(const ModelConfig& c) {
  const bool pre = c.norm_position == NormPosition::pre;
  const Link sum = {.wire = stream(c), .kind = Link::Kind::sum};
  Chain chain = {{.wire = stream(c), .kind = Link::Kind::wire, .branches = true}};
  if (pre) chain.push_back(norm_link(c, "norm 1"));
  add_attention(chain, c);
  chain.push_back(sum);
  if (!pre) chain.push_back(norm_link(c, "norm 1"));
  chain.back().branches = true;
  if (pre) chain.push_back(norm_link(c, "norm 2"));
  add_mlp(chain, c);
  chain.push_back(sum);
  if (!pre) chain.push_back(norm_link(c, "norm 2"));
  return chain;
}

constexpr double kBoxWidth = 250, kBoxHeight = 48, kGap = 30, kRadius = 12, kTop = 72, kDetour = 22;

double height_of(const Link& link) {
  return link.kind == Link::Kind::box ? kBoxHeight : link.kind == Link::Kind::sum ? 2 * kRadius : 0;
}

double height_of(const Chain& chain) {
  return sum_of(chain, [](const Link& link) { return height_of(link) + kGap; });
}

void draw_box(Picture& picture, const Link& link, double x, double y) {
  picture.box(x, y, kBoxWidth, kBoxHeight, link.ink);
  picture.area(x, y + 8, 5, kBoxHeight - 16, link.ink, 1);
  picture.text(x + 16, y + 21, "gc-end", link.label);
  picture.text(x + 16, y + 38, "gc-text", link.note);
}

void draw_chain(Picture& picture, const Chain& chain, double x) {
  const double middle = x + kBoxWidth / 2;
  double y = kTop, branch = kTop;
  for (const Link& link : chain) {
    if (link.kind == Link::Kind::box) {
      draw_box(picture, link, x, y);
    } else if (link.kind == Link::Kind::sum) {
      // The residual wire bypasses all elements after the last branch.
      const double at = y + kRadius;
      picture.path(fmt::format("M{0:.1f} {1:.1f}H{2:.1f}V{3:.1f}H{4:.1f}", middle, branch, x - kDetour, at,
                               middle - kRadius),
                   Ink::embedding);
      picture.circle(middle, at, kRadius, Ink::embedding);
      picture.text(middle, at + 5, "gc-end gc-middle", "+");
    }
    y += height_of(link);
    if (link.branches) branch = y + 8;
    picture.line(middle, y, middle, y + kGap);
    picture.text(middle + 9, y + kGap / 2 + 5, "gc-tick", link.wire);
    y += kGap;
  }
  picture.path(fmt::format("M{0:.1f} {1:.1f}L{2:.1f} {3:.1f}L{4:.1f} {1:.1f}", middle - 5, y - 7, middle, y,
                           middle + 5),
               Ink::plain);
}

// Returns the width of a chain, including the shape labels of its wires.
double reach_of(const Chain& chain) {
  constexpr double kLetter = 7.2;  // mean letter width in pixels of the widest font
  double reach = kBoxWidth;
  for (const Link& link : chain)
    reach = std::max(reach, kBoxWidth / 2 + 9 + kLetter * display_width(link.wire));
  return reach;
}

void draw_legend(Picture& picture, double x, double y) {
  constexpr std::pair<Ink, const char*> kInks[] = {{Ink::embedding, "embedding and residual stream"},
                                                   {Ink::norm, "norm"},
                                                   {Ink::attention, "attention"},
                                                   {Ink::mlp, "MLP"}};
  for (const auto& [ink, name] : kInks) {
    picture.area(x, y, 12, 12, ink, 1);
    picture.text(x + 18, y + 11, "gc-text", name);
    x += 46 + 7 * display_width(name);
  }
}

}  // namespace

std::string architecture_svg(const ModelConfig& config, const std::string& name) {
  const Chain model = model_chain(config), block = block_chain(config);
  constexpr double kLeft = 16, kRight = kLeft + kBoxWidth + 60;
  const double bottom = kTop + std::max(height_of(model), height_of(block));
  Picture picture(kRight + std::max(kBoxWidth + 76, reach_of(block) + 16), bottom + 44,
                  "Architecture of " + name);
  picture.text(kLeft, 28, "gc-title", name);
  picture.text(kLeft, 54, "gc-text", "the model, T tokens");
  picture.text(kRight, 54, "gc-text",
               config.n_layer == 1 ? "the block" : fmt::format("one of its {} blocks", config.n_layer));
  draw_chain(picture, model, kLeft);
  draw_chain(picture, block, kRight);
  draw_legend(picture, kLeft, bottom + 18);
  return picture.document();
}

}  // namespace gpt
