#include "trace/picture.h"

#include <fmt/format.h>

#include "report/svg.h"
#include "report/utf8_text.h"

namespace gpt {
namespace {

const char* ink_class(Ink ink) {
  constexpr const char* kClasses[] = {"gt-embedding", "gt-attention", "gt-mlp", "gt-norm", "gt-plain"};
  return kClasses[static_cast<size_t>(ink)];
}

// Returns the CSS rules for the colour of each ink: blue, orange, green, yellow and grey. The colour applies
// to the stroke of lines and to the fill of areas.
std::string ink_rules(const char* surface, const char* embedding, const char* attention, const char* mlp,
                      const char* norm, const char* plain) {
  std::string css = fmt::format(".gc .gt-box{{fill:{}}}", surface);
  const auto add = [&](Ink ink, const char* colour) {
    css += fmt::format(".gc .{0}{{stroke:{1}}}.gc .{0}.gt-fill{{fill:{1};stroke:none}}\n", ink_class(ink),
                       colour);
  };
  add(Ink::embedding, embedding);
  add(Ink::attention, attention);
  add(Ink::mlp, mlp);
  add(Ink::norm, norm);
  add(Ink::plain, plain);
  return css;
}

std::string css() {
  return chart_css() + ".gc .gt-line,.gc .gt-box{stroke-width:2}\n" + ".gc .gt-on{fill:#ffffff}\n" +
         ink_rules("#fcfcfb", "#2a78d6", "#eb6834", "#1baf7a", "#eda100", "#8a8983") +
         "@media (prefers-color-scheme:dark){\n" +
         ink_rules("#1a1a19", "#4c97ec", "#e2703f", "#22b07c", "#d39208", "#8f8e86") +
         ".gc .gt-on{fill:#0b0b0b}}\n";
}

}  // namespace

void Picture::text(double x, double y, std::string_view classes, std::string_view text) {
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, classes,
                       escape_markup(text));
}

void Picture::turned_text(double x, double y, std::string_view classes, std::string_view text) {
  body_ += fmt::format("<text transform=\"translate({:.1f} {:.1f}) rotate(-60)\" class=\"{}\">{}</text>\n", x,
                       y, classes, escape_markup(text));
}

void Picture::line(double x1, double y1, double x2, double y2) {
  body_ +=
      fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" class=\"gt-line gt-plain\"/>\n", x1, y1, x2, y2);
}

void Picture::path(const std::string& d, Ink ink) {
  body_ += fmt::format("<path d=\"{}\" class=\"gt-line {}\"/>\n", d, ink_class(ink));
}

void Picture::box(double x, double y, double width, double height, Ink ink) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"7\" class=\"gt-box {}\"/>\n",
      x, y, width, height, ink_class(ink));
}

void Picture::area(double x, double y, double width, double height, Ink ink, double share,
                   std::string_view hover) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"gt-fill {}\" "
      "fill-opacity=\"{:.2f}\">{}</rect>\n",
      x, y, width, height, ink_class(ink), share,
      hover.empty() ? "" : "<title>" + escape_markup(hover) + "</title>");
}

void Picture::squares(std::span<const std::pair<double, double>> places, double size, Ink ink, double share) {
  if (places.empty()) return;
  std::string d;
  for (const auto& [x, y] : places)
    d += fmt::format("M{0:.1f} {1:.1f}h{2:.1f}v{2:.1f}h-{2:.1f}z", x, y, size);
  body_ += fmt::format("<path d=\"{}\" class=\"gt-fill {}\" fill-opacity=\"{:.2f}\"/>\n", d, ink_class(ink),
                       share);
}

void Picture::circle(double x, double y, double radius, Ink ink) {
  body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"gt-box {}\"/>\n", x, y,
                       radius, ink_class(ink));
}

std::string Picture::document() const {
  return svg_document(title_, width_, height_, css(), body_);
}

}  // namespace gpt
