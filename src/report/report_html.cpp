#include "report/report_html.h"

#include <fmt/core.h>

#include "base/format.h"
#include "report/svg.h"
#include "report/utf8_text.h"

namespace gpt {
namespace detail {  // generated from src/report/page
const char* report_page_style();
const char* report_page_script();
}  // namespace detail

namespace {

constexpr ChartSize kWide{860, 400, true}, kNarrow{360, 300, true}, kSmall{260, 190, true};

std::string element(const char* tag, const char* classes, std::string_view text) {
  return fmt::format("<{0} class=\"{1}\">{2}</{0}>\n", tag, classes, escape_markup(text));
}

std::string head(const RunReport& report) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "{}base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"generator\" content=\"gpt.cpp\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{}</title>\n<style>\n{}{}</style>\n</head>\n",
      report.curves.empty() ? "" : "script-src 'unsafe-inline'; ", escape_markup(report.title),
      detail::report_page_style(), chart_css());
}

// Returns the data of the curves and the script that draws them.
std::string scripts(const RunReport& report) {
  if (report.curves.empty()) return "";
  return "<div id=\"live\" class=\"visually-hidden\" aria-live=\"polite\"></div>\n"
         "<div id=\"tip\" class=\"tip\" role=\"tooltip\" hidden></div>\n"
         "<script type=\"application/json\" id=\"data\">" +
         escape_script(report.curves) + "</script>\n<script>\n" + detail::report_page_script() +
         "</script>\n";
}

std::string headlines(const RunReport& report) {
  if (report.headlines.empty()) return "";
  std::string out = "<div class=\"heads\">\n";
  for (const ReportHeadline& item : report.headlines) {
    out += "<div class=\"card\">" + element("div", "label", item.label) + element("div", "value", item.value);
    if (!item.note.empty()) out += element("div", "note", item.note);
    out += "</div>\n";
  }
  return out + "</div>\n";
}

// Large charts are drawn in two widths, so that their text keeps its size on a phone.
std::string charts(const RunReport& report) {
  std::string out = report.curves.empty() ? "" : "<div id=\"curves\"></div>\n<div id=\"plain-charts\">\n";
  const auto add = [&](const Chart& chart, const char* classes) {
    out += fmt::format("<div class=\"{}\"><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></div>\n",
                       classes, line_chart_svg(chart, kWide), line_chart_svg(chart, kNarrow));
  };
  if (report.chart) add(*report.chart, "card");
  for (const Chart& chart : report.more_charts)
    add(chart, "card more");
  if (!report.small_charts.empty()) {
    out += "<div class=\"small\">\n";
    for (const Chart& chart : report.small_charts)
      out += "<div class=\"card\">" + line_chart_svg(chart, kSmall) + "</div>\n";
    out += "</div>\n";
  }
  return report.curves.empty() ? out : out + "</div>\n";
}

std::string samples(const RunReport& report) {
  if (report.samples.empty()) return "";
  std::string out = "<h2>Samples</h2>\n<div class=\"card\">\n";
  for (const ReportSample& sample : report.samples) {
    out += "<div class=\"sample\">" + element("div", "step", "after step " + format_thousands(sample.step));
    out += "<pre><span class=\"prompt\">" + escape_markup(sample.prompt, true) + "</span>" +
           escape_markup(sample.text, true) + "</pre></div>\n";
  }
  return out + "</div>\n";
}

std::string commands(const RunReport& report) {
  if (report.commands.empty()) return "";
  std::string out = "<h2>How to use the model</h2>\n<div class=\"card\">\n";
  for (const ReportCommand& item : report.commands) {
    if (item.command.empty()) continue;  // a run of a sweep has no command line
    out += element("div", "soft", item.purpose);
    out += "<pre class=\"command\">" + escape_markup(item.command, true) + "</pre>\n";
  }
  return out + "</div>\n";
}

// Allows line breaks after the slashes of a long path.
std::string breakable(std::string_view text) {
  std::string out;
  for (const char c : escape_markup(text)) {
    out += c;
    if (c == '/') out += "<wbr>";
  }
  return out;
}

std::string facts(const std::vector<ReportFact>& items) {
  if (items.empty()) return "";
  std::string out = "<dl class=\"part\">\n";
  for (const ReportFact& item : items) {
    out += "<div><dt>" + escape_markup(item.name) + "</dt><dd>" + breakable(item.value) + "</dd></div>\n";
  }
  return out + "</dl>\n";
}

std::string table_row(const std::vector<std::string>& cells, const std::vector<bool>& numeric,
                      const char* tag) {
  std::string out = "<tr>";
  for (size_t c = 0; c < numeric.size(); ++c) {
    const std::string text = c < cells.size() ? escape_markup(cells[c]) : "";
    out += fmt::format("<{0}{1}>{2}</{0}>", tag, numeric[c] ? " class=\"num\"" : "", text);
  }
  return out + "</tr>\n";
}

std::string html_table(const ReportTable& item) {
  const std::vector<bool> numeric = numeric_columns(item.table);
  std::string out = "<div class=\"scroll part\"><table>\n";
  if (!item.caption.empty()) out += "<caption>" + escape_markup(item.caption) + "</caption>\n";
  if (!item.table.columns.empty()) {
    out += "<thead>" + table_row(item.table.columns, numeric, "th") + "</thead>\n";
  }
  out += "<tbody>\n";
  for (const auto& row : item.table.rows)
    out += table_row(row, numeric, "td");
  return out + "</tbody></table></div>\n";
}

std::string section(const ReportSection& item) {
  std::string out = "<h2>" + escape_markup(item.title) + "</h2>\n<div class=\"card\">\n";
  if (!item.text.empty()) out += "<p class=\"soft\">" + escape_markup(item.text) + "</p>\n";
  out += facts(item.facts);
  for (const ReportTable& table : item.tables)
    out += html_table(table);
  return out + "</div>\n";
}

}  // namespace

std::string report_html(const RunReport& report) {
  std::string out = head(report) + "<body>\n<main id=\"main\">\n<header class=\"title\"><h1>" +
                    escape_markup(report.title) + "</h1><div id=\"bar\"></div></header>\n";
  if (!report.subtitle.empty()) out += element("p", "soft", report.subtitle);
  out += headlines(report) + charts(report) + samples(report) + commands(report);
  for (const ReportSection& item : report.sections)
    out += section(item);
  if (!report.footer.empty()) out += "<footer>" + escape_markup(report.footer) + "</footer>\n";
  return out + "</main>\n" + scripts(report) + "</body>\n</html>\n";
}

}  // namespace gpt
