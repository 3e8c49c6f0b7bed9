#include "text/split.h"

#include "base/ranges.h"
#include "text/split_scan.h"

namespace gpt {
namespace {

struct GgufName {
  SplitPattern pattern;
  std::string_view name;
};

// Files are written with the first name of each pattern.
constexpr GgufName kGgufNames[] = {
    {SplitPattern::gpt2, "gpt-2"},        {SplitPattern::gpt2, ""},
    {SplitPattern::gpt2, "phi-2"},        {SplitPattern::gpt2, "mpt"},
    {SplitPattern::gpt2, "olmo"},         {SplitPattern::llama3, "llama-bpe"},
    {SplitPattern::llama3, "llama3"},     {SplitPattern::llama3, "llama-v3"},
    {SplitPattern::llama3, "dbrx"},       {SplitPattern::llama3, "smaug-bpe"},
    {SplitPattern::o200k, "gpt-4o"},      {SplitPattern::cl100k, "cl100k"},
    {SplitPattern::nanochat, "nanochat"}, {SplitPattern::qwen2, "qwen2"},
    {SplitPattern::qwen2, "stablelm2"},
};

struct Spelling {
  SplitPattern pattern;
  std::string_view regex;
};

// Files are written with the first spelling of each pattern, which is the publisher's spelling with one
// exception: the + after {1,3} in cl100k is omitted. tiktoken reads {1,3}+ as a possessive quantifier. The
// regular expressions of a tokenizer.json have Oniguruma's syntax, in which this + is a repetition.
constexpr Spelling kSpellings[] = {
    {SplitPattern::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::gpt2, R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::gpt2,
     R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)"},
    {SplitPattern::cl100k,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)"},
    {SplitPattern::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::llama3,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {SplitPattern::nanochat,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {SplitPattern::qwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::o200k,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

}  // namespace

std::string_view split_regex(SplitPattern pattern) {
  return find_by(kSpellings, &Spelling::pattern, pattern)->regex;
}

std::optional<SplitPattern> find_split_pattern(std::string_view regex) {
  const Spelling* const s = find_by(kSpellings, &Spelling::regex, regex);
  return s == nullptr ? std::nullopt : std::optional(s->pattern);
}

std::string_view gguf_name(SplitPattern pattern) {
  return find_by(kGgufNames, &GgufName::pattern, pattern)->name;
}

std::optional<SplitPattern> pattern_of_gguf_name(std::string_view name) {
  const GgufName* const n = find_by(kGgufNames, &GgufName::name, name);
  return n == nullptr ? std::nullopt : std::optional(n->pattern);
}

std::vector<std::string_view> gguf_names() {
  std::vector<std::string_view> names;
  for (const GgufName& n : kGgufNames)
    if (!n.name.empty()) names.push_back(n.name);
  return names;
}

size_t split_end(SplitPattern pattern, std::string_view text, size_t at) {
  const detail::SplitText t(text);
  return detail::with_split(pattern, t, [&](auto, auto end, bool) { return end(at); });
}

}  // namespace gpt
