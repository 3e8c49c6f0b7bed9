#include "finetune/transforms.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/ranges.h"
#include "finetune/extra_tokens.h"
#include "text/tokenizer_facts.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;

// Removes ids from the end of the longest part until all parts together fit.
bool cut_to_fit(std::vector<Ids>& parts, int64_t most) {
  const auto length = [](const Ids& part) { return std::ssize(part); };
  const int64_t before = sum_of(parts, length);
  for (int64_t over = before - most; over > 0; --over)
    std::ranges::max_element(parts, {}, length)->pop_back();
  return before > most;
}

Ids joined(const std::vector<Ids>& parts, const TaskTokens& tokens) {
  Ids row;
  for (const Ids& part : parts) {
    row.push_back(row.empty() ? tokens.start : tokens.delimiter);
    row.insert(row.end(), part.begin(), part.end());
  }
  row.push_back(tokens.extract);
  return row;
}

}  // namespace

TaskTokens task_tokens(const Tokenizer& tokenizer) {
  const std::vector<TokenizerFacts::Added> added = tokenizer_facts(tokenizer, 0).added;
  const auto next = static_cast<int32_t>(tokenizer.vocab_size());
  int32_t ids[3];
  for (int i = 0; i < 3; ++i) {
    const auto* known = find_by(added, &TokenizerFacts::Added::text, std::string(kTaskTokenNames[i]));
    if (known == nullptr) return {next, next + 1, next + 2};
    ids[i] = known->id;
  }
  return {ids[0], ids[1], ids[2]};
}

std::shared_ptr<const Tokenizer> tokenizer_with_tokens(std::shared_ptr<const Tokenizer> tokenizer,
                                                       const TaskTokens& tokens) {
  if (tokens.start < tokenizer->vocab_size()) return tokenizer;
  return with_special_tokens(std::move(tokenizer), {std::begin(kTaskTokenNames), std::end(kTaskTokenNames)});
}

const char* cut_part(TaskKind kind) {
  return kind == TaskKind::classify ? "the end" : "the end of the longer text";
}

EncodedExample encode_example(const Example& example, TaskKind kind, const Tokenizer& tokenizer,
                              const TaskTokens& tokens, int64_t max_length) {
  std::vector<Ids> texts;
  try {
    texts = transformed(example.texts, [&](const std::string& text) { return tokenizer.encode(text); });
  } catch (const Error& error) {
    fail_record("{}: {}", example.place, error.what());
  }
  EncodedExample encoded;
  const auto add_row = [&](std::vector<Ids> parts) {
    const int64_t around = 1 + std::ssize(parts);
    encoded.cut |= cut_to_fit(parts, max_length - around);
    encoded.rows.push_back(joined(parts, tokens));
  };
  if (kind == TaskKind::choose) {
    for (size_t choice = 1; choice < texts.size(); ++choice)
      add_row({texts[0], texts[choice]});
  } else {
    add_row(texts);
    if (kind == TaskKind::similar) add_row({texts[1], texts[0]});
  }
  return encoded;
}

}  // namespace gpt
