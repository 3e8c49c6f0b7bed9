#include "report/report_html.h"

#include <fmt/core.h>

#include "report/format.h"
#include "report/svg.h"
#include "report/utf8_text.h"

namespace gpt {
namespace {

constexpr const char* kPageStyle = R"css(
:root{color-scheme:light dark;--page:#f4f3f0;--card:#fcfcfb;--ink:#0b0b0b;--soft:#52514e;--line:#e3e2dd;--code:#f0efeb;--accent:#2a78d6}
@media (prefers-color-scheme:dark){:root{--page:#111110;--card:#1a1a19;--ink:#f7f7f5;--soft:#c3c2b7;--line:#30302d;--code:#242422;--accent:#5b9fec}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:920px;margin:0 auto;padding:40px 20px 56px}
h1{font-size:30px;line-height:1.2;letter-spacing:-.015em;margin:0 0 6px;overflow-wrap:anywhere}
h2{font-size:19px;letter-spacing:-.005em;margin:44px 0 12px}
p{margin:0 0 12px}.soft,footer{color:var(--soft)}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px}
.heads{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:12px;margin:26px 0 12px}
.heads .label{font-size:13px;color:var(--soft)}.heads .value{font-size:28px;font-weight:650;line-height:1.25;letter-spacing:-.01em;overflow-wrap:anywhere}
.heads .note{font-size:13px;color:var(--soft)}
.more{margin-top:12px}
.small{display:grid;grid-template-columns:repeat(auto-fit,minmax(250px,1fr));gap:12px;margin-top:12px}
svg{display:block;width:100%;height:auto}.narrow{display:none}.small svg{max-width:330px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14.5px}
caption{text-align:left;color:var(--soft);font-size:13px;padding-bottom:6px}
th{font-weight:600;text-align:left;color:var(--soft);font-size:13px}
th,td{padding:6px 14px 6px 0;border-bottom:1px solid var(--line);vertical-align:top}
th:last-child,td:last-child{padding-right:0}tr:last-child td{border-bottom:0}
.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.part+.part{margin-top:18px}
dl{margin:0;columns:2 320px;column-gap:40px}
dl div{display:flex;gap:16px;justify-content:space-between;border-bottom:1px solid var(--line);padding:5px 0;break-inside:avoid;font-size:14.5px}
dt{color:var(--soft);flex:none;max-width:60%;overflow-wrap:anywhere}dd{margin:0;text-align:right;overflow-wrap:anywhere;min-width:0;font-variant-numeric:tabular-nums}
pre{margin:0;font:13.5px/1.55 ui-monospace,"SF Mono","Cascadia Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:plaintext;tab-size:4}
.command{background:var(--code);border-radius:8px;padding:10px 12px;margin:4px 0 14px;white-space:pre;overflow-x:auto}.command:last-child{margin-bottom:0}
.sample+.sample{border-top:1px solid var(--line);margin-top:16px;padding-top:14px}
.step{font-size:13px;color:var(--soft);margin-bottom:4px}.prompt{color:var(--accent);font-weight:600}
footer{font-size:13px;margin-top:44px}
@media (max-width:600px){main{padding:24px 14px 40px}h1{font-size:25px}h2{margin-top:34px}.card{padding:14px}.wide{display:none}.narrow{display:block}.heads{grid-template-columns:1fr 1fr}.heads .value{font-size:23px}dl{columns:1}}
@media (max-width:340px){.heads{grid-template-columns:1fr}}
@media print{body{background:#fff}main{max-width:none;padding:0}.card{break-inside:avoid}}
)css";

constexpr ChartSize kWide{860, 400, true}, kNarrow{360, 300, true}, kSmall{260, 190, true};

std::string element(const char* tag, const char* classes, std::string_view text) {
  return fmt::format("<{0} class=\"{1}\">{2}</{0}>\n", tag, classes, escape_markup(text));
}

std::string head(const RunReport& report) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n",
      escape_markup(report.title), kPageStyle, chart_css());
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

// Large charts are drawn for two widths, so that their text keeps its size on a phone.
std::string charts(const RunReport& report) {
  std::string out;
  const auto add = [&](const Chart& chart, const char* classes) {
    out += fmt::format("<div class=\"{}\"><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></div>\n",
                       classes, line_chart_svg(chart, kWide), line_chart_svg(chart, kNarrow));
  };
  if (report.chart) add(*report.chart, "card");
  for (const Chart& chart : report.more_charts)
    add(chart, "card more");
  if (report.small_charts.empty()) return out;
  out += "<div class=\"small\">\n";
  for (const Chart& chart : report.small_charts) {
    out += "<div class=\"card\">" + line_chart_svg(chart, kSmall) + "</div>\n";
  }
  return out + "</div>\n";
}

std::string samples(const RunReport& report) {
  if (report.samples.empty()) return "";
  std::string out = "<h2>What it wrote</h2>\n<div class=\"card\">\n";
  for (const ReportSample& sample : report.samples) {
    out += "<div class=\"sample\">" + element("div", "step", "after step " + format_thousands(sample.step));
    out += "<pre><span class=\"prompt\">" + escape_markup(sample.prompt, true) + "</span>" +
           escape_markup(sample.text, true) + "</pre></div>\n";
  }
  return out + "</div>\n";
}

std::string commands(const RunReport& report) {
  if (report.commands.empty()) return "";
  std::string out = "<h2>How to use it</h2>\n<div class=\"card\">\n";
  for (const ReportCommand& item : report.commands) {
    out += element("div", "soft", item.purpose);
    out += "<pre class=\"command\">" + escape_markup(item.command, true) + "</pre>\n";
  }
  return out + "</div>\n";
}

// Long paths may break after a slash.
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
  std::string out = head(report) + "<body>\n<main>\n<h1>" + escape_markup(report.title) + "</h1>\n";
  if (!report.subtitle.empty()) out += element("p", "soft", report.subtitle);
  out += headlines(report) + charts(report) + samples(report) + commands(report);
  for (const ReportSection& item : report.sections)
    out += section(item);
  if (!report.footer.empty()) out += "<footer>" + escape_markup(report.footer) + "</footer>\n";
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace gpt
