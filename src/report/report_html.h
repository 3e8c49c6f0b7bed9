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

// One figure at the top of the page: "validation loss" "1.4697" "best, at step 1,750".
struct ReportHeadline {
  std::string label, value, note;
};

struct ReportTable {
  std::string caption;  // may be empty
  TextTable table;      // numeric columns are set flush right
};

// A titled part of the page; what is empty is left out.
struct ReportSection {
  std::string title;
  std::string text;
  std::vector<ReportFact> facts;
  std::vector<ReportTable> tables;
};

struct ReportSample {
  int64_t step = 0;
  std::string prompt;  // shown apart from what follows it
  std::string text;    // any bytes
};

struct ReportCommand {
  std::string purpose, command;
};

// Everything on the page. All texts are plain: the page escapes them.
struct RunReport {
  std::string title;
  std::string subtitle;  // one line: model, data, when
  std::vector<ReportHeadline> headlines;
  std::optional<Chart> chart;
  std::vector<Chart> more_charts;  // below it, as large
  std::vector<Chart> small_charts;
  std::vector<ReportSample> samples;  // in order of steps
  std::vector<ReportCommand> commands;
  std::vector<ReportSection> sections;
  std::string footer;
  std::string curves;  // from curves_json: the page draws them in place of the charts above; may be empty
};

// One self-contained HTML page without outside resources (and a policy that forbids them), readable on a
// phone, on paper and in the dark. Without `curves` it has no scripts either; with them its own scripts
// replace the charts by ones to look into, which are still there for readers without scripts.
std::string report_html(const RunReport& report);

}  // namespace gpt
