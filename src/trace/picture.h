#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gpt {

// The colours of a picture, named by the kind of element that they represent. Each colour has a light-theme
// value and a dark-theme value.
enum class Ink { embedding, attention, mlp, norm, plain };

// Builds a self-contained SVG document in the style of the charts (report/svg.h). Lengths are in CSS pixels,
// and viewers can scale the picture. All text is escaped, so it may come from untrusted sources.
class Picture {
 public:
  Picture(double width, double height, std::string title)
      : width_(width), height_(height), title_(std::move(title)) {}

  // `classes` are CSS classes of chart_css(): one of gc-title, gc-text and gc-tick, and optionally gc-right
  // or gc-middle.
  void text(double x, double y, std::string_view classes, std::string_view text);
  void turned_text(double x, double y, std::string_view classes,
                   std::string_view text);  // rotated by 60 degrees
  void line(double x1, double y1, double x2, double y2);
  void path(const std::string& d, Ink ink);  // draws an open line from SVG path data
  void box(double x, double y, double width, double height,
           Ink ink);  // draws an outline in the colour of `ink`
  // Draws a filled rectangle. `share` is its opacity from 0 to 1, and `hover` is its tooltip.
  void area(double x, double y, double width, double height, Ink ink, double share,
            std::string_view hover = {});
  // Draws many squares of the same size and opacity as one path. `places` contains the (x, y) corner of each
  // square.
  void squares(std::span<const std::pair<double, double>> places, double size, Ink ink, double share);
  void circle(double x, double y, double radius, Ink ink);

  std::string document() const;

 private:
  double width_, height_;
  std::string title_, body_;
};

}  // namespace gpt
