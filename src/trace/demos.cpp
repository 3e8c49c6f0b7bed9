#include "trace/demos.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/ranges.h"
#include "base/rng.h"
#include "report/table.h"
#include "trace/figures.h"
#include "trace/text.h"
#include "trace/torch_random.h"

namespace gpt {

std::span<const Demo> demos() {
  static constexpr Demo kDemos[] = {
      {"identity", "A block with all weights 0 does not change the stream", false, detail::demo_identity},
      {"skeleton", "GPT-2 without blocks gives the same logits as PyTorch with seed 100", false,
       detail::demo_skeleton},
      {"mask", "The causal mask: each token sees only itself and earlier tokens", false, detail::demo_mask},
      {"attention", "Attention in five steps", false, detail::demo_attention, detail::picture_attention},
      {"scale", "Why scores are divided by the square root of the head width", false, detail::demo_scale,
       detail::picture_scale},
      {"activations", "GELU, ReLU, ReLU^2 and SiLU", false, detail::demo_activations,
       detail::picture_activations},
      {"rope", "Rotary positions: scores depend only on distances", false, detail::demo_rope,
       detail::picture_rope},
      {"norms", "LayerNorm (variance with n and n-1) and RMSNorm", false, detail::demo_norms},
      {"loss", "Cross-entropy and perplexity for 2 sequences of 5 tokens", false, detail::demo_loss},
      {"cache", "How the KV cache grows", false, detail::demo_cache},
      {"forcing", "Teacher-forced and free-running predictions", true, detail::demo_forcing},
  };
  return kDemos;
}

namespace detail {

std::string number_row(std::span<const double> values, int width, int digits) {
  std::string out;
  for (const double v : values)
    out += std::isinf(v) ? fmt::format("{:>{}}", v < 0 ? "-inf" : "inf", width)
                         : fmt::format("{:{}.{}f}", v, width, digits);
  return out;
}

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

std::string demo_mask(const DemoContext&) {
  static constexpr const char* kWords[] = {"The", "cat", "sat", "on", "the", "mat"};
  constexpr size_t n = std::size(kWords);
  std::string out = "      ";
  for (const char* word : kWords)
    out += fmt::format("{:>5}", word);
  out += "\n";
  for (size_t i = 0; i < n; ++i) {
    out += fmt::format("{:>5} ", kWords[i]);
    for (size_t j = 0; j < n; ++j)
      out += fmt::format("{:>5}", j <= i ? "1" : ".");
    out += fmt::format("   sees {} of {}\n", i + 1, n);
  }
  return out +
         "Rows are queries and columns are keys. 1: the key is visible. Dot: the score is -inf before\n"
         "softmax, so the weight is exactly 0. Six tokens give five targets in one pass, because no token\n"
         "sees its own target.\n";
}

namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix rows_of(std::span<const double> values, size_t rows) {
  const size_t cols = values.size() / rows;
  Matrix out;
  for (size_t r = 0; r < rows; ++r)
    out.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(r * cols),
                     values.begin() + static_cast<std::ptrdiff_t>((r + 1) * cols));
  return out;
}

// Returns the values of torch.randn(rows, cols).
Matrix torch_matrix(TorchRandom& random, size_t rows, size_t cols) {
  std::vector<float> values(rows * cols);
  random.normal(values);
  return rows_of(std::vector<double>(values.begin(), values.end()), rows);
}

Matrix random_matrix(RandomStream& random, size_t rows, size_t cols) {
  Matrix out(rows, std::vector<double>(cols));
  for (auto& row : out) {
    for (double& x : row)
      x = random.normal();
  }
  return out;
}

std::string show(const Matrix& m, int digits) {
  return sum_of(m, [&](const auto& row) { return number_row(row, 9, digits) + "\n"; });
}

Matrix scores(const Matrix& q, const Matrix& k, double factor) {
  Matrix out;
  for (const auto& a : q) {
    out.emplace_back();
    for (const auto& b : k)
      out.back().push_back(dot(a, b) * factor);
  }
  return out;
}

Matrix mask(Matrix s, double hidden = -INFINITY) {
  for (size_t i = 0; i < s.size(); ++i) {
    for (size_t j = i + 1; j < s.size(); ++j)
      s[i][j] = hidden;
  }
  return s;
}

void softmax(std::vector<double>& row) {
  const double most = *std::ranges::max_element(row);
  double sum = 0;
  for (double& x : row)
    sum += x = std::exp(x - most);
  for (double& x : row)
    x /= sum;
}

Matrix weights(Matrix s) {
  for (auto& row : s)
    softmax(row);
  return s;
}

Matrix product(const Matrix& w, const Matrix& v) {
  Matrix out(w.size(), std::vector<double>(v.front().size()));
  for (size_t i = 0; i < w.size(); ++i) {
    for (size_t j = 0; j < v.size(); ++j) {
      for (size_t d = 0; d < v[j].size(); ++d)
        out[i][d] += w[i][j] * v[j][d];
    }
  }
  return out;
}

// The attention scores before scaling: 0.5 * numpy.random.randn(5, 5) with seed 42.
constexpr double kScores[] = {0.2483571,  -0.06913215, 0.3238443, 0.7615149,  -0.1170767,
                              -0.1170685, 0.7896064,   0.3837174, -0.2347372, 0.27128,
                              -0.2317088, -0.2328649,  0.1209811, -0.9566401, -0.8624589,
                              -0.2811438, -0.5064156,  0.1571237, -0.454012,  -0.7061519,
                              0.7328244,  -0.1128882,  0.0337641, -0.7123741, -0.2721914};

}  // namespace

std::string demo_attention(const DemoContext& context) {
  RandomStream random(42, RandomSite::sample);
  const Matrix q = random_matrix(random, 4, 8), k = random_matrix(random, 4, 8),
               v = random_matrix(random, 4, 8);
  std::string out =
      "One head, 4 tokens, 8 channels.\n\n"
      "1. Q K^T: dot product of each query and each key\n";
  out += show(scores(q, k, 1), 3);
  const double factor = 1 / std::sqrt(8.0);
  out += fmt::format("2. times 1/sqrt(8) = {:.3f}\n", factor) + show(scores(q, k, factor), 3);
  const Matrix hidden = mask(scores(q, k, factor));
  out += "3. mask: later keys become -inf\n" + show(hidden, 3);
  const Matrix w = weights(hidden);
  out += "4. softmax of each row: the first row is 1 0 0 0, each row sums to 1\n" + show(w, 3);
  out += "5. times V: a weighted mean of the values for each token\n" + show(product(w, v), 3);
  TorchRandom torch(42);
  const Matrix mini_q = torch_matrix(torch, 5, 4), mini_k = torch_matrix(torch, 5, 4);
  const Matrix mini = weights(mask(scores(mini_q, mini_k, 0.5)));
  out += "\n5 tokens, 4 channels, PyTorch seed 42: attention weights\n" + show(mini, 3) +
         heat_rows(mask(mini, NAN), {}, context.unicode);
  const Matrix figure = weights(mask(rows_of(kScores, 5)));
  out += "\nScores 0.5 * randn(5,5), NumPy seed 42: raw, masked, after softmax\n" +
         show(rows_of(kScores, 5), 2) + "\n" + show(mask(rows_of(kScores, 5)), 2) + "\n" + show(figure, 2);
  return out + heat_rows(mask(figure, NAN), {}, context.unicode);
}

std::string picture_attention(const DemoContext&) {
  const Matrix raw = rows_of(kScores, 5);
  return heat_maps_svg("From scores to weights: five tokens",
                       {{"1. scores", raw, true},
                        {"2. masked", mask(raw, NAN), true},
                        {"3. softmax of each row", mask(weights(mask(raw)), NAN), false}});
}

namespace {

// Statistics of attention with random queries and random keys of width d. Index 0: scores without scaling.
// Index 1: scores divided by sqrt(d).
struct ScaleRow {
  size_t d = 0;
  double variance = 0;  // variance of q.k
  double peak[2] = {0, 0}, entropy[2] = {0, 0};
};

ScaleRow scale_row(size_t d) {
  constexpr int kPairs = 4000, kKeys = 16, kQueries = kPairs / kKeys;
  ScaleRow out{.d = d};
  RandomStream random(7, RandomSite::sample, 0, d);
  for (int i = 0; i < kQueries; ++i) {
    const Matrix q = random_matrix(random, 1, d), k = random_matrix(random, kKeys, d);
    for (int scaled = 0; scaled < 2; ++scaled) {
      std::vector<double> row = scores(q, k, scaled ? 1 / std::sqrt(static_cast<double>(d)) : 1).front();
      for (const double s : row)
        out.variance += scaled ? 0 : s * s / kPairs;
      softmax(row);
      out.peak[scaled] += *std::ranges::max_element(row) / kQueries;
      for (const double w : row)
        out.entropy[scaled] -= w > 0 ? w * std::log2(w) / kQueries : 0;
    }
  }
  return out;
}

constexpr size_t kWidths[] = {1, 4, 16, 64, 256, 1024};

}  // namespace

std::string demo_scale(const DemoContext&) {
  TextTable table{
      .columns = {"d", "var(q.k)", "var(q.k / sqrt(d))", "largest weight", "scaled", "entropy", "scaled"}};
  for (const size_t d : kWidths) {
    const ScaleRow r = scale_row(d);
    table.rows.push_back({std::to_string(d), fixed(r.variance, 2),
                          fixed(r.variance / static_cast<double>(d), 3), fixed(r.peak[0], 3),
                          fixed(r.peak[1], 3), fixed(r.entropy[0], 2), fixed(r.entropy[1], 2)});
  }
  return format_table(table) +
         "Entries of q and k have mean 0 and variance 1, so q.k, a sum of d products, has variance d.\n"
         "For large d, softmax gives nearly all weight to one of the 16 keys, and the gradients almost\n"
         "vanish. Scores that are divided by sqrt(d) have variance 1. Entropy is in bits: equal weights\n"
         "have 4 bits.\n";
}

std::string picture_scale(const DemoContext&) {
  Chart chart{.title = "Largest of 16 attention weights for different head widths",
              .x_label = "head width d",
              .y_label = "largest weight, mean over 250 queries"};
  chart.log_x = true;
  chart.reference_lines = {{1.0 / 16, "equal weights: 1/16"}};
  chart.series = {{"softmax(q.k)", {}, {}, SeriesStyle::marked, 1},
                  {"softmax(q.k / sqrt(d))", {}, {}, SeriesStyle::marked, 0}};
  for (const size_t d : kWidths) {
    const ScaleRow r = scale_row(d);
    for (size_t i = 0; i < 2; ++i)
      chart.series[i].add(static_cast<double>(d), r.peak[i]);
  }
  return line_chart_svg(chart, kDemoChart);
}

}  // namespace detail
}  // namespace gpt
