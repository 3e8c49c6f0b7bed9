#include "tokenizer_show.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "output.h"
#include "report/progress.h"
#include "report/table.h"
#include "text/tokenizer_facts.h"

namespace gpt {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TokenizerFacts::Added, id, text, special)

namespace {

using nlohmann::json;

constexpr const char* kSample = "Every effort moves you. It's 2026, naïve café!";
constexpr size_t kMaxExplained = 4096;  // bytes; longer explanations would be unreadable
constexpr int64_t kMaxShown = 60;       // characters shown per token

std::string shown(std::string_view bytes) {
  return printable_text(bytes, kMaxShown);
}

// Colors a row of symbols with alternating colors, and highlights the symbol that the current merge created.
class Painter {
 public:
  explicit Painter(const TerminalStyle& style) : colour_(style.colour), blank_(style.unicode ? "␣" : "_") {}

  std::string symbols(const std::vector<std::string>& symbols, size_t merged) const {
    std::string out;
    for (size_t i = 0; i < symbols.size(); ++i) {
      if (i > 0) out += ' ';
      out += paint(visible(symbols[i]), i == merged ? kNew : i % 2 == 0 ? kEven : kOdd);
    }
    return out;
  }
  std::string paint(const std::string& text, const char* colour) const {
    return colour_ ? colour + text + "\x1b[0m" : text;
  }

  static constexpr const char* kNew = "\x1b[1;32m";
  static constexpr const char* kEven = "\x1b[36m";
  static constexpr const char* kOdd = "\x1b[33m";
  static constexpr const char* kBold = "\x1b[1m";

 private:
  // Makes spaces visible, because they look like the spaces between symbols.
  std::string visible(const std::string& symbol) const {
    std::string out;
    for (const char c : shown(symbol))
      c == ' ' ? out += blank_ : out += c;
    return out;
  }

  bool colour_;
  std::string blank_;
};

std::string sample_text(const Tokenizer& tokenizer) {
  try {
    std::string out;
    for (const int32_t id : tokenizer.encode(kSample))
      out += (out.empty() ? "" : "|") + shown(tokenizer.token_bytes(id));
    return out;
  } catch (const Error&) {
    return "";  // a character vocabulary may lack some of the characters
  }
}

json facts_json(const Tokenizer& tokenizer, const TokenizerFacts& facts) {
  json out = {{"kind", facts.kind},
              {"vocab_size", facts.vocab_size},
              {"merges", facts.merges},
              {"pattern", facts.pattern},
              {"special_tokens", facts.added},
              {"mean_token_bytes", facts.mean_token_bytes}};
  out["longest_tokens"] = transformed(facts.longest, [&](int32_t id) {
    const std::string bytes = tokenizer.token_bytes(id);
    return json{{"id", id}, {"text", replace_invalid_utf8(bytes)}, {"bytes", bytes.size()}};
  });
  return out;
}

json piece_json(const Explainer::Piece& piece) {
  const auto steps = transformed(piece.steps, [](const auto& step) {
    return json{
        {"rank", step.rank}, {"at", step.at}, {"symbols", transformed(step.symbols, replace_invalid_utf8)}};
  });
  return {{"text", replace_invalid_utf8(piece.text)}, {"ids", piece.ids}, {"steps", steps}};
}

std::string piece_text(const Explainer::Piece& piece, const Tokenizer& tokenizer, const Painter& painter) {
  std::string out = "\n" + painter.paint("\"" + shown(piece.text) + "\"", Painter::kBold) + "\n";
  constexpr size_t kNone = ~size_t{0};
  const auto line = [&](const std::string& label, const std::string& text) {
    out += fmt::format("  {:<14}{}\n", label, text);
  };
  if (!piece.symbols.empty()) line("bytes", painter.symbols(piece.symbols, kNone));
  for (const auto& step : piece.steps)
    line(fmt::format("merge {}", step.rank), painter.symbols(step.symbols, step.at));
  std::string ids;
  for (const int32_t id : piece.ids)
    ids += fmt::format("{}{} \"{}\"", ids.empty() ? "" : ", ", id, shown(tokenizer.token_bytes(id)));
  line("ids", ids);
  return out;
}

// Returns the pattern in printable form. Its backslashes are kept, not escaped.
std::string pattern_text(std::string_view pattern) {
  std::string out;
  while (!pattern.empty()) {
    const size_t end = std::min(pattern.find('\\'), pattern.size());
    out += printable_text(pattern.substr(0, end), 1000);
    if (end < pattern.size()) out += '\\';
    pattern.remove_prefix(std::min(end + 1, pattern.size()));
  }
  return out;
}

}  // namespace

std::string describe_tokenizer(const Tokenizer& tokenizer, bool as_json) {
  const TokenizerFacts facts = tokenizer_facts(tokenizer);
  if (as_json) return facts_json(tokenizer, facts).dump(2) + "\n";
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<16}{}\n", name, value);
  };
  line("kind", facts.kind);
  line("vocabulary", format_thousands(facts.vocab_size));
  if (facts.merges > 0) line("merges", format_thousands(facts.merges));
  line("pattern", pattern_text(facts.pattern));
  for (const auto& token : facts.added)
    line(token.special ? "special" : "added", fmt::format("{} {}", token.id, shown(token.text)));
  line("bytes per token", format_ratio(facts.mean_token_bytes) + " in the vocabulary");
  for (const int32_t id : facts.longest) {
    const std::string bytes = tokenizer.token_bytes(id);
    line("longest",
         fmt::format("{} \"{}\" ({})", id, shown(bytes), format_amount(std::ssize(bytes), "byte")));
  }
  line("sample", sample_text(tokenizer));
  return text;
}

std::string explanation(const Tokenizer& tokenizer, std::string_view text, bool as_json) {
  if (text.size() > kMaxExplained)
    fail("--explain: expected a text of at most {} bytes, found {}", kMaxExplained, text.size());
  const std::vector<Explainer::Piece> pieces = Explainer(tokenizer).explain(text);
  if (as_json) return json{{"pieces", transformed(pieces, piece_json)}}.dump(2) + "\n";
  const auto variable = [](const char* name) { return std::getenv(name); };
  const Painter painter(terminal_style(output_is_terminal(), variable));
  std::string out = fmt::format("{}, {}:", format_amount(std::ssize(text), "byte"),
                                format_amount(std::ssize(pieces), "piece"));
  std::vector<int32_t> ids;
  for (size_t i = 0; i < pieces.size(); ++i)
    out +=
        " " + painter.paint("\"" + shown(pieces[i].text) + "\"", i % 2 == 0 ? Painter::kEven : Painter::kOdd);
  out += "\n";
  for (const auto& piece : pieces) {
    out += piece_text(piece, tokenizer, painter);
    ids.insert(ids.end(), piece.ids.begin(), piece.ids.end());
  }
  return out + fmt::format("\n{}: {}\n", format_amount(std::ssize(ids), "token"), fmt::join(ids, " "));
}

}  // namespace gpt
