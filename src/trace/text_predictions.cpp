#include <fmt/format.h>

#include <algorithm>

#include "base/format.h"
#include "report/table.h"
#include "trace/text.h"

namespace gpt {
namespace {

constexpr int64_t kMaxPositions = 64;
constexpr size_t kLensTokens = 6;  // columns of the lens table

std::string candidate(const TokenNames& names, const Candidate& c, int width) {
  return fmt::format("{} {:.1f}%", names.short_name(c.id, width), 100 * c.probability);
}

std::string positions_table(const std::vector<Prediction>& all, const Capture& capture,
                            const TokenNames& names, const TraceRequest& r) {
  TextTable table{.columns = {"pos", "after", "entropy", "came next", "p", "rank", "likeliest next tokens"}};
  const size_t first = all.size() > kMaxPositions ? all.size() - kMaxPositions : 0;
  for (size_t t = first; t < all.size(); ++t) {
    const Prediction& p = all[t];
    std::string top;
    for (size_t i = 0; i < std::min<size_t>(p.top.size(), 4); ++i)
      top += (i > 0 ? "  " : "") + candidate(names, p.top[i], 8);
    const bool known = p.next >= 0;
    table.rows.push_back({std::to_string(t), names.short_name(capture.ids()[t], 10),
                          fmt::format("{:.2f}", p.entropy), known ? names.short_name(p.next, 10) : "",
                          known ? format_percent(p.next_probability) : "",
                          known ? std::to_string(p.next_rank) : "", top});
  }
  std::string out = detail::heading("Next tokens at every position", r);
  out += fmt::format("{} [{},{}] logits; softmax makes them probabilities. Entropy in bits.\n",
                     capture.config().final_norm ? "Final norm and head give" : "The head gives",
                     capture.n_tokens(), capture.config().vocab_size);
  if (first > 0) out += fmt::format("the last {} of {} positions\n", kMaxPositions, all.size());
  return out + format_table(table);
}

std::string ranking(const Prediction& last, const TokenNames& names, const TraceRequest& r) {
  std::string out = detail::heading(fmt::format("Top {} next tokens", last.top.size()), r);
  for (size_t i = 0; i < last.top.size(); ++i) {
    const Candidate& c = last.top[i];
    out += fmt::format("{:>3}. Token {}{}: {:.2f} %  (logit {:.4f})\n", i + 1, c.id,
                       names.known() ? " " + names.quoted(c.id, 20) : "", 100 * c.probability, c.logit);
  }
  return out;
}

// What every block would say, for the last tokens of the prompt.
std::string lens_text(const LogitLens& lens, const Capture& capture, const TokenNames& names,
                      const TraceRequest& r) {
  const size_t T = capture.ids().size(), first = T > kLensTokens ? T - kLensTokens : 0;
  TextTable table{.columns = {"after"}};
  for (size_t t = first; t < T; ++t)
    table.columns.push_back(fmt::format("{} {}", t, names.short_name(capture.ids()[t], 8)));
  for (size_t i = 0; i < lens.size(); ++i) {
    std::vector<std::string> row = {i == 0 ? "embedding" : fmt::format("block {}", i - 1)};
    for (size_t t = first; t < T; ++t) {
      const Candidate& c = lens[i][t].top.front();
      row.push_back(fmt::format("{} {:.0f}%", names.short_name(c.id, 8), 100 * c.probability));
    }
    table.rows.push_back(row);
  }
  return detail::heading("Logit lens", r) +
         fmt::format("What the model would predict if it stopped early: {} on every block's output.\n",
                     capture.config().final_norm ? "final norm and head" : "the head") +
         format_table(table);
}

}  // namespace

std::string detail::predictions_text(Capture& capture, const TokenNames& names, const TraceRequest& r) {
  const std::vector<Prediction> all = predictions(capture, r.top_k);
  return lens_text(logit_lens(capture, 1), capture, names, r) + positions_table(all, capture, names, r) +
         ranking(all.back(), names, r);
}

}  // namespace gpt
