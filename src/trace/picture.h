#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gpt {

// Colours of a picture's parts, the same on light and dark ground.
enum class Ink { embedding, attention, mlp, norm, plain };

// Builds a self-contained SVG document in the look of the charts (report/svg.h). Lengths are CSS pixels; the
// picture scales. Texts may come from anywhere: they are escaped.
class Picture {
 public:
  Picture(double width, double height, std::string title)
      : width_(width), height_(height), title_(std::move(title)) {}

  // `classes`: gc-title, gc-text or gc-tick, and gc-right or gc-middle, of chart_css().
  void text(double x, double y, std::string_view classes, std::string_view text);
  void turned_text(double x, double y, std::string_view classes, std::string_view text);  // reads upwards
  void line(double x1, double y1, double x2, double y2);
  void path(const std::string& d, Ink ink);                            // an open line
  void box(double x, double y, double width, double height, Ink ink);  // an outline with a coloured edge
  // A filled area; share 0...1 is how strong it is. `hover` is shown by a pointer that rests on it.
  void area(double x, double y, double width, double height, Ink ink, double share,
            std::string_view hover = {});
  // Many equal squares of one strength: places are "x y" of their corners.
  void squares(std::span<const std::pair<double, double>> places, double size, Ink ink, double share);
  void circle(double x, double y, double radius, Ink ink);

  std::string document() const;

 private:
  double width_, height_;
  std::string title_, body_;
};

}  // namespace gpt
