#include "text/pre_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/gpt1_tokenizer.h"
#include "text/split_scan.h"
#include "text/unicode.h"

namespace gpt::detail {
namespace {

using Kind = SplitStep::Kind;
using Behavior = SplitStep::Behavior;

std::string escaped(std::string_view literal) {
  std::string out;
  for (const char c : literal) {
    const bool plain = static_cast<unsigned char>(c) >= 0x80 || (c >= '0' && c <= '9') ||
                       (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ' ' || c == '\n' ||
                       c == '\t' || c == '\r';
    if (!plain) out += '\\';
    out += c;
  }
  return out;
}

// Calls add(begin, end) for each character that the step is about.
template <class Add>
void find_characters(const SplitStep& step, std::string_view text, Add&& add) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    const bool valid = c.status == Utf8Status::valid;
    const size_t end = at + static_cast<size_t>(valid ? c.length : 1);
    const bool match = step.kind == Kind::digits ? is_number(category(c.code)) : is_gpt1_punctuation(c.code);
    if (valid && match) add(at, end);
    at = end;
  }
}

// Where the characters of the alphabet begin that stand for bytes, as numbers of bytes.
class AlphabetPlaces {
 public:
  explicit AlphabetPlaces(std::string_view bytes) : characters_(in_alphabet(bytes)) {}
  std::string_view characters() const { return characters_; }
  // The number of characters before a place; places must not go down.
  size_t byte_at(size_t place) {
    for (; at_ < place; ++count_)
      at_ += static_cast<unsigned char>(characters_[at_]) < 0x80 ? 1 : 2;
    return count_;
  }

 private:
  std::string characters_;
  size_t at_ = 0, count_ = 0;
};

}  // namespace

PreTokenizer::PreTokenizer(std::vector<SplitStep> steps) : steps_(std::move(steps)) {
  if (steps_.size() > 16) fail("text is split in {} steps; expected at most 16", steps_.size());
  for (const SplitStep& step : steps_) {
    const bool regex = step.kind == Kind::regex;
    regexes_.push_back(regex ? std::make_unique<Regex>(step.literal ? escaped(step.regex) : step.regex)
                             : nullptr);
  }
}

PreTokenizer::Run::Run(const PreTokenizer& pre_tokenizer) : steps_(pre_tokenizer.steps_) {
  for (const auto& regex : pre_tokenizer.regexes_)
    searches_.push_back(regex == nullptr ? nullptr : std::make_unique<Regex::Search>(*regex));
}

void PreTokenizer::Run::cut(size_t index, std::string_view text, std::vector<Piece>& pieces) {
  const SplitStep& step = steps_[index];
  if (step.kind == Kind::pattern) {  // which covers the text
    return with_split(step.pattern, [&](auto split) {
      for (size_t at = 0; at < text.size();) {
        const size_t end = split(SplitText(text), at);
        pieces.push_back({at, end, true});
        at = end;
      }
    });
  }
  if (step.in_alphabet) {
    AlphabetPlaces places(text);
    std::vector<Piece> characters;
    cut_plain(step, index, places.characters(), characters);
    for (const Piece& p : characters) {
      const size_t begin = places.byte_at(p.begin);
      pieces.push_back({begin, places.byte_at(p.end), p.match});
    }
    return;
  }
  cut_plain(step, index, text, pieces);
}

void PreTokenizer::Run::cut_plain(const SplitStep& step, size_t index, std::string_view text,
                                  std::vector<Piece>& pieces) {
  std::vector<Piece> found;
  size_t last = 0;
  const auto add = [&](size_t begin, size_t end) {
    if (begin > last) found.push_back({last, begin, step.invert});
    found.push_back({begin, end, !step.invert});
    last = end;
  };
  if (step.kind == Kind::regex) {
    Regex::Search& search = *searches_[index];
    search.begin(text);
    while (const auto match = search.next())
      add(match->first, match->second);
  } else {
    find_characters(step, text, add);
  }
  if (last < text.size()) found.push_back({last, text.size(), step.invert});
  const bool runs = step.kind == Kind::digits && !step.each_digit;
  apply(runs ? Behavior::contiguous : step.behavior, found, pieces);
}

void PreTokenizer::Run::apply(Behavior behavior, const std::vector<Piece>& found,
                              std::vector<Piece>& pieces) {
  for (size_t i = 0; i < found.size(); ++i) {
    const Piece& p = found[i];
    Piece* last = pieces.empty() ? nullptr : &pieces.back();
    const bool previous_match = i > 0 && found[i - 1].match;
    bool joins = false;
    if (behavior == Behavior::removed && p.match) continue;
    if (behavior == Behavior::merged_with_previous) joins = last != nullptr && p.match && !previous_match;
    if (behavior == Behavior::contiguous) joins = last != nullptr && p.match == previous_match;
    // A match goes to what follows it, unless that is a match too.
    if (behavior == Behavior::merged_with_next) joins = last != nullptr && !p.match && previous_match;
    if (joins) {
      last->end = p.end;
    } else {
      pieces.push_back(p);
    }
  }
}

}  // namespace gpt::detail
