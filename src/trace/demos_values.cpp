// Demonstrations of single ops: activations, rotary positions, norms.

#include <fmt/format.h>

#include <cmath>

#include "base/ranges.h"
#include "base/rng.h"
#include "model/rope_table.h"
#include "report/svg.h"
#include "report/table.h"
#include "trace/demos.h"
#include "trace/torch_random.h"

namespace gpt::detail {
namespace {

const KernelTable& reference() {
  return kernel_table(Isa::ref);
}

double activation(const DemoContext& context, Activation act, double x) {
  double in = x, out = 0;
  const ExecContext ctx{*context.backend.device, context.backend.pool, reference(), {}};
  reference().act_forward(ctx, {.act = act, .out = make_view(&out, {1, 1}), .x = make_view(&in, {1, 1})});
  return out;
}

constexpr Activation kActs[] = {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::relu2,
                                Activation::silu};

// Plots the activation functions for x from -4 to 4 as text. Each function has its own letter.
std::string plot(const DemoContext& context) {
  constexpr int kWidth = 81, kHeight = 17;
  constexpr double kLow = -0.5, kHigh = 3.5;
  std::vector<std::string> picture(kHeight, std::string(kWidth, ' '));
  const auto set = [&](int column, double y, char mark) {
    const auto row = static_cast<int>(std::lround((kHigh - y) / (kHigh - kLow) * (kHeight - 1)));
    if (row >= 0 && row < kHeight) picture[static_cast<size_t>(row)][static_cast<size_t>(column)] = mark;
  };
  for (int c = 0; c < kWidth; ++c) {
    const double x = -4 + 8.0 * c / (kWidth - 1);
    set(c, 0, '.');
    set(c, activation(context, Activation::relu2, x), '2');
    set(c, activation(context, Activation::silu, x), 's');
    set(c, activation(context, Activation::relu, x), 'r');
    set(c, activation(context, Activation::gelu, x), 'g');
  }
  std::string out;
  for (const std::string& line : picture)
    out += "  |" + line + "\n";
  return out +
         "   -4                                       0                                       4\n"
         "   g GELU   r ReLU   2 ReLU^2   s SiLU\n";
}

constexpr int64_t kLossBatch = 2, kLossTokens = 5, kVocab = 10, kRows = kLossBatch * kLossTokens;
constexpr int32_t kTargets[kRows] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};

// Returns the mean loss over all targets that are not negative. Uses the reference kernel of the loss op.
double mean_loss(const DemoContext& context, std::vector<double> logits, std::span<const int32_t> targets) {
  const auto rows = static_cast<int64_t>(targets.size()), columns = std::ssize(logits) / rows;
  const ExecContext ctx{*context.backend.device, context.backend.pool, reference(), {}};
  std::vector<double> losses(targets.size());
  reference().cross_entropy(ctx, {.logits = make_view(logits.data(), {rows, columns}),
                                  .targets = {targets.data(), targets.size()},
                                  .losses = {losses.data(), losses.size()}});
  double sum = 0;
  int64_t count = 0;
  for (size_t n = 0; n < targets.size(); ++n) {
    if (targets[n] < 0) continue;
    sum += losses[n];
    ++count;
  }
  return sum / static_cast<double>(count);
}

// Returns logits that are `height` at the target and 0 elsewhere.
std::vector<double> peaked(double height) {
  std::vector<double> logits(kRows * kVocab);
  for (int64_t n = 0; n < kRows; ++n)
    logits[static_cast<size_t>(n * kVocab + kTargets[n])] = height;
  return logits;
}

std::vector<double> random_logits(double scale) {
  std::vector<float> drawn(kRows * kVocab);
  TorchRandom(42).normal(drawn);
  std::vector<double> logits(drawn.begin(), drawn.end());
  for (double& x : logits)
    x *= scale;
  return logits;
}

}  // namespace

std::string demo_activations(const DemoContext& context) {
  TextTable table{.columns = {"x", "GELU (erf)", "GELU (tanh)", "ReLU", "ReLU^2", "SiLU"}};
  for (const double x : {-3.0, -2.0, -1.0, -0.7525, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0}) {
    std::vector<std::string> row = {fmt::format("{:g}", x)};
    for (const Activation act : kActs)
      row.push_back(fixed(activation(context, act, x), 4));
    table.rows.push_back(row);
  }
  double gap = 0, gap_at = 0, least[2] = {0, 0}, least_at[2] = {0, 0};
  for (int step = -40000; step <= 40000; ++step) {
    const double x = step * 1e-4, y[2] = {activation(context, Activation::gelu, x),
                                          activation(context, Activation::gelu_tanh, x)};
    if (std::abs(y[0] - y[1]) > gap) gap = std::abs(y[0] - y[1]), gap_at = std::abs(x);
    for (int i = 0; i < 2; ++i) {
      if (y[i] < least[i]) least[i] = y[i], least_at[i] = x;
    }
  }
  return format_table(table) + "\n" + plot(context) +
         fmt::format(
             "GELU(x) is x times the probability that a standard normal variable is below x. The minimum is\n"
             "{:.4f} at x = {:.4f}. The minimum of the tanh form is {:.4f} at x = {:.4f}. The two forms\n"
             "differ by at most {:.1e}, near |x| = {:.2f}. The derivative of ReLU^2 is continuous. The\n"
             "derivative of ReLU jumps at 0.\n",
             least[0], least_at[0], least[1], least_at[1], gap, gap_at);
}

namespace {

// Returns the curve of an activation function f at 300 points from -4 to 4: f(x), or f(x) / x with `gate`. No
// point is exactly 0, so the division is safe.
ChartSeries activation_curve(const DemoContext& context, const char* name, Activation act, int colour,
                             bool gate) {
  ChartSeries series{name, {}, {}, SeriesStyle::line, colour};
  for (int i = 0; i < 300; ++i) {
    const double x = -4 + 8.0 * i / 299, y = activation(context, act, x);
    if (y > 4) break;  // ReLU^2 exceeds the plotted range at x = 2
    series.add(x, gate ? y / x : y);
  }
  return series;
}

}  // namespace

std::string picture_activations(const DemoContext& context) {
  Chart values{.title = "Activations", .x_label = "x", .y_label = "f(x)"};
  values.series = {activation_curve(context, "ReLU", Activation::relu, 3, false),
                   activation_curve(context, "ReLU²", Activation::relu2, 1, false),
                   activation_curve(context, "SiLU", Activation::silu, 2, false),
                   activation_curve(context, "GELU", Activation::gelu, 0, false)};
  values.reference_lines = {{0, ""}};
  Chart gates{.title = "Gates: the fraction of x that passes", .x_label = "x", .y_label = "f(x) / x"};
  gates.series = {activation_curve(context, "ReLU: a step", Activation::relu, 3, true),
                  activation_curve(context, "SiLU: the sigmoid", Activation::silu, 2, true),
                  activation_curve(context, "GELU: ½(1 + tanh …)", Activation::gelu_tanh, 0, true)};
  gates.reference_lines = {{0.5, "half of x passes"}};
  return stacked_charts_svg("Activations and their gates", {values, gates}, kDemoChart);
}

namespace {

// Returns a head vector after RoPE at the given position. Uses the reference kernel of the rope op.
std::vector<double> rotated(const DemoContext& context, const RopeTable& table, std::vector<double> x,
                            int32_t position, int sign) {
  const auto D = static_cast<int64_t>(x.size());
  const ExecContext ctx{*context.backend.device, context.backend.pool, reference(), {}};
  reference().rope(ctx, {.x = make_view(x.data(), {1, D}),
                         .n_head = 1,
                         .head_dim = D,
                         .positions = {&position, 1},
                         .cos = table.cos,
                         .sin = table.sin,
                         .sign = sign});
  return x;
}

ModelConfig rope_config(int64_t D) {
  ModelConfig config;
  config.vocab_size = 2;
  config.n_layer = config.n_head = 1;
  config.n_embd = D;
  config.n_ctx = 128;
  config.position = Position::rope;
  complete(config);
  return config;
}

}  // namespace

std::string demo_rope(const DemoContext& context) {
  constexpr int64_t D = 64;
  const ModelConfig config = rope_config(D);
  const std::vector<double> frequencies = rope_frequencies(rope_of(config));
  const RopeTable table(rope_of(config), config.n_ctx, DType::f64);
  std::string out = fmt::format(
      "Head width {}, base {:g}: {} pairs of channels; cos and sin tables of shape [1, {}, 1, {}].\n", D,
      config.rope_theta, frequencies.size(), config.n_ctx, frequencies.size());
  TextTable pairs{
      .columns = {"pair", "channels", "frequency", "angle at 0", "angle at 10", "cos at 10", "sin at 10"}};
  for (const size_t i : {0u, 1u, 2u, 3u, 31u}) {
    pairs.rows.push_back({std::to_string(i), fmt::format("{}, {}", i, i + D / 2), fixed(frequencies[i], 6),
                          "0", fixed(10 * frequencies[i], 5), fixed(table.cos.row<double>(10)[i], 5),
                          fixed(table.sin.row<double>(10)[i], 5)});
  }
  out += format_table(pairs) + "\nScore of a query at position m and a key at position n after rotation\n";
  RandomStream random(11, RandomSite::sample);
  std::vector<double> q(D), k(D);
  for (std::vector<double>* x : {&q, &k}) {
    for (double& v : *x)
      v = random.normal();
  }
  TextTable scores{
      .columns = {"m", "n", "m - n", "score, direction +1", "score, direction -1", "|q| before", "after"}};
  for (const auto& [m, n] :
       {std::pair{5, 3}, {12, 10}, {102, 100}, {5, 5}, {77, 77}, {3, 5}, {100, 102}, {60, 10}}) {
    std::vector<std::string> row = {std::to_string(m), std::to_string(n), std::to_string(m - n)};
    for (const int sign : {1, -1})
      row.push_back(fmt::format(
          "{:.9f}", dot(rotated(context, table, q, m, sign), rotated(context, table, k, n, sign))));
    const std::vector<double> turned = rotated(context, table, q, m, 1);
    row.push_back(fixed(std::sqrt(dot(q, q)), 6));
    row.push_back(fixed(std::sqrt(dot(turned, turned)), 6));
    scores.rows.push_back(row);
  }
  return out + format_table(scores) +
         "Equal distances give equal scores at all positions, and the rotation does not change |q|. The\n"
         "other direction (nanochat) gives the score of the opposite distance.\n";
}

std::string picture_rope(const DemoContext& context) {
  constexpr int64_t D = 64;
  const RopeTable table(rope_of(rope_config(D)), 128, DType::f64);
  Chart chart{.title = "One query and one key: the score at each distance",
              .x_label = "distance m - n in tokens",
              .y_label = "q.k after rotation (all entries of q and k are 1)"};
  const std::vector<double> ones(D, 1.0);
  ChartSeries series{"", {}, {}, SeriesStyle::line, 0};
  for (int32_t m = 0; m < 128; ++m)
    series.add(m, dot(rotated(context, table, ones, m, 1), rotated(context, table, ones, 0, 1)));
  chart.series = {series};
  return line_chart_svg(chart, kDemoChart);
}

namespace {

std::vector<double> normed(const DemoContext& context, NormKind kind, double eps, std::vector<double> x) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<double> out(x.size());
  const ExecContext ctx{*context.backend.device, context.backend.pool, reference(), {}};
  reference().norm_forward(
      ctx,
      {.kind = kind, .eps = eps, .out = make_view(out.data(), {1, n}), .x = make_view(x.data(), {1, n})});
  return out;
}

struct Moments {
  double mean = 0, variance = 0;  // population variance (divided by n)
};
Moments moments(std::span<const double> x) {
  Moments m;
  const auto n = static_cast<double>(x.size());
  for (const double v : x)
    m.mean += v / n;
  for (const double v : x)
    m.variance += (v - m.mean) * (v - m.mean) / n;
  return m;
}

std::string norm_example(const DemoContext& context, const std::vector<double>& in) {
  const Moments m = moments(in);
  const auto n = static_cast<double>(in.size());
  const double unbiased = m.variance * n / (n - 1);
  const std::vector<double> by_hand =
      transformed(in, [&](double v) { return (v - m.mean) / std::sqrt(unbiased); });
  const auto line = [](const char* name, const std::vector<double>& values) {
    return fmt::format("{:<34}", name) + number_row(values, 9, 4) + "\n";
  };
  return line("x", in) +
         fmt::format("  mean {:.4f}, variance {:.4f} with n-1, {:.4f} with n\n", m.mean, unbiased,
                     m.variance) +
         line("(x - mean) / sqrt(variance, n-1)", by_hand) +
         line("LayerNorm (n, eps 1e-5)", normed(context, NormKind::layer, 1e-5, in)) +
         line("RMSNorm (mean not subtracted)", normed(context, NormKind::rms, 1e-5, in));
}

}  // namespace

std::string demo_norms(const DemoContext& context) {
  std::string out;
  TorchRandom torch(100);
  std::vector<float> examples(10);
  torch.normal(examples);  // the values of torch.randn(2, 5)
  for (size_t row = 0; row < 2; ++row)
    out += norm_example(context, {&examples[5 * row], &examples[5 * row] + 5}) + "\n";
  out += norm_example(context, {100.0, 200.0, 150.0, 175.0}) + "\n";
  RandomStream random(3, RandomSite::sample);
  std::vector<double> wide(768), plain(256);
  for (double& v : wide)
    v = 5 + 10 * random.normal();
  for (double& v : plain)
    v = random.normal();
  const Moments after = moments(normed(context, NormKind::layer, 1e-5, wide));
  out += fmt::format(
      "768 values of 10 * randn + 5 after LayerNorm: mean {:.4f}, std {:.4f} with n, {:.4f} with n-1\n"
      "(the default of PyTorch, larger by a factor of sqrt(768/767)).\n",
      std::abs(after.mean), std::sqrt(after.variance), std::sqrt(after.variance * 768 / 767));
  const std::vector<double> rms = normed(context, NormKind::rms, 1.1920929e-7, plain);
  const Moments before = moments(plain), behind = moments(rms);
  const auto root = [](const Moments& m) { return std::sqrt(m.variance + m.mean * m.mean); };
  return out + fmt::format(
                   "256 values of randn: mean {:.4f}, std {:.4f}, RMS {:.4f}; after RMSNorm mean {:.4f},\n"
                   "std {:.4f}, RMS {:.6f}: RMSNorm keeps the direction and does not subtract the mean.\n",
                   before.mean, std::sqrt(before.variance), root(before), behind.mean,
                   std::sqrt(behind.variance), root(behind));
}

std::string demo_loss(const DemoContext& context) {
  std::string out = fmt::format(
      "logits [{0},{1},{2}] and targets [{0},{1}] are flattened to ({3},{2}) and ({3}): one row per token.\n"
      "The loss is the mean of -ln softmax(logits)[target]; perplexity is e^loss.\n\n",
      kLossBatch, kLossTokens, kVocab, kRows);
  TextTable table{.columns = {"logits", "loss", "perplexity"}};
  const auto add = [&](const char* name, double loss) {
    table.rows.push_back({name, fixed(loss, 4), fixed(std::exp(loss), 2)});
  };
  add("all equal: uniform guess, ln 10", mean_loss(context, peaked(0), kTargets));
  add("0.02 * randn: a model before training", mean_loss(context, random_logits(0.02), kTargets));
  add("randn: confident, but wrong", mean_loss(context, random_logits(1), kTargets));
  add("3 at the target", mean_loss(context, peaked(3), kTargets));
  add("100 at the target: perfect", mean_loss(context, peaked(100), kTargets));
  int32_t half[kRows];
  for (int64_t n = 0; n < kRows; ++n)
    half[n] = n < kLossTokens ? kTargets[n] : -1;
  add("3 at the target, second sequence ignored (-1)", mean_loss(context, peaked(3), half));
  constexpr int64_t kWords = 50257;
  const int32_t word = 0;
  add("all equal, 50,257 tokens: ln 50257", mean_loss(context, std::vector<double>(kWords), {&word, 1}));
  return out + format_table(table);
}

}  // namespace gpt::detail
