#include "plan_proposal.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "model/model_counts.h"
#include "options.h"
#include "report/table.h"
#include "train/plan.h"
#include "train/run_data.h"
#include "train/run_facts.h"

namespace gpt {
namespace {

constexpr const char* kPresets[] = {"tiny",        "nanochat-demo", "mini-gpt", "gpt2",
                                    "gpt2-medium", "gpt2-large",    "gpt2-xl"};

Proposal proposal_of(const std::string& preset, RunConfig config, const RunData& data,
                     double flops_per_second) {
  config.model.vocab_size = data.tokenizer->vocab_size();
  complete(config.model);
  const ModelCounts counts(config.model);
  const int64_t step_tokens = config.train.batch_size * config.model.n_ctx;
  Proposal p{.preset = preset, .parameters = counts.total};
  p.steps = std::max<int64_t>(1, Proposals::kPasses * data.train.size() / step_tokens);
  p.seconds = static_cast<double>(p.steps * step_tokens) * counts.training_flops(config.model.n_ctx) /
              flops_per_second;
  return p;
}

double tokens_per_parameter(const Proposals& p, const Proposal& one) {
  return static_cast<double>(p.train_tokens) / static_cast<double>(one.parameters);
}

}  // namespace

Proposals propose_presets(const ConfigFlags& flags) {
  RunConfig first = new_run_config({kPresets[0], "", ""}, flags);
  first.train.eval_every = 0;  // any length will do
  check_sources(first.train, "");
  const RunData data = load_run_data(first.train, 1, "");
  Machine machine({.threads = first.train.threads});
  const double rate = measure_peak_flops(machine.backend, tensor_dtype(first.train.dtype));
  Proposals p{.train_tokens = data.train.size(), .all = {}};
  for (const char* preset : kPresets)
    p.all.push_back(proposal_of(preset, new_run_config({preset, "", ""}, flags), data, rate));
  std::ranges::stable_sort(p.all, {}, &Proposal::parameters);
  for (size_t i = 0; i < p.all.size(); ++i) {
    if (p.all[i].parameters * kOptimalTokensPerParameter <= Proposals::kPasses * p.train_tokens &&
        p.all[i].seconds <= Proposals::kMostSeconds)
      p.chosen = i;
  }
  return p;
}

std::string largest_preset(const ConfigFlags& flags, const RunPlan& plan) {
  std::string largest;
  int64_t parameters = 0;
  for (const char* preset : kPresets) {
    try {
      PlanSubject subject = plan.subject;
      subject.config = new_run_config({preset, "", ""}, flags);
      subject.config.model.vocab_size = plan.subject.config.model.vocab_size;
      complete(subject.config.model);
      const int64_t size = ModelCounts(subject.config.model).total;
      if (size < parameters || plan_memory(subject).total() > plan.available) continue;
      largest = preset;
      parameters = size;
    } catch (const Error&) {  // heads that do not divide a width given by a flag, say
    }
  }
  return largest;
}

std::string proposals_text(const Proposals& p) {
  TextTable table{{"preset", "parameters", "tokens/parameter", "steps", "at least", ""}};
  for (size_t i = 0; i < p.all.size(); ++i) {
    const Proposal& one = p.all[i];
    table.rows.push_back({one.preset, format_thousands(one.parameters),
                          format_passes(tokens_per_parameter(p, one)), format_thousands(one.steps),
                          format_duration(one.seconds), i == p.chosen ? "fits best" : ""});
  }
  return fmt::format("no --preset is given; which one fits {} tokens, passed over {} times?\n\n",
                     format_thousands(p.train_tokens), Proposals::kPasses) +
         format_table(table) +
         fmt::format(
             "\nthe largest one with {} tokens per parameter over all passes that takes less than a day "
             "here, else the smallest\n",
             kOptimalTokensPerParameter);
}

nlohmann::json proposals_json(const Proposals& p) {
  nlohmann::json out = {{"train_tokens", p.train_tokens},
                        {"passes", Proposals::kPasses},
                        {"preset", p.all[p.chosen].preset},
                        {"presets", nlohmann::json::array()}};
  for (const Proposal& one : p.all) {
    out["presets"].push_back({{"preset", one.preset},
                              {"parameters", one.parameters},
                              {"tokens_per_parameter", tokens_per_parameter(p, one)},
                              {"steps", one.steps},
                              {"seconds_at_least", one.seconds}});
  }
  return out;
}

}  // namespace gpt
