#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"
#include "text/split.h"

namespace gpt::detail {

// A step that splits text into pieces. The next step splits each of these pieces.
struct SplitStep {
  enum class Kind : uint8_t {
    pattern,      // a pattern of split.h
    regex,        // matches of a regular expression, and the text between them
    digits,       // runs of digits, and the text between them
    punctuation,  // punctuation characters, and the text between them
  };
  // The treatment of matches in a text. Source: Hugging Face tokenizers, SplitDelimiterBehavior.
  enum class Behavior : uint8_t { isolated, removed, merged_with_previous, merged_with_next, contiguous };

  Kind kind = Kind::pattern;
  SplitPattern pattern = SplitPattern::gpt2;
  std::string regex;     // the regular expression in the spelling of its publisher
  bool literal = false;  // true if `regex` is a plain string
  Behavior behavior = Behavior::isolated;
  bool invert = false;       // true if the matches and the text between them are swapped
  bool each_digit = false;   // true if each digit is a separate match
  bool in_alphabet = false;  // true if the step splits the byte-level spelling of the text, see byte_level.h

  bool operator==(const SplitStep&) const = default;
};

// Splits text in several steps. Immutable and safe to share between threads.
class PreTokenizer {
 public:
  // Throws Error for unsupported patterns and for more than 16 steps.
  explicit PreTokenizer(std::vector<SplitStep> steps);

  const std::vector<SplitStep>& steps() const { return steps_; }

  // The state that one thread needs to split texts.
  class Run {
   public:
    explicit Run(const PreTokenizer& pre_tokenizer);

    // Calls use(piece) for every piece of a text, in order. Throws Error if a regular expression takes too
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
    // Splits a piece with step number `step` and all following steps.
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

// Returns the split steps for a name in GGUF files (tokenizer.ggml.pre) that does not belong to a pattern of
// split.h. Returns an empty list for unknown names. Source: llama.cpp.
std::vector<SplitStep> steps_of_gguf_name(std::string_view name);
// Returns the name for these split steps in GGUF files, or "" if there is no such name.
std::string_view gguf_name_of_steps(const std::vector<SplitStep>& steps);

// Returns all names of split patterns in GGUF files, including the names of the patterns of split.h.
std::vector<std::string_view> gguf_split_names();

// Reads the pre_tokenizer of a byte-level tokenizer.json. `name` is the file name for messages. Throws Error
// with the name of the setting for unsupported settings that would change ids.
std::vector<SplitStep> read_split_steps(const nlohmann::json& pre_tokenizer, const std::string& name);

// Returns the steps as the pre_tokenizer of a tokenizer.json.
nlohmann::json split_steps_json(const std::vector<SplitStep>& steps);

}  // namespace gpt::detail
