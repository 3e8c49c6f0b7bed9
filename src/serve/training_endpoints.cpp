#include "base/ranges.h"
#include "base/utf8.h"
#include "serve/api_error.h"
#include "serve/endpoints.h"
#include "serve/pages.h"

namespace gpt::serve {
namespace {

// Answers on the watching thread: files may be large, and disks slow.
template <class F>
void answer_later(const Service& service, const std::shared_ptr<Call>& call, F make) {
  const bool taken = run_later(service.watching, call, [call, make] { call->send(make()); });
  if (!taken) throw ApiError(503, "too many requests for runs wait; try again in a moment");
}

RunWatch& run_of(const Service& service, const Call& call, std::string_view prefix) {
  const std::string name = percent_decoded(call.request().path().substr(prefix.size()));
  if (RunWatch* run = service.runs.find(name)) return *run;
  throw ApiError(404, fmt::format("there is no run \"{}\" here; GET /training/runs lists those there are",
                                  printable_text(name, 64)));
}

}  // namespace

void list_runs(const Service& service, const std::shared_ptr<Call>& call) {
  answer_later(service, call, [&service] {
    std::string list;
    for (RunWatch& run : service.runs.now())
      list += (list.empty() ? "" : ",") + run.summary();
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
