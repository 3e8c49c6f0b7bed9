#include "tasks/task_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "data/token_hash.h"
#include "distributed/same.h"
#include "distributed/shares.h"
#include "infer/engine.h"
#include "tasks/python_text.h"

namespace gpt {
namespace {

constexpr size_t kShownText = 60;
// Maximum number of questions that a rank computes before the ranks exchange their results. The limit is
// small, so that no rank waits long for the other ranks.
constexpr int64_t kMostAtOnce = 1024;

std::string shown(const std::string& text) {
  return printable_text(text.substr(text.size() - std::min(text.size(), kShownText)), kShownText);
}

// Returns the position of the first stop sequence, or npos if there is none.
size_t find_stop(const std::string& text, const std::vector<std::string>& stops) {
  size_t first = std::string::npos;
  for (const std::string& stop : stops)
    first = std::min(first, text.find(stop));
  return first;
}

}  // namespace

TaskModel::TaskModel(SequenceModel& model, const Tokenizer& tokenizer, const ModelConfig& config,
                     int64_t step_rows, const ChatTemplate* chat, Communicator& processes)
    : model_(model),
      tokenizer_(tokenizer),
      chat_(chat),
      processes_(processes),
      scorer_(model, step_rows),
      step_rows_(step_rows) {
  const SpecialIds special = tokenizer.special_ids();
  const auto known = [&](int64_t id) { return id >= 0 && id < config.vocab_size; };
  const auto add = [&](std::vector<int32_t>& ids, int64_t id) {
    if (known(id)) ids.push_back(static_cast<int32_t>(id));
  };
  add(eos_, special.eos);
  for (const int64_t id : config.eos_token_ids)
    add(eos_, id);
  for (const int64_t id : {special.bos, special.eos, special.unk, special.pad, config.bos_token_id})
    add(special_, id);
  if (chat != nullptr) eos_.push_back(chat->end_id());
  special_.insert(special_.end(), eos_.begin(), eos_.end());
  const int64_t bos = known(special.bos) ? special.bos : config.bos_token_id;
  if (known(bos)) {
    prefix_ = static_cast<int32_t>(bos);
  } else if (!eos_.empty()) {
    prefix_ = eos_.front();
  }
  if (special.add_bos.value_or(false) && known(bos)) before_texts_ = static_cast<int32_t>(bos);
  if (prefix_ >= 0 && prefix_ < tokenizer.vocab_size()) prefix_text_ = tokenizer.token_bytes(prefix_);
}

// Computes `count` questions in parts that are distributed over the ranks. Calls `of` with the index of the
// first question of a part, the number of its questions, and a callback that reports how many of them are
// completed.
template <class Of>
auto TaskModel::shared(int64_t count, const TaskProgress& progress, Of of) {
  const int64_t size = share_size(processes_, count, kMostAtOnce);
  const auto of_part = [&](int64_t part) {
    const int64_t first = part * size, begun = part / processes_.size() * processes_.size() * size;
    const TaskProgress of_all = [&](int64_t done, int64_t) {  // assumes equal progress of all ranks
      if (progress) progress(std::min(begun + done * processes_.size(), count), count);
    };
    return of(first, std::min(size, count - first), of_all);
  };
  return compute_in_shares(processes_, size == 0 ? 0 : (count + size - 1) / size, of_part,
                           "scores of a task");
}

void TaskModel::require_same_questions(const std::vector<std::vector<int32_t>>& questions) const {
  std::string bytes;
  for (const std::vector<int32_t>& ids : questions) {
    bytes.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
    bytes += ' ';
  }
  require_same(processes_, "set of questions", hex_hash(bytes));
}

std::vector<int32_t> TaskModel::encode(const std::string& text) const {
  std::vector<int32_t> ids = tokenizer_.encode_special(text);
  const bool has_prefix = !prefix_text_.empty() && text.starts_with(prefix_text_);
  if (before_texts_ >= 0 && !has_prefix) ids.insert(ids.begin(), before_texts_);
  return ids;
}

std::vector<int32_t> TaskModel::encode_question(const std::string& context) const {
  if (chat_ == nullptr) return encode(context);
  return chat_->encode(std::vector<ChatMessage>{{"user", context}}, true);
}

std::string TaskModel::question_text(const std::string& context) const {
  if (chat_ == nullptr) return context;
  std::string text;
  for (const int32_t id : encode_question(context))
    text += tokenizer_.token_bytes(id);
  return text;
}

int32_t TaskModel::required_prefix() const {
  if (prefix_ < 0)
    fail("the tokenizer has neither a BOS nor an EOS token, one of which must precede every text");
  return prefix_;
}

ScoreRequest TaskModel::encode_pair(const TaskPrompt::Pair& pair) const {
  ScoreRequest request;
  size_t context = 0;  // number of ids of the context
  if (pair.context.empty()) {
    request.ids = tokenizer_.encode_special(pair.continuation);
    context = 1;
    if (request.ids.empty() || request.ids.front() != required_prefix())
      request.ids.insert(request.ids.begin(), required_prefix());
  } else {
    const std::string front(rstrip(pair.context));
    request.ids = encode(pair.context + pair.continuation);
    context = encode(front).size();
    if (context == 0)
      fail("expected a context, found only white space before \"{}", shown(pair.continuation));
  }
  if (request.ids.size() <= context)
    fail("the continuation \"{}\" has no tokens of its own after \"{}", shown(pair.continuation),
         shown(pair.context));
  request.scored = std::ssize(request.ids) - static_cast<int64_t>(context);
  const int64_t most = model_.n_ctx() + 1;
  if (request.scored >= most)
    fail("expected a continuation of at most {} tokens (the model's context), found {} in \"{}",
         model_.n_ctx(), request.scored, shown(pair.continuation));
  if (std::ssize(request.ids) > most) request.ids.erase(request.ids.begin(), request.ids.end() - most);
  return request;
}

std::vector<Score> TaskModel::scores(std::span<const TaskPrompt::Pair> pairs, const TaskProgress& progress) {
  return score_ids(transformed(pairs, [&](const TaskPrompt::Pair& pair) { return encode_pair(pair); }),
                   progress);
}

std::vector<Score> TaskModel::score_ids(std::span<const ScoreRequest> requests,
                                        const TaskProgress& progress) {
  if (processes_.size() > 1) require_same_questions(transformed(requests, &ScoreRequest::ids));
  const std::vector<double> numbers =
      shared(std::ssize(requests), progress, [&](int64_t first, int64_t count, const TaskProgress& of_part) {
        const auto part = requests.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
        std::vector<double> logprob_and_greedy;
        for (const Score& score : scorer_.score(part, of_part))
          logprob_and_greedy.insert(logprob_and_greedy.end(), {score.logprob, score.greedy ? 1.0 : 0.0});
        return logprob_and_greedy;
      });
  return transformed_indices(std::ssize(requests), [&](int64_t i) {
    const double* of_request = numbers.data() + 2 * i;
    return Score{.logprob = of_request[0], .greedy = of_request[1] != 0};
  });
}

Scorer::Counts TaskModel::counts() const {
  const auto of_all = [&](int64_t own) {
    return static_cast<int64_t>(sum_of(gather(processes_, static_cast<double>(own), "counts of tokens")));
  };
  return {.computed = of_all(scorer_.counts().computed), .asked = of_all(scorer_.counts().asked)};
}

// Divides the ids into windows so that each id is predicted once. Every window except the first begins with
// one id of context before the ids that it predicts. If few ids remain for the last window, it begins with
// more context, so that it has the full length.
void TaskModel::add_windows(const std::vector<int32_t>& ids, std::vector<ScoreRequest>& windows) const {
  const int64_t n = std::ssize(ids), length = model_.n_ctx();
  for (int64_t done = 0; done < n;) {
    const int64_t scored = std::min(length, n - done);
    ScoreRequest window{.ids = {}, .scored = scored};
    const int64_t begin = done + scored - length - 1;
    if (done == 0) window.ids.push_back(required_prefix());
    window.ids.insert(window.ids.end(), ids.begin() + (done == 0 ? 0 : begin), ids.begin() + done + scored);
    windows.push_back(std::move(window));
    done += scored;
  }
}

std::vector<double> TaskModel::rolling(std::span<const std::string> texts, const TaskProgress& progress) {
  std::vector<ScoreRequest> windows;
  std::vector<size_t> ends;
  for (const std::string& text : texts) {
    add_windows(encode(text), windows);
    ends.push_back(windows.size());
  }
  const std::vector<Score> scores = score_ids(windows, progress);
  size_t at = 0;
  return transformed(ends, [&](size_t end) {
    double sum = 0;
    for (; at < end; ++at)
      sum += scores[at].logprob;
    return sum;
  });
}

std::string TaskModel::text_of(std::span<const int32_t> ids) const {
  std::vector<int32_t> kept;
  for (const int32_t id : ids) {
    const bool special = std::find(special_.begin(), special_.end(), id) != special_.end();
    if (!special && id < tokenizer_.vocab_size()) kept.push_back(id);
  }
  return replace_invalid_utf8(tokenizer_.decode(kept));
}

std::vector<std::vector<int32_t>> TaskModel::encode_questions(std::span<const std::string> contexts,
                                                              int64_t room) const {
  return transformed_indices(std::ssize(contexts), [&](int64_t i) {
    std::vector<int32_t> ids = encode_question(contexts[static_cast<size_t>(i)]);
    if (chat_ != nullptr && std::ssize(ids) > room)
      fail("question {}: expected at most {} tokens (context {}, response {}), found {}", i, room,
           model_.n_ctx(), model_.n_ctx() - room, ids.size());
    if (std::ssize(ids) > room) ids.erase(ids.begin(), ids.end() - room);
    if (ids.empty()) ids.push_back(required_prefix());
    return ids;
  });
}

std::vector<std::string> TaskModel::write_answers(std::span<const std::vector<int32_t>> questions,
                                                  int64_t first, const GenerationRule& rule, int64_t repeats,
                                                  uint64_t seed, const TaskProgress& progress) {
  Engine engine(model_, {.step_rows = step_rows_});
  const auto total = std::ssize(questions) * repeats;
  for (int64_t i = 0; i < total; ++i) {
    Request request{
        .prompt = questions[static_cast<size_t>(i / repeats)], .max_tokens = rule.max_tokens, .seed = seed};
    request.sampling.temperature = rule.temperature;
    request.sampling.top_p = rule.top_p;
    request.sampling.top_k = rule.top_k;
    request.number = static_cast<uint64_t>(first * repeats + i);
    request.eos_ids = eos_;
    engine.submit(std::move(request));
  }
  std::vector<std::vector<int32_t>> written(static_cast<size_t>(total));
  std::vector<std::string> texts(written.size());
  int64_t ended = 0;
  while (!engine.idle()) {
    for (const Event& event : engine.step()) {
      if (!event.error.empty()) fail("{}", event.error);
      const auto at = static_cast<size_t>(event.request);
      if (event.id >= 0) written[at].push_back(event.id);
      texts[at] = text_of(written[at]);
      const size_t stop = find_stop(texts[at], rule.until);
      if (stop != std::string::npos) {
        texts[at].resize(stop);
        if (!event.finish) engine.cancel(event.request);
      }
      ended += stop != std::string::npos || event.finish ? 1 : 0;
    }
    if (progress) progress(ended / repeats, std::ssize(questions));
  }
  return texts;
}

std::vector<std::vector<std::string>> TaskModel::generate(std::span<const std::string> contexts,
                                                          const GenerationRule& rule, int64_t repeats,
                                                          uint64_t seed, const TaskProgress& progress) {
  const int64_t room = model_.n_ctx() - rule.max_tokens;
  if (room < 1)
    fail(
        "max_gen_toks: expected less than the model's context of {}, found {}; set a smaller value in "
        "generation_kwargs",
        model_.n_ctx(), rule.max_tokens);
  const std::vector<std::vector<int32_t>> questions = encode_questions(contexts, room);
  if (processes_.size() > 1) require_same_questions(questions);
  const std::vector<std::string> texts =
      shared(std::ssize(questions), progress, [&](int64_t first, int64_t count, const TaskProgress& of_part) {
        const auto part =
            std::span(questions).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
        return write_answers(part, first, rule, repeats, seed, of_part);
      });
  std::vector<std::vector<std::string>> out;
  for (auto at = texts.begin(); at != texts.end(); at += repeats)
    out.emplace_back(at, at + repeats);
  return out;
}

}  // namespace gpt
