#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"
#include "text/split.h"

namespace gpt::detail {

// One way to cut text into pieces, which are cut further by the next one.
struct SplitStep {
  enum class Kind : uint8_t {
    pattern,      // a pattern of split.h
    regex,        // matches of a regular expression, and what is between them
    digits,       // runs of numbers, and what is between them
    punctuation,  // characters of punctuation, and what is between them
  };
  // What becomes of matches. Source: Hugging Face tokenizers, SplitDelimiterBehavior.
  enum class Behavior : uint8_t { isolated, removed, merged_with_previous, merged_with_next, contiguous };

  Kind kind = Kind::pattern;
  SplitPattern pattern = SplitPattern::gpt2;
  std::string regex;     // as its publisher spells it
  bool literal = false;  // the regex is plain text
  Behavior behavior = Behavior::isolated;
  bool invert = false;       // what is between the matches counts as matches
  bool each_digit = false;   // every number is a match of its own
  bool in_alphabet = false;  // what is cut are the characters that stand for bytes: byte_level.h

  bool operator==(const SplitStep&) const = default;
};

// Several steps, one after the other. Immutable: safe to share between threads.
class PreTokenizer {
 public:
  // Throws Error for patterns that are not supported and for more than 16 steps.
  explicit PreTokenizer(std::vector<SplitStep> steps);

  const std::vector<SplitStep>& steps() const { return steps_; }

  // What one thread needs for cutting texts.
  class Run {
   public:
    explicit Run(const PreTokenizer& pre_tokenizer);

    // Calls use(piece) for every piece of a text, in order. Throws Error where a regular expression takes too
    // long.
    template <class Use>
    void split(std::string_view text, Use&& use) {
      split_from(0, text, use);
    }

   private:
    struct Piece {
      size_t begin, end;
      bool match;
    };
    // A piece that is cut by step i, and what is left of it.
    template <class Use>
    void split_from(size_t step, std::string_view text, Use&& use) {
      if (step == steps_.size()) return use(text);
      std::vector<Piece> pieces;
      cut(step, text, pieces);
      for (const Piece& p : pieces)
        split_from(step + 1, text.substr(p.begin, p.end - p.begin), use);
    }
    void cut(size_t step, std::string_view text, std::vector<Piece>& pieces);
    void cut_plain(const SplitStep& step, size_t index, std::string_view text, std::vector<Piece>& pieces);
    static void apply(SplitStep::Behavior behavior, const std::vector<Piece>& found,
                      std::vector<Piece>& pieces);

    const std::vector<SplitStep>& steps_;
    std::vector<std::unique_ptr<Regex::Search>> searches_;  // by step
  };

 private:
  std::vector<SplitStep> steps_;
  std::vector<std::unique_ptr<Regex>> regexes_;  // by step
};

// The steps that stand for a name in GGUF files (tokenizer.ggml.pre), where it is no pattern of split.h;
// empty for unknown ones. Source: llama.cpp.
std::vector<SplitStep> steps_of_gguf_name(std::string_view name);
// The reverse: empty where no name means these steps.
std::string_view gguf_name_of_steps(const std::vector<SplitStep>& steps);

// All names that a GGUF file may have, those of the patterns of split.h included.
std::vector<std::string_view> gguf_split_names();

// The steps of a pre_tokenizer of a byte-level tokenizer.json; `name` stands for the file. Throws Error,
// naming what it is, for anything that would change ids and is not supported.
std::vector<SplitStep> read_split_steps(const nlohmann::json& pre_tokenizer, const std::string& name);

// The reverse.
nlohmann::json split_steps_json(const std::vector<SplitStep>& steps);

}  // namespace gpt::detail
