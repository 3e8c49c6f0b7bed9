#include "tasks/scorer.h"

#include <algorithm>

#include "base/error.h"
#include "base/ranges.h"

namespace gpt {
namespace {

// A common prefix that saves fewer ids than this is computed separately for each sequence.
constexpr int64_t kWorthSharing = 8;
// Number of values in the logits buffer (64 MiB). The buffer is larger if a single row has more values.
constexpr int64_t kLogits = int64_t{1} << 24;

}  // namespace

Scorer::Scorer(SequenceModel& model, int64_t step_rows)
    : model_(model),
      step_rows_(std::min(step_rows, model.max_rows())),
      logit_rows_(std::clamp<int64_t>(kLogits / model.vocab_size(), 1, step_rows_)),
      logits_(static_cast<size_t>(logit_rows_ * model.vocab_size()) * sizeof(float), "logits",
              model.backend().device.get()),
      selector_(model.backend(), model.vocab_size()) {
  GPT_ASSERT(step_rows >= 1);
}

std::vector<Score> Scorer::score(std::span<const ScoreRequest> requests,
                                 const std::function<void(int64_t, int64_t)>& progress) {
  for (const ScoreRequest& r : requests) {
    const auto n = std::ssize(r.ids);
    GPT_ASSERT(r.scored >= 1 && r.scored < n && n <= model_.n_ctx() + 1);
    counts_.asked += n - 1;
    for (const int32_t id : r.ids) {
      if (id < 0 || id >= model_.vocab_size())
        fail("expected token ids from 0 to {}, found {}; use the tokenizer of this model",
             model_.vocab_size() - 1, id);
    }
  }
  requests_ = requests;
  scores_.assign(requests.size(), {});
  finished_ = 0;
  const PrefixTree tree(transformed(requests, [](const ScoreRequest& r) {
    return std::span<const int32_t>(r.ids).first(r.ids.size() - 1);
  }));
  free_slots_ = transformed_indices(model_.slots(), [&](int64_t i) { return static_cast<int>(i); });
  for (const int slot : free_slots_)
    model_.reset(slot);
  open(tree, PrefixTree::kRoot, 0);
  while (!ready_.empty() || !jobs_.empty()) {
    admit(tree);
    step(tree);
    if (progress) progress(finished_, std::ssize(requests));
  }
  return std::move(scores_);
}

// Adds the descendants of `node` that can be computed next. For each descendant, the first `known` ids of its
// prefix are already computed.
void Scorer::open(const PrefixTree& tree, size_t node, int64_t known) {
  std::vector<size_t> left(tree.node(node).children.rbegin(), tree.node(node).children.rend());
  std::vector<size_t> next;
  while (!left.empty()) {
    const size_t child = left.back();
    left.pop_back();
    const PrefixTree::Node& n = tree.node(child);
    if (n.sequences.empty() && n.length - known < kWorthSharing) {
      left.insert(left.end(), n.children.rbegin(), n.children.rend());
    } else {
      next.push_back(child);
    }
  }
  ready_.insert(ready_.end(), next.rbegin(), next.rend());
}

// Fills a free slot with the ids of the job that are already in the KV cache. Returns false if there is not
// enough memory.
bool Scorer::start(Job& job) {
  const int slot = free_slots_.back();
  const int64_t first_scored = std::ssize(job.ids) - std::max<int64_t>(job.scored, 1);
  job.done = model_.reuse(slot, job.ids);
  if (job.done > first_scored) {
    if (model_.can_truncate(slot, first_scored)) {  // saves the page that a shorter match would copy
      model_.truncate(slot, first_scored);
      job.done = first_scored;
    } else {
      model_.reset(slot);
      job.done = model_.reuse(slot, job.ids.first(static_cast<size_t>(first_scored) + 1));
    }
  }
  if (!model_.reserve(slot, std::ssize(job.ids) - job.done)) {
    model_.reset(slot);
    GPT_ASSERT(!jobs_.empty());
    return false;
  }
  job.slot = slot;
  free_slots_.pop_back();
  return true;
}

void Scorer::admit(const PrefixTree& tree) {
  int64_t rows = 0;
  for (const Job& job : jobs_)
    rows += std::ssize(job.ids) - job.done;
  while (!ready_.empty() && !free_slots_.empty() && rows < step_rows_) {
    const size_t node = ready_.back();
    const PrefixTree::Node& n = tree.node(node);
    Job job{.node = node,
            .ids = std::span<const int32_t>(requests_[n.sequence].ids).first(static_cast<size_t>(n.length)),
            .scored = 0};
    for (const size_t r : n.sequences)
      job.scored = std::max(job.scored, requests_[r].scored);
    if (!start(job)) return;
    ready_.pop_back();
    rows += std::ssize(job.ids) - job.done;
    jobs_.push_back(job);
  }
}

void Scorer::step(const PrefixTree& tree) {
  std::vector<SequenceModel::Append> batch;
  int64_t rows_left = step_rows_, row = 0;
  for (Job& job : jobs_) {
    const int64_t left = std::ssize(job.ids) - job.done;
    // The first `before` ids need no logits. Each following id needs one row of logits, so append at most as
    // many of them as there are free rows.
    const int64_t before = std::max<int64_t>(0, left - job.scored);
    const int64_t most = job.scored == 0 ? left : before + std::min(left - before, logit_rows_ - row);
    job.appended = std::min(most, rows_left);
    job.wanted = job.scored == 0 ? 0 : std::max<int64_t>(0, job.appended - before);
    job.first_row = row;
    if (job.appended == 0) continue;
    batch.push_back({job.slot,
                     job.ids.subspan(static_cast<size_t>(job.done), static_cast<size_t>(job.appended)),
                     job.wanted});
    rows_left -= job.appended;
    row += job.wanted;
  }
  const int64_t shape[] = {row, model_.vocab_size()};
  const TensorView logits = logits_.view(0, DType::f32, shape);
  model_.forward(batch, logits);
  counts_.computed += step_rows_ - rows_left;
  selector_.rows =
      transformed_indices(row, [](int64_t i) { return SelectRow{.row = i, .k = 1, .log_sum = true}; });
  if (row > 0) selector_.run(logits);
  read(tree);
  for (Job& job : jobs_) {
    job.done += job.appended;
    if (job.done < std::ssize(job.ids)) continue;
    model_.reset(job.slot);
    free_slots_.push_back(job.slot);
    finished_ += std::ssize(tree.node(job.node).sequences);
  }
  for (const Job& job : jobs_) {
    if (job.done == std::ssize(job.ids)) open(tree, job.node, job.done);
  }
  std::erase_if(jobs_, [](const Job& job) { return job.done == std::ssize(job.ids); });
}

// Calls fn(row, request, id) for each id that this step scores. `row` is the row of logits that predicts the
// id.
template <class F>
void Scorer::for_scored(const PrefixTree& tree, F&& fn) const {
  for (const Job& job : jobs_) {
    for (int64_t i = 0; i < job.wanted; ++i) {
      const int64_t position = job.done + job.appended - job.wanted + i;
      for (const size_t r : tree.node(job.node).sequences) {
        const ScoreRequest& request = requests_[r];
        if (position < std::ssize(job.ids) - request.scored) continue;
        fn(static_cast<size_t>(job.first_row + i), r, request.ids[static_cast<size_t>(position) + 1]);
      }
    }
  }
}

// Adds the log-probabilities of the ids that this step scores to the scores of their requests.
void Scorer::read(const PrefixTree& tree) {
  scored_tokens_.clear();
  for_scored(tree, [&](size_t row, size_t, int32_t id) { scored_tokens_.push_back({row, id}); });
  const float* logit = selector_.logits(scored_tokens_).data();
  for_scored(tree, [&](size_t row, size_t r, int32_t id) {
    scores_[r].logprob += *logit++ - selector_.selection(row).log_sum;
    scores_[r].greedy = scores_[r].greedy && id == selector_.candidates(row).front().id;
  });
}

}  // namespace gpt
