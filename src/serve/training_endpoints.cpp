#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "serve/api_error.h"
#include "serve/endpoints.h"
#include "serve/pages.h"

namespace gpt::serve {
namespace {

// Responds on the watching thread, because files may be large and disks may be slow.
template <class F>
void answer_later(const Service& service, const std::shared_ptr<Call>& call, F make) {
  const bool taken = run_later(service.watching, call, [call, make] { call->send(make()); });
  if (!taken) throw ApiError(503, "too many pending requests for runs; try again in a moment");
}

RunWatch& run_of(const Service& service, const Call& call, std::string_view prefix) {
  const std::string name = percent_decoded(call.request().path().substr(prefix.size()));
  if (RunWatch* run = service.runs.find(name)) return *run;
  throw ApiError(404,
                 fmt::format("the run \"{}\" does not exist; GET /training/runs lists the available runs",
                             printable_text(name, 64)));
}

// A run that cannot be read does not hide the other runs. Its error is reported when the run is requested
// alone.
std::string summary_of(RunWatch& run) {
  try {
    return run.summary();
  } catch (const Error&) {
    nlohmann::json facts = {{"name", run.name()}, {"version", ""}, {"step", 0}, {"state", "damaged"}};
    for (const char* key : {"steps", "loss", "val_loss", "tok_per_s", "seconds", "eta_seconds"})
      facts[key] = nullptr;
    return facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

}  // namespace

void list_runs(const Service& service, const std::shared_ptr<Call>& call) {
  answer_later(service, call, [&service] {
    std::string list;
    for (RunWatch& run : service.runs.now())
      list += (list.empty() ? "" : ",") + summary_of(run);
    return HttpReply{.body = "{\"runs\":[" + list + "]}"};
  });
}

void show_run(const Service& service, const std::shared_ptr<Call>& call) {
  answer_later(service, call, [&service, call] {
    return HttpReply{.body = run_of(service, *call, "/training/runs/").details()};
  });
}

void show_run_report(const Service& service, const std::shared_ptr<Call>& call) {
  answer_later(service, call,
               [&service, call] { return made_page(run_of(service, *call, "/training/reports/").report()); });
}

}  // namespace gpt::serve
