#include "base/error.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "serve/api_error.h"
#include "serve/openai/endpoints.h"
#include "serve/openai/responses.h"
#include "serve/pages/pages.h"

namespace gpt::serve {
namespace {

RunWatch& run_of(const Service& service, const Call& call, std::string_view prefix) {
  const std::string name = percent_decoded(call.request().path().substr(prefix.size()));
  if (RunWatch* run = service.runs.find(name)) return *run;
  throw ApiError(404,
                 fmt::format("the run \"{}\" does not exist; GET /training/runs lists the available runs",
                             printable_text(name, 64)));
}

// A run that cannot be read does not hide the other runs. Its error is reported when the run is requested
// alone.
RunResponse summary_of(RunWatch& run) {
  try {
    return run.summary();
  } catch (const Error&) {
    return {.name = run.name(), .state = "damaged"};
  }
}

}  // namespace

void list_runs(const Service& service, const std::shared_ptr<Call>& call) {
  RunsResponse response;
  for (RunWatch& run : service.runs.now())
    response.runs.push_back(summary_of(run));
  call->send({.body = json_of(response)});
}

void show_run(const Service& service, const std::shared_ptr<Call>& call) {
  call->send({.body = json_of(run_of(service, *call, "/training/runs/").details())});
}

void show_run_report(const Service& service, const std::shared_ptr<Call>& call) {
  call->send(made_page(run_of(service, *call, "/training/reports/").report()));
}

}  // namespace gpt::serve
