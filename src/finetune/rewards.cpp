#include "finetune/rewards.h"

#include <cctype>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/ascii.h"
#include "base/error.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "finetune/child_process.h"
#include "text/regex.h"

namespace gpt {
namespace {

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

class ExactReward : public Reward {
 public:
  std::vector<double> rewards(std::span<const Judged> answers) const override {
    return transformed(
        answers, [](const Judged& j) { return trimmed(j.completion) == trimmed(j.answer) ? 1.0 : 0.0; });
  }
};

class NumberReward : public Reward {
 public:
  std::vector<double> rewards(std::span<const Judged> answers) const override {
    return transformed(answers, [](const Judged& j) {
      const std::string found = last_number(j.completion);
      return !found.empty() && found == last_number(j.answer) ? 1.0 : 0.0;
    });
  }
  void check(const std::string& answer, const std::string& place) const override {
    if (last_number(answer).empty())
      fail("{}: \"answer\": expected a text that contains a number for `reward` number, found {}", place,
           printable(answer));
  }
};

class RegexReward : public Reward {
 public:
  std::vector<double> rewards(std::span<const Judged> answers) const override {
    return transformed(answers, [](const Judged& j) { return matches(j) ? 1.0 : 0.0; });
  }
  void check(const std::string& answer, const std::string& place) const override {
    try {
      const detail::Regex regex(answer);
    } catch (const Error& error) {
      fail_because(error, "{}: \"answer\": expected a regular expression for `reward` regex, found {}: {}",
                   place, printable(answer), error.what());
    }
  }

 private:
  static bool matches(const Judged& j) {
    try {
      const detail::Regex regex(j.answer);
      detail::Regex::Search search(regex);
      search.begin(j.completion);
      return search.next().has_value();
    } catch (const Error& error) {
      fail_because(error, "`reward` regex: the \"answer\" {}: {}", printable(j.answer), error.what());
    }
  }
};

// Computes rewards with an external program. The program reads one JSON line per response, {"prompt",
// "answer", "completion"}, and writes one number per line.
class CommandReward : public Reward {
 public:
  CommandReward(std::string command, double seconds) : command_(std::move(command)), seconds_(seconds) {}

  std::vector<double> rewards(std::span<const Judged> answers) const override {
    std::string input;
    for (const Judged& j : answers) {
      const nlohmann::json line = {{"prompt", j.prompt}, {"answer", j.answer}, {"completion", j.completion}};
      input += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    }
    const std::string output = run_command(command_, input, seconds_);
    std::vector<double> out;
    for (const std::string_view line : lines_of(output)) {
      const auto value = parse_number<double>(line);
      if (!value || !(std::abs(*value) < 1e30)) {
        fail("reward command: line {}: expected a number between -1e30 and 1e30, found {}", out.size() + 1,
             printable(std::string(line.substr(0, 64))));
      }
      out.push_back(*value);
    }
    if (out.size() != answers.size())
      fail("reward command: expected {} lines, one per response, found {}", answers.size(), out.size());
    return out;
  }

 private:
  std::string command_;
  double seconds_;
};

}  // namespace

std::string last_number(const std::string& text) {
  size_t end = text.size();
  while (end > 0 && !is_ascii_digit(text[end - 1]))
    --end;
  size_t begin = end;
  while (begin > 0 &&
         (is_ascii_digit(text[begin - 1]) || ((text[begin - 1] == ',' || text[begin - 1] == '.') &&
                                              begin > 1 && is_ascii_digit(text[begin - 2]))))
    --begin;
  if (begin == end) return "";
  const bool negative = begin > 0 && text[begin - 1] == '-';
  std::string number;
  for (size_t i = begin; i < end; ++i) {
    if (text[i] != ',') number += text[i];
  }
  number.erase(0, std::min(number.find_first_not_of('0'), number.size() - 1));
  if (number.front() == '.') number.insert(0, "0");
  if (number.find('.') != std::string::npos) {
    number.erase(number.find_last_not_of('0') + 1);
    if (number.back() == '.') number.pop_back();
  }
  return (negative && number != "0" ? "-" : "") + number;
}

const std::vector<std::string>& reward_names() {
  static const std::vector<std::string> names = {"exact", "regex", "number", "command"};
  return names;
}

std::unique_ptr<Reward> make_reward(const std::string& name, const std::string& command, double seconds) {
  if (name != "command" && !command.empty())
    fail_parameter("reward_command", "this setting requires `reward` command, found `reward` {}", name);
  if (name == "exact") return std::make_unique<ExactReward>();
  if (name == "regex") return std::make_unique<RegexReward>();
  if (name == "number") return std::make_unique<NumberReward>();
  if (name == "command") {
    if (command.empty())
      fail_parameter("reward_command", "expected a command that computes rewards, found none");
    return std::make_unique<CommandReward>(command, seconds);
  }
  fail_parameter("reward", "expected {}, found \"{}\"{}", format_choices(reward_names()), name.substr(0, 64),
                 did_you_mean(name, reward_names()));
}

}  // namespace gpt
