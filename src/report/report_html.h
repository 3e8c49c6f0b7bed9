#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/chart.h"
#include "report/table.h"

namespace gpt {

struct ReportFact {
  std::string name, value;
};

// A value at the top of the page, such as "validation loss", "1.4697", "best, at step 1,750".
struct ReportHeadline {
  std::string label, value, note;
};

struct ReportTable {
  std::string caption;  // may be empty
  TextTable table;      // numeric columns are right-aligned
};

// A section of the page with a title. Empty parts are left out.
struct ReportSection {
  std::string title;
  std::string text;
  std::vector<ReportFact> facts;
  std::vector<ReportTable> tables;
};

struct ReportSample {
  int64_t step = 0;
  std::string prompt;  // shown in a different style than `text`
  std::string text;    // generated text, which may have any bytes
};

struct ReportCommand {
  std::string purpose, command;
};

// The content of the page. All texts are plain text; the page escapes them.
struct RunReport {
  std::string title;
  std::string subtitle;  // one line: model, data, time
  std::vector<ReportHeadline> headlines;
  std::optional<Chart> chart;
  std::vector<Chart> more_charts;  // below `chart`, in the same size
  std::vector<Chart> small_charts;
  std::vector<ReportSample> samples;  // in order of steps
  std::vector<ReportCommand> commands;
  std::vector<ReportSection> sections;
  std::string footer;
  // Return value of curves_json. If it is not empty, the page replaces the charts above with interactive
  // charts of these curves.
  std::string curves;
};

// Returns a self-contained HTML page. The page loads no external resources, and its Content-Security-Policy
// forbids them. It can be read on a phone, on paper and in a dark theme. Without `curves`, the page has no
// scripts. With `curves`, scripts replace the static charts with interactive charts. A browser that does not
// run scripts shows the static charts.
std::string report_html(const RunReport& report);

}  // namespace gpt
