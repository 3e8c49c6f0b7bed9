#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace gpt::detail {
namespace {

// For one match: far more than any of a sensible pattern takes, and a second or so.
constexpr uint32_t kMatchLimit = 20'000'000, kDepthLimit = 1'000'000, kHeapLimit = 65536;  // the last in KiB
constexpr size_t kJitStack = size_t{1} << 20;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
using CodePtr = std::unique_ptr<pcre2_code, FreeCode>;

CodePtr compile(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  // Oniguruma's $ and ^ stand at the ends of lines.
  const uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C;
  CodePtr code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error,
                             &offset, context.get()));
  if (code == nullptr) {
    PCRE2_UCHAR message[200];
    pcre2_get_error_message(error, message, sizeof message);
    fail("the split pattern is not valid: {}", reinterpret_cast<const char*>(message));
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without it matching works, slower
  return code;
}

// Characters that PCRE2 would take for something else than unicode.h says, for its version of Unicode is
// another: each has a stand-in near to it of the same category and length. One byte of the text is one byte
// of what is searched.
class StandIns {
 public:
  StandIns() {
    std::array<std::vector<char32_t>, 30> by_category;
    for (char32_t code = 0x80; code < 0x110000; ++code) {
      const Category c = category(code);
      if (c != Category::Cs) by_category[static_cast<size_t>(c)].push_back(code);
    }
    std::vector<bool> wrong(0x110000, false);
    for (size_t c = 0; c < by_category.size(); ++c)
      find_wrong(kNames[c], by_category[c], wrong);
    wrong[0x180E] = true;  // which counts as white space in PCRE2, and did in old versions of Unicode
    for (char32_t code = 0x80; code < 0x110000; ++code) {
      if (wrong[code]) codes_.push_back({code, nearest(code, wrong)});
    }
  }

  // What is searched instead of the text; the text itself where it is the same.
  std::string_view searched(std::string_view text, std::string& copy) const {
    bool same = true;
    for (size_t at = 0; at < text.size();) {
      if (static_cast<unsigned char>(text[at]) < 0x80) {
        ++at;
        continue;
      }
      const Utf8Char c = decode_utf8(text, at);
      const bool valid = c.status == Utf8Status::valid;
      const char32_t stand_in = valid ? of(c.code) : 1;
      if (same && (!valid || stand_in != c.code)) copy = text, same = false;
      if (!valid) copy.replace(at, 1, 1, '\x01');
      if (valid && stand_in != c.code) {
        std::string bytes;
        append_utf8(bytes, stand_in);
        copy.replace(at, bytes.size(), bytes);
      }
      at += static_cast<size_t>(valid ? c.length : 1);
    }
    return same ? text : std::string_view(copy);
  }

 private:
  static constexpr const char* kNames[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                           "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                           "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
  struct StandIn {
    char32_t code, instead;
  };

  static void find_wrong(const std::string& name, const std::vector<char32_t>& codes,
                         std::vector<bool>& wrong) {
    if (codes.empty()) return;
    std::string all;
    for (const char32_t code : codes)
      append_utf8(all, code);
    const CodePtr code = compile("\\P{" + name + "}");
    const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
        pcre2_match_data_create_from_pattern(code.get(), nullptr), pcre2_match_data_free);
    if (match == nullptr) throw std::bad_alloc();
    for (size_t at = 0; pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(all.data()), all.size(), at,
                                    PCRE2_NO_UTF_CHECK, match.get(), nullptr) > 0;
         at = pcre2_get_ovector_pointer(match.get())[1]) {
      wrong[decode_utf8(all, pcre2_get_ovector_pointer(match.get())[0]).code] = true;
    }
  }

  static size_t length_of(char32_t code) { return code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

  static char32_t nearest(char32_t code, const std::vector<bool>& wrong) {
    const auto fits = [&](int64_t other) {
      if (other < 0x80 || other >= 0x110000) return false;
      const auto c = static_cast<char32_t>(other);
      return !wrong[c] && length_of(c) == length_of(code) && category(c) == category(code);
    };
    for (int64_t distance = 1; distance < 0x20000; ++distance) {
      if (fits(int64_t{code} - distance)) return static_cast<char32_t>(code - distance);
      if (fits(int64_t{code} + distance)) return static_cast<char32_t>(code + distance);
    }
    return code;
  }

  char32_t of(char32_t code) const {
    const auto found = std::ranges::lower_bound(codes_, code, {}, &StandIn::code);
    return found != codes_.end() && found->code == code ? found->instead : code;
  }

  std::vector<StandIn> codes_;  // in order
};

const StandIns& stand_ins() {
  static const StandIns all;
  return all;
}

}  // namespace

struct Regex::Code {
  CodePtr code;
};

Regex::Regex(const std::string& pattern)
    : pattern_(pattern), code_(std::make_unique<Code>(Code{compile(pcre2_pattern(pattern))})) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

struct Regex::Search::State {
  explicit State(const pcre2_code* c)
      : code(c),
        match(pcre2_match_data_create_from_pattern(c, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(32768, kJitStack, nullptr)) {
    if (match == nullptr || context == nullptr) {
      release();
      throw std::bad_alloc();
    }
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_depth_limit(context, kDepthLimit);
    pcre2_set_heap_limit(context, kHeapLimit);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~State() { release(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  void release() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    if (stack != nullptr) pcre2_jit_stack_free(stack);
  }

  const pcre2_code* code;
  pcre2_match_data* match;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
  std::string copy;
  std::string_view text;
  size_t at = 0;
};

Regex::Search::Search(const Regex& regex) : state_(std::make_unique<State>(regex.code_->code.get())) {}
Regex::Search::~Search() = default;
Regex::Search::Search(Search&&) noexcept = default;

void Regex::Search::begin(std::string_view text) {
  state_->text = stand_ins().searched(text, state_->copy);
  state_->at = 0;
}

std::optional<std::pair<size_t, size_t>> Regex::Search::next() {
  State& s = *state_;
  while (s.at < s.text.size()) {
    const int found = pcre2_match(s.code, reinterpret_cast<PCRE2_SPTR>(s.text.data()), s.text.size(), s.at,
                                  PCRE2_NO_UTF_CHECK, s.match, s.context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      PCRE2_UCHAR message[200];
      pcre2_get_error_message(found, message, sizeof message);
      fail("the split pattern takes too long from byte {} on: {}", s.at,
           reinterpret_cast<const char*>(message));
    }
    const size_t begin = pcre2_get_ovector_pointer(s.match)[0], end = pcre2_get_ovector_pointer(s.match)[1];
    if (end > begin) {
      s.at = end;
      return std::pair(begin, end);
    }
    s.at = begin < s.text.size() ? begin + static_cast<size_t>(decode_utf8(s.text, begin).length)
                                 : s.text.size();
  }
  s.at = s.text.size();
  return std::nullopt;
}

}  // namespace gpt::detail
