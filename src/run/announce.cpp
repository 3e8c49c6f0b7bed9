#include "run/announce.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "report/next_step.h"
#include "run/advice.h"
#include "run/run_facts.h"
#include "train/schedule.h"

namespace gpt {
namespace {

std::string data_line(const RunStart& s) {
  const TrainConfig& c = s.config.train;
  const double passes = static_cast<double>(s.plan.tokens) / static_cast<double>(s.plan.train_tokens);
  return fmt::format(
      "data: {}{}, {} training tokens, {} validation tokens; {} of {} x {} tokens = {} pass{}\n",
      fmt::join(c.data, ", "),
      c.val_data.empty() ? "" : fmt::format(" (validation: {})", fmt::join(c.val_data, ", ")),
      format_thousands(s.data.train.size()), format_thousands(s.data.val.size()),
      format_amount(c.steps, "step"), c.batch_size, format_thousands(s.config.model.n_ctx),
      format_passes(passes), passes == 1 ? "" : "es");
}

std::string model_line(const RunStart& s) {
  const ModelConfig& c = s.config.model;
  return fmt::format("model: {} parameters, {} of width {}, context {}, vocabulary {} ({})\n",
                     format_thousands(s.plan.counts.total), format_amount(c.n_layer, "layer"),
                     format_thousands(c.n_embd), format_thousands(c.n_ctx), format_thousands(c.vocab_size),
                     s.data.tokenizer->kind());
}

std::string cost_line(const RunStart& s) {
  const RunPlan& p = s.plan;
  const auto time = p.time();
  const std::string takes = time ? "about " + format_duration(time->total())
                                 : "at least " + format_duration(p.flops() / p.peak_flops);
  return fmt::format("cost: {} of memory{}, {} FLOPs, {} at {:.0f} GFLOP/s in {}\n",
                     format_bytes(p.memory.total()), p.subject.processes > 1 ? " per process" : "",
                     format_count(p.flops()), takes, p.peak_flops / 1e9,
                     dtype_name(tensor_dtype(s.config.train.dtype)));
}

std::string rhythm_line(const RunStart& s) {
  const TrainConfig& c = s.config.train;
  const auto every = [](int64_t steps) {
    if (steps == 1) return std::string("every step");
    return steps > 0 ? fmt::format("every {} steps", format_thousands(steps)) : std::string("at the end");
  };
  std::string text = "intervals: ";
  if (s.plan.subject.evaluates) {
    text += fmt::format("evaluation {} ({} of the run) on {} random windows of the validation text, ",
                        every(c.eval_every), format_percent(evaluation_share(c)),
                        format_thousands(c.eval_batches * c.batch_size));
  } else {
    text += "no evaluation, ";
  }
  if (c.sample_every > 0) text += fmt::format("sample {}, ", every(c.sample_every));
  text += "checkpoint " + every(c.save_every);
  if (c.patience > 0)
    text += fmt::format("; ends early after {} without a better validation loss",
                        format_amount(c.patience, "evaluation"));
  return text + "\n";
}

std::string folder_line(const RunStart& s) {
  return fmt::format("{}; Ctrl-C saves and stops, {} continues the run; `verbose` prints details\n",
                     s.resumed_at
                         ? fmt::format("resuming {} at step {}", s.out, format_thousands(*s.resumed_at))
                         : "out: " + s.out,
                     s.resume_command);
}

// Returns true if the user resumes a run that is already finished.
bool makes_no_step(const RunStart& s) {
  return s.resumed_at && *s.resumed_at >= s.config.train.steps;
}

}  // namespace

std::string start_lines(const RunStart& s) {
  if (makes_no_step(s))
    return fmt::format("{} is finished at step {}; {} extends it to M steps\n", s.out,
                       format_thousands(*s.resumed_at), s.resume_command + " --steps M");  // a command
  return data_line(s) + model_line(s) + cost_line(s) + rhythm_line(s) + folder_line(s);
}

std::string start_notes(const RunStart& s, bool chosen_tokenizer) {
  if (makes_no_step(s)) return "";
  std::string text;
  for (const Advice& advice : run_advice({.config = s.config,
                              .parameters = s.plan.counts.total,
                              .train_tokens = s.data.train.size(),
                              .val_tokens = s.data.val.size(),
                              .documents = s.data.documents,
                              .chosen_tokenizer = chosen_tokenizer}))
    text += "note: " + advice.text + "\n";
  if (!s.plan.fits())
    text += fmt::format(
        "note: the run needs {} of memory, but only {} are available; gpt plan shows settings that fit\n",
        format_bytes(s.plan.memory.total()), format_bytes(s.plan.available));
  return text;
}

std::string start_details(const RunStart& s, const std::string& optimizer) {
  const RunMemory& m = s.plan.memory;
  std::string text = s.data.preview + "\n" + describe_keys(run_config_json(s.config), 9);
  text += fmt::format("{} parameters; {}\n", format_thousands(s.plan.counts.total), optimizer);
  text += fmt::format("memory: {} for weights, gradients and moments, {} for activations{}\n",
                      format_bytes(m.weights + m.gradients + m.moments), format_bytes(m.activations),
                      s.config.train.recompute ? " (recomputed)" : "");
  text +=
      fmt::format("machine: {}\n", machine_description(s.plan.subject.threads, s.plan.subject.kernels->name));
  if (s.data.floor)
    text += fmt::format(
        "the entropy of the text is {:.4f} nats per token, the lowest loss that a model can reach\n",
        *s.data.floor);
  return text;
}

std::string evaluation_line(const EvalLosses& losses, const EvalState& s) {
  std::string text;
  if (losses.train) {
    text = fmt::format("step {}: train {:.4f} | val {:.4f} | lr {:.6f}", format_thousands(s.step),
                       *losses.train, losses.val, s.lr);
    if (s.norm) text += fmt::format(" | norm {:.4f}", *s.norm);
  } else {
    text = fmt::format("step {}: validation loss {:.4f}, perplexity {}", format_thousands(s.step), losses.val,
                       format_perplexity(std::exp(losses.val)));
  }
  if (s.floor) text += fmt::format(", {:.4f} above the entropy floor", losses.val - *s.floor);
  return text + (s.best ? ", best so far\n" : "\n");
}

namespace {

// Reports the loss that `gpt eval` computes for the models in last/ and best/, and the command that computes
// it again.
std::string whole_line(const RunEnd& e) {
  if (!e.whole) return "";
  const WholeLosses& w = *e.whole;
  const bool is_all = w.tokens == w.all;
  std::string text =
      is_all ? fmt::format("held-out text, all {} tokens: ", format_thousands(w.all))
             : fmt::format(
                   "held-out text, the first {} of {} tokens (limited to the number of tokens trained on): ",
                   format_thousands(w.tokens), format_thousands(w.all));
  text += fmt::format("loss {:.4f} for last/", w.last);
  if (w.best) text += fmt::format(", {:.4f} for best/", *w.best);
  text += fmt::format("; reproduce with: gpt eval {}", shell_quoted(e.out + (w.best ? "/best" : "/last")));
  if (e.dtype != DType::f32) text += fmt::format(" --dtype {}", dtype_name(e.dtype));  // a command
  if (!is_all) text += fmt::format(" --limit {}", w.tokens);                           // a command
  return text + "\n";
}

}  // namespace

std::string end_lines(const RunEnd& e) {
  if (!e.finished) {
    return fmt::format("{} at step {} of {}; continue with: {}\n", e.interrupted ? "interrupted" : "stopped",
                       format_thousands(e.step), format_thousands(e.steps), e.resume_command);
  }
  std::string text = fmt::format("done: {} in {}", format_amount(e.step, "step"), format_duration(e.seconds));
  if (e.best_step >= 0) {
    if (e.val_loss) text += fmt::format("; validation loss {:.4f}", *e.val_loss);
    if (e.val_loss && e.val_step >= 0 && e.val_step != e.step)
      text += fmt::format(" at step {}", format_thousands(e.val_step));
    text += fmt::format("; best {:.4f} at step {}", e.best_val_loss, format_thousands(e.best_step));
    if (e.best_step > e.step) text += ", which was lost when the run was resumed";
    text += " (on random windows)";
  }
  text += "\n" + whole_line(e);
  if (e.step < e.steps)
    text += fmt::format(
        "ended early, before step {}: {} without a better validation loss; to continue anyway: {}\n",
        format_thousands(e.steps), format_amount(e.patience, "evaluation"),
        e.resume_command + " --patience 0");  // a command
  text += fmt::format("model: {}/last{}; report: {}/report.html\n", e.out,
                      e.best_step >= 0 ? fmt::format(" and {}/best", e.out) : "", e.out);
  return text;
}

}  // namespace gpt
