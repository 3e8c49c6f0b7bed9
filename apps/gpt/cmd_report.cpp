#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "command.h"
#include "options.h"
#include "output.h"
#include "report/run_charts.h"
#include "report/run_compare.h"
#include "report/svg.h"

namespace gpt {
namespace {

constexpr const char* kReportFooter = R"(Examples:
  gpt report run                          results of a run
  gpt report run-a run-b                  side by side, with the different settings
  gpt report run-a run-b --out page.html  the same as a web page, with the curves of all runs
  gpt report run-a run-b --svg loss.svg   only the loss curves, as an image
  gpt report run-a run-b --json

The page needs no network. gpt train also writes a page: report.html in the run folder.)";

constexpr size_t kMostRuns = 64;
constexpr ChartSize kPicture = {.width = 640, .height = 380};

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out, svg;
  bool json = false;
};

// Returns the folders that contain a run, and the names that do not exist. If no folder contains a run,
// returns all names. Writes a note about other files and folders, which patterns such as runs/* can match.
std::vector<std::string> folders_with_runs(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::vector<std::string> runs, others;
  bool found = false;
  for (const std::string& name : names) {
    const bool is_run = path_exists(name + "/metrics.jsonl");
    found = found || is_run;
    (is_run || !path_exists(name) ? runs : others).push_back(name);
  }
  if (!found) return names;
  if (!others.empty())
    write_note(fmt::format("note: {} skipped, because there is no metrics.jsonl: {}\n",
                           format_amount(std::ssize(others), "name"), format_list(others, kShown)));
  return runs;
}

void require_few_runs(const std::vector<std::string>& runs) {
  if (runs.size() <= kMostRuns) return;
  fail_usage(
      "report: expected at most {} runs, found {}; name the runs to compare, or use a pattern such as {}*",
      kMostRuns, runs.size(), runs.front());
}

int run(const ReportArguments& a) {
  if (a.runs.empty()) fail_usage("report: RUN is missing; see gpt report --help");
  const std::vector<std::string> folders = folders_with_runs(a.runs);
  require_few_runs(folders);
  check_output_file("--out", a.out, kComparisonPage);
  check_output_file("--svg", a.svg, kLossPicture);
  const std::vector<FinishedRun> runs = read_runs(folders);
  if (!a.out.empty()) {
    write_file_atomic(a.out, report_html(compare_report(runs)));
    write_note("wrote " + a.out + "\n");
  }
  if (!a.svg.empty()) {
    const Chart chart = runs.size() == 1 ? loss_chart(runs.front().records, {})
                                         : compare_report(runs).chart.value_or(Chart{});
    write_file_atomic(a.svg, line_chart_svg(chart, kPicture));
    write_note("wrote " + a.svg + "\n");
  }
  if (a.json) {
    write_output(compare_json(runs));
    return 0;
  }
  std::string text = format_table(summary_table(runs));
  if (const TextTable table = difference_table(runs); !table.rows.empty())
    text += "\nSettings that differ:\n" + format_table(table);
  write_output(text);
  const auto has_model = [](const FinishedRun& run) {
    return path_exists(run.path + "/last") || path_exists(run.path + "/best");
  };
  if (const auto run = std::ranges::find_if(runs, has_model); run != runs.end())
    write_next(use_command(run->path));
  return 0;
}

}  // namespace

Command add_report_command(CLI::App& root) {
  auto a = std::make_shared<ReportArguments>();
  CLI::App* app =
      add_command(root, "report", "compare training runs: results, settings, curves", kReportFooter);
  add(*app, {.flags = "RUN", .value = "RUN ...", .help = "Folders of training runs", .kind = ValueKind::path},
      a->runs);
  add(*app,
      {.flags = "-o,--out",
       .value = "FILE",
       .help = "File for the report as a web page",
       .kind = ValueKind::path,
       .aliases = kOutAliases},
      a->out);
  add(*app,
      {.flags = "--svg",
       .value = "FILE",
       .help = "File for the loss curves as an image",
       .kind = ValueKind::path},
      a->svg);
  add_json_option(*app, a->json);
  return {app, [a] { return run(*a); }};
}

}  // namespace gpt
