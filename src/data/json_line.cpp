#include "data/json_line.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"
#include "text/utf8.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 32;
constexpr size_t kMaxNames = 64;  // that are remembered for a suggestion
constexpr const char* kOther = "gpt data pack and the tokenizer commands take another with --field";

// Keeps one field and forgets the rest.
class FieldReader final : public json::json_sax_t {
 public:
  FieldReader(const std::string& field, const std::string& place) : field_(field), place_(place) {}

  std::string take() {
    if (!is_object_) fail("{}: expected a JSON object, found something else", place_);
    if (!value_) fail("{}: the object has no field \"{}\"{}", place_, field_, suggestion());
    return std::move(*value_);
  }

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(int64_t) override { return other("a number"); }
  bool number_unsigned(uint64_t) override { return other("a number"); }
  bool number_float(double, const std::string&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("bytes"); }
  bool string(std::string& value) override {
    if (depth_ == 1 && wanted_) value_ = std::move(value);
    return true;
  }
  bool start_object(size_t) override {
    if (depth_ == 0) is_object_ = true;
    return open("an object");
  }
  bool start_array(size_t) override { return open("a list"); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    wanted_ = name == field_;
    if (wanted_ && value_) fail("{}: the field \"{}\" occurs twice", place_, field_);
    if (names_.size() < kMaxNames) names_.push_back(name);
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    fail("{}: expected a JSON object on a line of its own, found an error at byte {} of the line", place_,
         at);
  }

 private:
  bool other(const char* what) {
    if (depth_ == 1 && wanted_)
      fail("{}: expected the field \"{}\" to be a string, found {}", place_, field_, what);
    return true;
  }
  bool open(const char* what) {
    other(what);
    if (++depth_ > kMaxDepth) fail("{}: JSON nested deeper than {}", place_, kMaxDepth);
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }
  std::string suggestion() const {
    std::string text = did_you_mean(field_, names_);
    if (!text.empty() || names_.empty()) return text + "; " + kOther;
    return "; it has \"" + printable_text(names_[0], 40) + "\", for instance; " + kOther;
  }

  const std::string& field_;
  const std::string& place_;
  int depth_ = 0;
  bool is_object_ = false, wanted_ = false;
  std::optional<std::string> value_;
  std::vector<std::string> names_;
};

}  // namespace

std::string json_line_text(std::string_view line, const std::string& field, const std::string& place) {
  FieldReader reader(field, place);
  json::sax_parse(line, &reader);
  return reader.take();
}

}  // namespace gpt
