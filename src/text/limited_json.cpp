#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "text/tokenizer_kinds.h"

namespace gpt::detail {
namespace {

// A tokenizer.json nests about six deep. A vocabulary of 256k tokens with its merges has about two
// million values; the limit keeps a hostile file of short values from growing sixteenfold in memory.
constexpr size_t kMaxDepth = 32;
constexpr int64_t kMaxValues = 8'000'000;

class Limits {
 public:
  explicit Limits(const std::string& name) : name_(name) {}

  void see(nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      open_.emplace_back();
      if (open_.size() > kMaxDepth) fail("cannot read {}: JSON nested deeper than {}", name_, kMaxDepth);
    } else if (event == Event::object_end || event == Event::array_end) {
      open_.pop_back();
    } else if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open_.back().insert(key).second) {
        fail("cannot read {}: the key {} occurs twice in one object", name_, nlohmann::json(key).dump());
      }
    }
    if (++values_ > kMaxValues) fail("cannot read {}: more than {} JSON values", name_, kMaxValues);
  }

 private:
  const std::string& name_;
  std::vector<std::set<std::string>> open_;
  int64_t values_ = 0;
};

}  // namespace

nlohmann::json parse_limited_json(std::string_view text, const std::string& name) {
  Limits limits(name);
  const auto see = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    limits.see(event, parsed);
    return true;
  };
  try {
    return nlohmann::json::parse(text, see);
  } catch (const nlohmann::json::parse_error& error) {
    fail("cannot read {}: expected JSON, found an error at byte {} of {}", name, error.byte, text.size());
  } catch (const nlohmann::json::exception& error) {
    fail("cannot read {}: not valid JSON: {}", name, error.what());
  }
}

}  // namespace gpt::detail
