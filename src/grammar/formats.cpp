#include "grammar/formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace gpt::grammar {
namespace {

using std::string;

string either(const std::vector<string>& options) {
  return fmt::format("({})", fmt::join(options, "|"));
}

// ---- dates and times: RFC 3339 -----------------------------------------------------------------------

string date() {
  return "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
         "02-(0[1-9]|1[0-9]|2[0-8]))|"
         "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)";
}

constexpr const char* kHour = "([01][0-9]|2[0-3])";
constexpr const char* kSecondsFraction = "(\\.[0-9]+)?";

// Matches times with an offset and without a leap second.
string plain_time() {
  return fmt::format("{}:[0-5][0-9]:[0-5][0-9]{}([Zz]|[+-]{}:[0-5][0-9])", kHour, kSecondsFraction, kHour);
}

// A leap second is 23:59:60 in UTC. East of UTC, the local date of the leap second is the next day. West of
// UTC, it is the same day. The pattern accepts offsets in steps of 15 minutes.
constexpr int kDay = 24 * 60, kQuarter = 15;
string leap_second(int offset, char sign) {
  const int clock = (kDay - 1 + (sign == '+' ? offset : -offset)) % kDay;
  return fmt::format("{:02}:{:02}:60{}[{}]{:02}:{:02}", clock / 60, clock % 60, kSecondsFraction,
                     offset == 0 ? "+-" : string(1, sign), offset / 60, offset % 60);
}
string leap_times(bool next_day) {
  std::vector<string> times;
  if (!next_day) times = {fmt::format("23:59:60{}[Zz]", kSecondsFraction), leap_second(0, '+')};
  for (int offset = kQuarter; offset < kDay; offset += kQuarter)
    times.push_back(leap_second(offset, next_day ? '+' : '-'));
  return either(times);
}

// The days that ended with a leap second. Source: IERS Bulletin C. The most recent leap second was in
// December 2016.
constexpr std::array kJune = {1972, 1981, 1982, 1983, 1985, 1992, 1993, 1994, 1997, 2012, 2015};
constexpr std::array kDecember = {1972, 1973, 1974, 1975, 1976, 1977, 1978, 1979,
                                  1987, 1989, 1990, 1995, 1998, 2005, 2008, 2016};
string leap_date_times() {
  std::vector<string> next_year;
  for (const int year : kDecember)
    next_year.push_back(std::to_string(year + 1));
  return fmt::format("(({0})-06-30|({1})-12-31)[Tt]{2}|(({0})-07-01|{3}-01-01)[Tt]{4}", fmt::join(kJune, "|"),
                     fmt::join(kDecember, "|"), leap_times(false), either(next_year), leap_times(true));
}

string time() {
  return fmt::format("{}|{}|{}", plain_time(), leap_times(false), leap_times(true));
}
string date_time() {
  return fmt::format("{}[Tt]{}|{}", date(), plain_time(), leap_date_times());
}

// Source: RFC 3339, appendix A.
string duration() {
  const string clock = "(T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))";
  const string days = "([0-9]+D|[0-9]+M([0-9]+D)?|[0-9]+Y([0-9]+M([0-9]+D)?)?)";
  return fmt::format("P({0}{1}?|{1}|[0-9]+W)", days, clock);
}

// ---- hosts -------------------------------------------------------------------------------------------

string ipv4() {  // RFC 2673: dotted-quad
  return "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(\\.(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3}";
}

// Matches IPv6 addresses (RFC 4291, with the grammar of RFC 3986). "::" replaces at least `elided` groups.
string ipv6(int elided = 1) {
  const string group = "[0-9a-fA-F]{1,4}";
  const string last = fmt::format("({0}:{0}|{1})", group, ipv4());  // matches the last two groups
  std::vector<string> forms = {fmt::format("({}:){{6}}{}", group, last)};
  const int most = 8 - elided;  // maximum number of groups in an address with "::"
  for (int after = most; after >= 0; --after) {
    string before = "", rest = "";
    if (most > after) before = fmt::format("({0}(:{0}){{0,{1}}})?", group, most - after - 1);
    if (after >= 2) {
      rest = fmt::format("({}:){{{}}}{}", group, after - 2, last);
    } else if (after == 1) {
      rest = group;
    }
    forms.push_back(before + "::" + rest);
  }
  return either(forms);
}

constexpr const char* kLabel = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
constexpr int64_t kLongestHost = 253;
string hostname() {  // RFC 1123, section 2.1, with the lengths of RFC 1035
  return fmt::format("{0}(\\.{0})*", kLabel);
}

// Maximum lengths in an email address (Mailbox in RFC 5321, section 4.5.3.1). The RFC limits a path,
// including two angle brackets, to 256 characters.
constexpr int64_t kLongestLocal = 64, kLongestMail = 254;
string local_part() {
  const string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  return fmt::format(R"({0}(\.{0})*|"([ !#-\[\]-~]|\\[ -~])*")", atom);
}
string mail_domain() {
  const string number = "(25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})";
  return fmt::format(R"(@({0}|\[({1}(\.{1}){{3}}|[Ii][Pp][Vv]6:{2})\]))", hostname(), number, ipv6(2));
}

Format email() {
  return {.kind = Format::Kind::pattern,
          .parts = {{local_part(), kLongestLocal}, {mail_domain()}},
          .max_length = kLongestMail};
}

// ---- URIs: RFC 3986, and RFC 3987 with its further characters ------------------------------------------

constexpr int64_t kLongestAddress = 47;  // 45 characters for an IPv6 address and 2 for the brackets
constexpr const char* kUnreserved = "A-Za-z0-9._~";
constexpr const char* kDelimiters = "!$&'()*+,;=";
constexpr const char* kPercent = "%[0-9A-Fa-f]{2}";
constexpr const char* kUcs =
    "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{2FFFD}\\u{30000}-\\u{"
    "3FFFD}"
    "\\u{40000}-\\u{4FFFD}\\u{50000}-\\u{5FFFD}\\u{60000}-\\u{6FFFD}\\u{70000}-\\u{7FFFD}\\u{80000}-\\u{"
    "8FFFD}"
    "\\u{90000}-\\u{9FFFD}\\u{A0000}-\\u{AFFFD}\\u{B0000}-\\u{BFFFD}\\u{C0000}-\\u{CFFFD}\\u{D0000}-\\u{"
    "DFFFD}"
    "\\u{E1000}-\\u{EFFFD}";
constexpr const char* kPrivate = "\\uE000-\\uF8FF\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}";

class Uri {
 public:
  explicit Uri(bool international)
      : more_(international ? kUcs : ""), query_(international ? kPrivate : "") {}

  Format absolute() const {
    return format(kScheme, fmt::format("{}({}|{}{})?", kScheme, rooted(), some(":@"), segments()));
  }
  Format reference() const {
    const string relative = fmt::format("({}|{}{})?", rooted(), some("@"), segments());
    const string absolute = fmt::format("{}({}|{}{})?", kScheme, rooted(), some(":@"), segments());
    return format(fmt::format("({})?", kScheme), relative + "|" + absolute);
  }

 private:
  static constexpr const char* kScheme = "[A-Za-z][A-Za-z0-9+.-]*:";

  // Matches URIs with a host and URIs without a host. `start` is the regular expression before the "//" of a
  // URI with a host. `without_host` is the regular expression of a URI without a host, up to the query.
  Format format(const string& start, const string& without_host) const {
    const string future = fmt::format("[vV][0-9A-Fa-f]+\\.[{}{}:-]+", kUnreserved, kDelimiters);
    const string before = fmt::format("{}//({}@)?", start, any(":"));
    const string address = fmt::format("\\[{}\\]", ipv6());
    const string after = fmt::format("(:[0-9]*)?{}{}", segments(), ending());
    const string names = fmt::format("({}|{}{}(:[0-9]*)?{}){}", without_host, before,
                                     fmt::format("({}|\\[{}\\])", any(""), future), segments(), ending());
    return {.kind = Format::Kind::pattern,
            .parts = {{fmt::format("{}|{}{}{}", names, before, address, after)}},
            .hosts = Format::Hosts{names, before, address, after, kLongestAddress}};
  }

  // one() matches one character, any() matches zero or more characters, and some() matches one or more
  // characters. `also` lists additional characters.
  string one(const string& also) const {
    return fmt::format("([{}{}{}{}-]|{})", kUnreserved, kDelimiters, more_, also, kPercent);
  }
  string any(const string& also) const { return one(also) + "*"; }
  string some(const string& also) const { return one(also) + "+"; }

  string segments() const { return "(/" + any(":@") + ")*"; }
  string rooted() const { return fmt::format("/({}{})?", some(":@"), segments()); }
  string ending() const { return fmt::format("(\\?{})?(#{})?", any(":@/?" + query_), any(":@/?")); }

  string more_, query_;
};

string uri_template() {  // RFC 6570
  const string name = "([A-Za-z0-9_]|%[0-9A-Fa-f]{2})(\\.?([A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*";
  const string variable = name + "(:[1-9][0-9]{0,3}|\\*)?";
  return fmt::format("([!#$&(-;=?-\\[\\]_a-z~{}{}]|{}|\\{{[+#./;?&]?{}(,{})*\\}})*", kUcs, kPrivate, kPercent,
                     variable, variable);
}

// ---- others --------------------------------------------------------------------------------------------

string uuid(char version) {  // RFC 4122; fixes the variant too if a version is given
  const string hex = "[0-9a-fA-F]";
  if (version == 0) return fmt::format("{0}{{8}}(-{0}{{4}}){{3}}-{0}{{12}}", hex);
  return fmt::format("{0}{{8}}-{0}{{4}}-{1}{0}{{3}}-[89abAB]{0}{{3}}-{0}{{12}}", hex, version);
}

string json_pointer() {  // RFC 6901
  return "(/([^/~]|~[01])*)*";
}

Format of(string pattern) {
  return {.kind = Format::Kind::pattern, .parts = {{std::move(pattern)}}};
}

struct Known {
  const char* name;
  Format (*format)();
};
constexpr Known kKnown[] = {
    {"date-time", [] { return of(date_time()); }},
    {"date", [] { return of(date()); }},
    {"time", [] { return of(time()); }},
    {"duration", [] { return of(duration()); }},
    {"email", email},
    {"hostname",
     [] {
       Format format = of(hostname());
       format.max_length = kLongestHost;
       return format;
     }},
    {"ipv4", [] { return of(ipv4()); }},
    {"ipv6", [] { return of(ipv6()); }},
    {"uri", [] { return Uri(false).absolute(); }},
    {"uri-reference", [] { return Uri(false).reference(); }},
    {"iri", [] { return Uri(true).absolute(); }},
    {"iri-reference", [] { return Uri(true).reference(); }},
    {"uri-template", [] { return of(uri_template()); }},
    {"uuid", [] { return of(uuid(0)); }},
    {"uuid1", [] { return of(uuid('1')); }},
    {"uuid3", [] { return of(uuid('3')); }},
    {"uuid4", [] { return of(uuid('4')); }},
    {"uuid5", [] { return of(uuid('5')); }},
    {"json-pointer", [] { return of(json_pointer()); }},
};
constexpr std::array<std::string_view, 5> kNotes = {"password", "binary", "path", "file-path",
                                                    "directory-path"};

}  // namespace

Format find_format(std::string_view name) {
  const auto known = std::ranges::find(kKnown, name, &Known::name);
  if (known != std::end(kKnown)) return known->format();
  if (std::ranges::find(kNotes, name) != kNotes.end()) return {Format::Kind::any_text};
  return {};
}

std::string format_names() {
  std::vector<string> names;
  for (const Known& known : kKnown)
    names.emplace_back(known.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const IntegerFormat* find_integer_format(std::string_view name) {
  static constexpr IntegerFormat kFormats[] = {
      {"int8", "-128", "127"},
      {"int16", "-32768", "32767"},
      {"int32", "-2147483648", "2147483647"},
      {"int64", "-9223372036854775808", "9223372036854775807"},
      {"uint8", "0", "255"},
      {"uint16", "0", "65535"},
      {"uint32", "0", "4294967295"},
      {"uint64", "0", "18446744073709551615"},
  };
  const auto found = std::ranges::find(kFormats, name, &IntegerFormat::name);
  return found == std::end(kFormats) ? nullptr : found;
}

}  // namespace gpt::grammar
