#include "sweep/minimise.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpt {
namespace {

constexpr int kSteps = 3000, kRestarts = 6;
constexpr double kTolerance = 1e-13;

struct Vertex {
  std::vector<double> x;
  double value = 0;
};

class Simplex {
 public:
  Simplex(const Objective& f, const std::vector<double>& start, double scale) : f_(f) {
    vertices_.push_back(at(start));
    for (size_t i = 0; i < start.size(); ++i) {
      std::vector<double> x = start;
      x[i] += scale;
      vertices_.push_back(at(x));
    }
  }

  const Vertex& run() {
    for (int i = 0; i < kSteps; ++i) {
      std::sort(vertices_.begin(), vertices_.end(),
                [](const Vertex& a, const Vertex& b) { return a.value < b.value; });
      if (vertices_.back().value - vertices_.front().value <= kTolerance * (1e-9 + vertices_.front().value))
        break;
      step();
    }
    return *std::min_element(vertices_.begin(), vertices_.end(),
                             [](const Vertex& a, const Vertex& b) { return a.value < b.value; });
  }

 private:
  Vertex at(std::vector<double> x) const {
    const double value = f_(x);
    return {std::move(x), std::isfinite(value) ? value : std::numeric_limits<double>::max()};
  }

  // The worst vertex moved through the middle of the others by `factor` (-1: mirrored).
  Vertex moved(double factor) const {
    const size_t n = vertices_.size() - 1;
    std::vector<double> x(n);
    for (size_t i = 0; i < n; ++i) {
      double middle = 0;
      for (size_t v = 0; v < n; ++v)
        middle += vertices_[v].x[i] / static_cast<double>(n);
      x[i] = middle + factor * (vertices_.back().x[i] - middle);
    }
    return at(std::move(x));
  }

  void step() {
    Vertex& worst = vertices_.back();
    const double best = vertices_.front().value, second = vertices_[vertices_.size() - 2].value;
    Vertex mirrored = moved(-1);
    if (mirrored.value < best) {
      Vertex further = moved(-2);
      worst = further.value < mirrored.value ? std::move(further) : std::move(mirrored);
      return;
    }
    if (mirrored.value < second) {
      worst = std::move(mirrored);
      return;
    }
    Vertex nearer = moved(mirrored.value < worst.value ? -0.5 : 0.5);
    if (nearer.value < std::min(worst.value, mirrored.value)) {
      worst = std::move(nearer);
      return;
    }
    for (size_t v = 1; v < vertices_.size(); ++v) {
      std::vector<double> x = vertices_[v].x;
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = 0.5 * (x[i] + vertices_[0].x[i]);
      vertices_[v] = at(std::move(x));
    }
  }

  const Objective& f_;
  std::vector<Vertex> vertices_;
};

}  // namespace

std::vector<double> minimise(const Objective& f, std::vector<double> start, double scale) {
  double before = std::numeric_limits<double>::max();
  for (int i = 0; i < kRestarts; ++i) {
    const Vertex best = Simplex(f, start, scale).run();
    start = best.x;
    if (best.value >= before * (1 - 1e-6)) break;
    before = best.value;
    scale *= 0.5;
  }
  return start;
}

}  // namespace gpt
