#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gpt {

// Contains a response of the model, and the prompt and the reference answer that are used to judge the
// response.
struct Judged {
  const std::string& prompt;
  const std::string& answer;  // the reference answer of the example
  std::string completion;     // the response of the model
};

// Computes a reward for each response. Implementations are immutable.
class Reward {
 public:
  virtual ~Reward() = default;
  virtual std::vector<double> rewards(std::span<const Judged> answers) const = 0;
  // Throws Error if the answer of the example cannot be used to judge responses. The error names the place.
  virtual void check(const std::string& answer, const std::string& place) const { (void)answer, (void)place; }
};

// Creates a reward by name. The reward `exact` is 1 if the response equals the answer, ignoring surrounding
// whitespace. For `regex`, the answer is a regular expression, and the reward is 1 if the response contains a
// match. The reward `number` is 1 if the last number of the response equals the last number of the answer (as
// in GSM8K). The reward `command` is the number that an external program returns (CommandReward). Throws
// invalid_argument for any other name.
const std::vector<std::string>& reward_names();
std::unique_ptr<Reward> make_reward(const std::string& name, const std::string& command, double seconds);

// Returns the last number in a text in a normalized form: without commas between digits, and without leading
// zeros and trailing zeros of the fraction. The number may have a sign and a fraction. Returns "" if there is
// no number.
std::string last_number(const std::string& text);

}  // namespace gpt
