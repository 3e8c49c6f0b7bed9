#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gpt {

// An answer of the model and what it is judged by.
struct Judged {
  const std::string& prompt;
  const std::string& answer;  // what the example says
  std::string completion;     // what the model said
};

// A number for every answer. Immutable.
class Reward {
 public:
  virtual ~Reward() = default;
  virtual std::vector<double> rewards(std::span<const Judged> answers) const = 0;
  // Throws Error naming the place for an example that it cannot judge by.
  virtual void check(const std::string& answer, const std::string& place) const { (void)answer, (void)place; }
};

// exact: 1 for the answer itself, blanks around it aside; regex: 1 where the answer, a regular expression, is
// found; number: 1 where the last number of the text is the last of the answer (as in GSM8K); command: what a
// program says, see command_reward. Throws invalid_argument for another name.
const std::vector<std::string>& reward_names();
std::unique_ptr<Reward> make_reward(const std::string& name, const std::string& command, double seconds);

// The last number in a text: digits with commas between them, a sign, a fraction; "" where there is none. As
// it is compared: without commas, without zeros that say nothing.
std::string last_number(const std::string& text);

}  // namespace gpt
