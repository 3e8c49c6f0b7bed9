#include "text/post_processor.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe_json.h"
#include "text/json_parts.h"

namespace gpt::detail {
namespace {

using Json = nlohmann::json;

class PostProcessorReader {
 public:
  explicit PostProcessorReader(const std::string& name) : name_(name) {}

  void read(const Json& processor) {
    if (processor.is_null() || is_a(processor, "ByteLevel")) return;
    if (is_a(processor, "Sequence") && member(processor, "processors").is_array()) {
      for (const Json& step : processor["processors"])
        read(step);
    } else if (is_a(processor, "TemplateProcessing")) {
      read_template(processor);
    } else if (is_a(processor, "BertProcessing") || is_a(processor, "RobertaProcessing")) {
      put(ids_.bos, ids_.add_bos, pair_id(member(processor, "cls")));
      put(ids_.eos, ids_.add_eos, pair_id(member(processor, "sep")));
    } else {
      refuse(processor);
    }
  }
  const SpecialIds& ids() const { return ids_; }

 private:
  static bool is_a(const Json& processor, const char* type) {
    return processor.is_object() && has_type(processor, type);
  }

  [[noreturn]] void refuse(const Json& found) const {
    fail_kind(name_, "the post_processor " + printable_text(found.dump(), 80));
  }

  void put(int64_t& id, std::optional<bool>& added, int64_t value) const {
    if (added)
      fail_kind(name_, "a post_processor that adds more than one token at the beginning or end of a text");
    id = value;
    added = true;
  }

  int64_t pair_id(const Json& pair) const {
    if (!pair.is_array() || pair.size() != 2) refuse(pair);
    return read_token_id(pair[1], "of the post_processor", name_);
  }

  void read_template(const Json& processor) {
    const Json& single = member(processor, "single");
    if (!single.is_array()) refuse(processor);
    bool behind = false;
    for (const Json& part : single) {
      const Json& token = part.is_object() ? member(part, "SpecialToken") : Json();
      if (part.is_object() && member(part, "Sequence").is_object() && !behind) {
        behind = true;
        continue;
      }
      if (!token.is_object() || !member(token, "id").is_string()) refuse(processor);
      const Json& known = member(processor, "special_tokens");
      const Json& entry = known.is_object() ? member(known, token["id"].get<std::string>().c_str()) : Json();
      const Json& ids = entry.is_object() ? member(entry, "ids") : Json();
      if (!ids.is_array() || ids.size() != 1) refuse(processor);
      const int64_t id = read_token_id(ids[0], "of the post_processor", name_);
      behind ? put(ids_.eos, ids_.add_eos, id) : put(ids_.bos, ids_.add_bos, id);
    }
    if (!behind) refuse(processor);
  }

  const std::string& name_;
  SpecialIds ids_;
};

Json special_part(const std::string& token) {
  return {{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
}

}  // namespace

SpecialIds read_post_processor(const Json& root, const std::string& name) {
  PostProcessorReader reader(name);
  reader.read(member(root, "post_processor"));
  return reader.ids();
}

Json post_processor_json(const SpecialIds& special, const std::function<std::string(int64_t)>& name_of) {
  Json single = Json::array(), pair = Json::array(), tokens = Json::object();
  const auto add = [&](int64_t id) {
    const std::string text = name_of(id);
    single.push_back(special_part(text));
    pair.push_back(special_part(text));
    tokens[text] = {{"id", text}, {"ids", {static_cast<uint64_t>(id)}}, {"tokens", {text}}};
  };
  const bool begins = special.add_bos.value_or(false) && special.bos >= 0;
  const bool ends = special.add_eos.value_or(false) && special.eos >= 0;
  if (!begins && !ends) return nullptr;
  if (begins) add(special.bos);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  pair.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  if (ends) add(special.eos);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

void check_settings(const Json& root, const std::string& name) {
  constexpr const char* kKnown[] = {"version",        "truncation", "padding",
                                    "added_tokens",   "normalizer", "pre_tokenizer",
                                    "post_processor", "decoder",    "model"};
  for (const auto& [key, value] : root.items()) {
    if (std::ranges::find(kKnown, key) == std::end(kKnown))
      fail_kind(name, "the unknown field \"" + printable_text(key, 40) + "\"");
  }
  // The settings for truncation and padding are those at the time the file was saved. They are ignored here,
  // because transformers resets both settings in every call. By default, transformers neither truncates nor
  // pads.
  for (const char* key : {"truncation", "padding"}) {
    const Json& value = member(root, key);
    if (!value.is_null() && !value.is_object())
      fail("cannot read {}: expected an object or null as \"{}\", found {}", name, key,
           printable_text(value.dump(), 40));
  }
  const Json& version = member(root, "version");
  if (!version.is_null() && version != "1.0")
    fail("cannot read {}: expected version \"1.0\", found {}", name, printable_text(version.dump(), 40));
}

}  // namespace gpt::detail
