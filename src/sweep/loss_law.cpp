#include "sweep/loss_law.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/ranges.h"
#include "report/next_step.h"
#include "sweep/plan.h"

namespace gpt {
namespace {

constexpr double kHuberDelta = 1e-3;

double huber(double r) {
  const double size = std::abs(r);
  return size <= kHuberDelta ? 0.5 * r * r : kHuberDelta * (size - 0.5 * kHuberDelta);
}

using Function = std::function<double(const std::vector<double>&)>;

struct Vertex {
  std::vector<double> x;
  double value = 0;  // the largest double if the function value is not finite
};

Vertex vertex_at(const Function& f, std::vector<double> x) {
  const double value = f(x);
  return {std::move(x), std::isfinite(value) ? value : std::numeric_limits<double>::max()};
}

// Returns a vertex on the line through the worst vertex and the centroid of the other vertices. With factor
// -1, the result is the reflection of the worst vertex.
Vertex moved(const Function& f, const std::vector<Vertex>& simplex, double factor) {
  const size_t n = simplex.size() - 1;
  std::vector<double> x(n);
  for (size_t i = 0; i < n; ++i) {
    double middle = 0;
    for (size_t v = 0; v < n; ++v)
      middle += simplex[v].x[i] / static_cast<double>(n);
    x[i] = middle + factor * (simplex.back().x[i] - middle);
  }
  return vertex_at(f, std::move(x));
}

// Performs one step of the simplex method. The vertices must be sorted by value, best first.
void improve(const Function& f, std::vector<Vertex>& simplex) {
  Vertex& worst = simplex.back();
  const double best = simplex.front().value, second = simplex[simplex.size() - 2].value;
  Vertex mirrored = moved(f, simplex, -1);
  if (mirrored.value < best) {
    Vertex further = moved(f, simplex, -2);
    worst = further.value < mirrored.value ? std::move(further) : std::move(mirrored);
    return;
  }
  if (mirrored.value < second) {
    worst = std::move(mirrored);
    return;
  }
  Vertex nearer = moved(f, simplex, mirrored.value < worst.value ? -0.5 : 0.5);
  if (nearer.value < std::min(worst.value, mirrored.value)) {
    worst = std::move(nearer);
    return;
  }
  for (size_t v = 1; v < simplex.size(); ++v) {
    std::vector<double> x = simplex[v].x;
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = 0.5 * (x[i] + simplex[0].x[i]);
    simplex[v] = vertex_at(f, std::move(x));
  }
}

// Returns a local minimum of a function of a few variables, starting at `start`. Uses the simplex method of
// Nelder and Mead (1965). The search restarts from its own result as long as this improves the value. `scale`
// is the size of the first steps.
std::vector<double> minimise(const Function& f, std::vector<double> start, double scale) {
  constexpr int kSteps = 3000, kRestarts = 6;
  constexpr double kTolerance = 1e-13;
  double before = std::numeric_limits<double>::max();
  for (int restart = 0; restart < kRestarts; ++restart, scale *= 0.5) {
    std::vector<Vertex> simplex = {vertex_at(f, start)};
    for (size_t i = 0; i < start.size(); ++i) {
      std::vector<double> x = start;
      x[i] += scale;
      simplex.push_back(vertex_at(f, std::move(x)));
    }
    for (int i = 0; i < kSteps; ++i) {
      std::ranges::sort(simplex, {}, &Vertex::value);
      const double best = simplex.front().value;
      if (simplex.back().value - best <= kTolerance * (1e-9 + best)) break;
      improve(f, simplex);
    }
    const Vertex best = *std::ranges::min_element(simplex, {}, &Vertex::value);
    start = best.x;
    if (best.value >= before * (1 - 1e-6)) break;
    before = best.value;
  }
  return start;
}

// Defines the variables of the search. Let N0 and D0 be the geometric means of the points. The variables p0
// and p1 describe the first term as A / N^a = e^p0 (N / N0)^-p1. In this form, the size and the slope of the
// term are almost independent of each other.
class Search {
 public:
  Search(const std::vector<LossPoint>& points, std::optional<double> floor) : points_(points), floor_(floor) {
    double n = 0, d = 0;
    lowest_ = std::numeric_limits<double>::max();
    for (const LossPoint& p : points) {
      n += std::log(p.parameters);
      d += std::log(p.tokens);
      lowest_ = std::min(lowest_, p.loss);
    }
    log_n0_ = n / static_cast<double>(points.size());
    log_d0_ = d / static_cast<double>(points.size());
  }

  LossLaw law(const std::vector<double>& x) const {
    return {.floor = floor_ ? *floor_ : std::exp(x[4]),
            .A = std::exp(x[0] + x[1] * log_n0_),
            .a = x[1],
            .B = std::exp(x[2] + x[3] * log_d0_),
            .b = x[3]};
  }

  double operator()(const std::vector<double>& x) const {
    const double base = floor_ ? *floor_ : std::exp(x[4]);
    double sum = 0;
    for (const LossPoint& p : points_) {
      const double loss = base + std::exp(x[0] - x[1] * (std::log(p.parameters) - log_n0_)) +
                          std::exp(x[2] - x[3] * (std::log(p.tokens) - log_d0_));
      sum += huber(std::log(loss) - std::log(p.loss));
    }
    for (const size_t slope : {size_t{1}, size_t{3}}) {  // penalty: losses must not rise with size or tokens
      sum += std::max(0.0, -x[slope]) + std::max(0.0, x[slope] - 3);
    }
    return sum;
  }

  std::vector<double> best() const {
    std::vector<double> winner;
    double value = std::numeric_limits<double>::max();
    const std::vector<double> floors = floor_ ? std::vector{0.0} : std::vector{0.3, 0.7, 0.95};
    for (const double part : floors) {
      const double base = floor_ ? *floor_ : part * lowest_;
      for (const double share : {0.1, 0.5, 0.9}) {
        for (const double a : {0.2, 0.7}) {
          for (const double b : {0.2, 0.7}) {
            const double rest = std::max(lowest_ - base, 1e-6);
            std::vector<double> start = {std::log(share * rest), a, std::log((1 - share) * rest), b};
            if (!floor_) start.push_back(std::log(base));
            std::vector<double> found = minimise(*this, std::move(start), 0.3);
            if (const double v = (*this)(found); v < value) {
              value = v;
              winner = std::move(found);
            }
          }
        }
      }
    }
    return winner;
  }

 private:
  const std::vector<LossPoint>& points_;
  std::optional<double> floor_;
  double log_n0_ = 0, log_d0_ = 0, lowest_ = 0;
};

void widen(Extent& interval, double value) {
  interval.low = std::min(interval.low, value);
  interval.high = std::max(interval.high, value);
}

// Leaves out each point in turn and fits the law to the remaining points. Each fit starts from `solution`,
// the fit to all points. Stores the ranges of the fitted exponents in `fit`.
void leave_one_out(LossFit& fit, const std::vector<LossPoint>& points, std::optional<double> floor,
                   const std::vector<double>& solution) {
  fit.a = {fit.law.a, fit.law.a};
  fit.b = {fit.law.b, fit.law.b};
  for (size_t i = 0; i < points.size(); ++i) {
    std::vector<LossPoint> rest = points;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    // The search variables are relative to the geometric means of the points. Convert the solution so that it
    // is relative to the means of the remaining points.
    const Search search(rest, floor), all(points, floor);
    std::vector<double> start = solution;
    const LossLaw law = all.law(solution);
    const LossLaw unit = search.law({0, law.a, 0, law.b, 0});
    start[0] = std::log(law.A / unit.A);
    start[2] = std::log(law.B / unit.B);
    const LossLaw other = search.law(minimise(search, start, 0.1));
    widen(fit.a, other.a);
    widen(fit.b, other.b);
  }
}

size_t distinct(const std::vector<LossPoint>& points, double LossPoint::*field) {
  std::set<double> values;
  for (const LossPoint& p : points)
    values.insert(std::round(std::log(p.*field) * 50));  // values within two percent count as equal
  return values.size();
}

std::string doubts_about(const LossFit& fit) {
  std::vector<std::string> doubts;
  const auto is_wide = [](const Extent& i, double value) { return i.high - i.low > 0.5 * std::abs(value); };
  const size_t variables = fit.floor_known ? 4 : 5;
  if (fit.points.size() <= variables)
    doubts.push_back(
        fmt::format("{} points are too few to check a law with {} unknowns", fit.points.size(), variables));
  if (distinct(fit.points, &LossPoint::parameters) < 3) doubts.push_back("fewer than three model sizes");
  if (fit.flops.high < 1.5 * fit.flops.low)
    doubts.push_back(
        fmt::format("a single budget, {} to {} FLOPs: size and tokens only change together, so the exponents "
                    "cannot be separated",
                    format_count(fit.flops.low), format_count(fit.flops.high)));
  if (is_wide(fit.a, fit.law.a) || is_wide(fit.b, fit.law.b))
    doubts.push_back("leaving out one point changes an exponent by more than half of its value");
  if (fit.law.a < 1e-3 || fit.law.b < 1e-3 || fit.law.a > 2.99 || fit.law.b > 2.99)
    doubts.push_back("an exponent is at the limit of the search range");
  if (fit.rms_residual > 0.03) doubts.push_back("the RMS residual is more than 3 %");
  return fmt::format("{}", fmt::join(doubts, "; "));
}

nlohmann::json interval_json(const Extent& i) {
  return {i.low, i.high};
}

using nlohmann::json;

constexpr double kSmallestExponent = 1e-3;  // with a smaller exponent, the law has no best size

// Reads the fields of a fit from JSON. Its error messages name the file.
class FitReader {
 public:
  FitReader(const json& fit, const std::string& path) : fit_(fit), path_(path) {}

  double number(const char* key, double least, double most) const {
    const json& value = field(key);
    if (!value.is_number()) wrong(key, "a number", value);
    const auto x = value.get<double>();
    if (!(x >= least && x <= most)) wrong(key, fmt::format("a number from {:g} to {:g}", least, most), value);
    return x;
  }
  Extent interval(const char* key) const {
    const json& value = field(key);
    const bool numbers =
        value.is_array() && value.size() == 2 && value[0].is_number() && value[1].is_number();
    const Extent i = numbers ? Extent{value[0].get<double>(), value[1].get<double>()} : Extent{};
    if (!(i.low > 0 && i.low <= i.high && std::isfinite(i.high)))
      wrong(key, "[lowest, highest], two positive numbers", value);
    return i;
  }
  std::string text(const char* key) const {
    const json& value = field(key);
    if (!value.is_string()) wrong(key, "a string", value);
    return value.get<std::string>();
  }
  bool flag(const char* key) const {
    const json& value = field(key);
    if (!value.is_boolean()) wrong(key, "true or false", value);
    return value.get<bool>();
  }

 private:
  const json& field(const char* key) const {
    const auto found = fit_.find(key);
    if (found == fit_.end())
      fail("{}: expected the fit of a sweep with \"{}\", found none; use a folder that gpt sweep wrote",
           path_, key);
    return *found;
  }
  [[noreturn]] void wrong(const char* key, const std::string& expected, const json& found) const {
    fail("{}: \"{}\": expected {}, found {}; use a folder that gpt sweep wrote", path_, key, expected,
         found.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 64));
  }

  const json& fit_;
  const std::string& path_;
};

// Returns a sentence such as "10.8 M parameters are 12 times the largest of the sweep". Returns "" if the
// value is within the range of the sweep.
std::string outside(double value, const Extent& seen, const char* what) {
  constexpr double kSlack = 1.1;
  if (value > kSlack * seen.high)
    return fmt::format("{} {} are {:.3g} times the maximum of the sweep", format_count(value), what,
                       value / seen.high);
  if (value * kSlack < seen.low)
    return fmt::format("{} {} are {:.3g} times the minimum of the sweep", format_count(value), what,
                       value / seen.low);
  return "";
}

std::string warning_for(const LossFit& fit, double parameters, double tokens) {
  std::vector<std::string> reasons;
  for (std::string reason :
       {outside(parameters, fit.parameters, "parameters"), outside(tokens, fit.tokens, "tokens"),
        outside(6 * parameters * tokens, fit.flops, "operations (6 N D)")}) {
    if (!reason.empty()) reasons.push_back(std::move(reason));
  }
  std::string text;
  if (!reasons.empty()) text = fmt::format("extrapolated ({})", fmt::join(reasons, ", "));
  if (!fit.doubts.empty())
    text += fmt::format("{}the fit is uncertain ({})", text.empty() ? "" : "; ", fit.doubts);
  return text;
}

// Returns the flags for a run with the same FLOPs as the plan and about `parameters` parameters. The flags
// set the width of the model and the number of steps.
std::string flags_for(const RunPlan& plan, double parameters) {
  if (!(parameters < 1e15)) return "";
  const ModelConfig& planned = plan.subject.config.model;
  const int64_t width = width_for(planned, static_cast<int64_t>(parameters), 2 * planned.n_head);
  const ModelConfig model = with_width(planned, width);
  const int64_t steps = steps_for(plan.flops(), ModelCounts(model).training_flops(model.n_ctx),
                                  static_cast<double>(plan.step_tokens));
  std::string flags = fmt::format("{} {} {} {}", flag_of("n_layer"), model.n_layer, flag_of("n_embd"), width);
  if (model.d_ff != 4 * width) flags += fmt::format(" {} {}", flag_of("d_ff"), model.d_ff);
  return flags + fmt::format(" {} {}", flag_of("steps"), steps);
}

}  // namespace

double LossLaw::loss(double parameters, double tokens) const {
  return floor + A * std::pow(parameters, -a) + B * std::pow(tokens, -b);
}

double LossLaw::best_parameters(double flops, double flops_per_parameter) const {
  const double product = flops / flops_per_parameter;  // N D
  // At the optimum, the derivative of A N^-a + B (N / product)^b with respect to N is 0.
  return std::pow(a * A / (b * B), 1 / (a + b)) * std::pow(product, b / (a + b));
}

std::optional<LossFit> fit_loss_law(const std::vector<LossPoint>& points, std::optional<double> floor) {
  std::set<std::pair<double, double>> places;
  for (const LossPoint& p : points) {
    if (!(p.parameters > 0) || !(p.tokens > 0) || !(p.loss > 0) || !std::isfinite(p.loss)) return {};
    if (floor && p.loss <= *floor) return {};
    places.insert({p.parameters, p.tokens});
  }
  if (places.size() < kFewestFitPoints) return {};
  const Search search(points, floor);
  const std::vector<double> solution = search.best();
  LossFit fit{.law = search.law(solution), .floor_known = floor.has_value(), .points = points};
  constexpr double kMost = std::numeric_limits<double>::max();
  fit.parameters = fit.tokens = fit.flops = {kMost, 0};
  for (const LossPoint& p : points) {
    const double residual = std::log(p.loss) - std::log(fit.law.loss(p.parameters, p.tokens));
    fit.rms_residual += residual * residual / static_cast<double>(points.size());
    fit.worst_residual = std::max(fit.worst_residual, std::abs(residual));
    widen(fit.parameters, p.parameters);
    widen(fit.tokens, p.tokens);
    widen(fit.flops, 6 * p.parameters * p.tokens);
  }
  fit.rms_residual = std::sqrt(fit.rms_residual);
  leave_one_out(fit, points, floor, solution);
  fit.doubts = doubts_about(fit);
  return fit;
}

nlohmann::json loss_fit_json(const LossFit& fit) {
  const auto points = transformed(fit.points, [&](const LossPoint& p) {
    return json{{"parameters", p.parameters},
                {"tokens", p.tokens},
                {"loss", p.loss},
                {"fitted", fit.law.loss(p.parameters, p.tokens)}};
  });
  return {{"law", "loss = floor + A / parameters^a + B / tokens^b"},
          {"floor", fit.law.floor},
          {"floor_known", fit.floor_known},
          {"A", fit.law.A},
          {"a", fit.law.a},
          {"B", fit.law.B},
          {"b", fit.law.b},
          {"a_leaving_one_out", interval_json(fit.a)},
          {"b_leaving_one_out", interval_json(fit.b)},
          {"rms_residual_of_log_loss", fit.rms_residual},
          {"worst_residual_of_log_loss", fit.worst_residual},
          {"measured_parameters", interval_json(fit.parameters)},
          {"measured_tokens", interval_json(fit.tokens)},
          {"measured_6ND", interval_json(fit.flops)},
          {"trusted", fit.doubts.empty()},
          {"doubts", fit.doubts},
          {"points", points}};
}

LossFit read_loss_fit(const std::string& given) {
  const bool folder = std::filesystem::is_directory(given);
  const std::string path = folder ? given + "/fit.json" : given;
  if (folder && !std::filesystem::exists(path))
    fail(
        "{}: expected fit.json, found none; gpt sweep fits a law if its runs have at least {} different "
        "sizes or lengths",
        given, kFewestFitPoints);
  const json object = read_json_file(path);
  if (!object.is_object())
    fail("{}: expected the fit of a sweep as a JSON object, found a different JSON value", path);
  const FitReader fit(object, path);
  constexpr double kMost = 1e30;
  LossFit out;
  out.law = {.floor = fit.number("floor", 0, kMost),
             .A = fit.number("A", 0, kMost),
             .a = fit.number("a", 0, 10),
             .B = fit.number("B", 0, kMost),
             .b = fit.number("b", 0, 10)};
  out.floor_known = fit.flag("floor_known");
  out.rms_residual = fit.number("rms_residual_of_log_loss", 0, kMost);
  out.parameters = fit.interval("measured_parameters");
  out.tokens = fit.interval("measured_tokens");
  out.flops = fit.interval("measured_6ND");
  out.doubts = fit.text("doubts");
  return out;
}

LossForecast forecast_loss(const LossFit& fit, const RunPlan& plan) {
  const auto parameters = static_cast<double>(plan.counts.total), tokens = static_cast<double>(plan.tokens);
  LossForecast out{.parameters = parameters, .tokens = tokens, .loss = fit.law.loss(parameters, tokens)};
  out.warning = warning_for(fit, parameters, tokens);
  const LossLaw& law = fit.law;
  if (!(law.a > kSmallestExponent && law.b > kSmallestExponent && law.A > 0 && law.B > 0)) return out;
  const double per_parameter = plan.flops() / tokens / parameters;
  const double best = law.best_parameters(plan.flops(), per_parameter);
  if (!(best >= 1 && std::isfinite(best))) return out;
  out.best_parameters = best;
  out.best_tokens = plan.flops() / per_parameter / best;
  out.best_loss = law.loss(best, out.best_tokens);
  out.best_flags = flags_for(plan, best);
  return out;
}

}  // namespace gpt
