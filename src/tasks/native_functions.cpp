#include "tasks/native_functions.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "tasks/python_regex.h"
#include "tasks/python_text.h"
#include "tasks/task_file.h"
#include "text/letter_case.h"

namespace gpt {
namespace {

using json = nlohmann::ordered_json;

std::string text_field(const json& doc, const char* name) {
  const auto field = doc.find(name);
  if (field == doc.end()) fail("the field {} is missing", name);
  if (!field->is_string()) fail("the field {}: expected a string, found {}", name, json_kind(*field));
  return field->get<std::string>();
}

// Removes the markup of WikiHow headings from a text of HellaSwag.
std::string hellaswag_text(const std::string& text) {
  static const PythonRegex brackets("\\[.*?\\]");
  const std::string plain = replace_all(strip(text), " [title]", ". ");
  return replace_all(brackets.remove_from(plain), "  ", " ");
}

json hellaswag_document(const json& doc) {
  const std::string context =
      text_field(doc, "ctx_a") + " " + in_case(text_field(doc, "ctx_b"), LetterCase::capitalize);
  const auto endings = doc.find("endings");
  if (endings == doc.end() || !endings->is_array()) fail("the field endings: expected a list");
  json out = doc;
  out["query"] = hellaswag_text(text_field(doc, "activity_label") + ": " + context);
  out["choices"] = json::array();
  for (const json& ending : *endings) {
    if (!ending.is_string()) fail("the field endings: expected strings, found {}", json_kind(ending));
    out["choices"].push_back(hellaswag_text(ending.get<std::string>()));
  }
  const auto label = doc.find("label");
  if (label == doc.end()) fail("the field label is missing");
  const auto gold = parse_number<int64_t>(python_str(*label));
  if (!gold) fail("the field label: expected a number, found {}", json_kind(*label));
  out["gold"] = *gold;
  return out;
}

// A Winogrande sentence contains a blank (_). The contexts are the text before the blank with each option,
// and the target is the text after the blank.
size_t blank_of(const std::string& sentence) {
  const size_t at = sentence.find('_');
  if (at == std::string::npos) fail("the field sentence: expected a blank (_), found none");
  return at;
}

json winogrande_text(const json& doc) {
  const std::string answer = text_field(doc, "answer");
  if (answer != "1" && answer != "2") fail("the field answer: expected \"1\" or \"2\", found \"{}\"", answer);
  return answer == "1" ? 0 : 1;
}

json winogrande_target(const json& doc) {
  const std::string sentence = text_field(doc, "sentence");
  return std::string(strip(std::string_view(sentence).substr(blank_of(sentence) + 1)));
}

json winogrande_choice(const json& doc) {
  const std::string sentence = text_field(doc, "sentence");
  const std::string begin = sentence.substr(0, blank_of(sentence));
  return {begin + text_field(doc, "option1"), begin + text_field(doc, "option2")};
}

struct Native {
  std::string name;
  NativeUse use;
  // This word must occur in the task's name or dataset path, because some function names alone are too
  // common.
  const char* task;
  uint64_t source;  // FNV-1a hash of the Python file
  json (*call)(const json&);
};

const std::vector<Native>& natives() {
  constexpr uint64_t kHellaswag = 0x1a2656cec07adacd, kWinogrande = 0xaac540224c83b544;
  static const std::vector<Native> all = {
      {"utils.process_docs", NativeUse::process_docs, "hellaswag", kHellaswag, hellaswag_document},
      {"preprocess_winogrande.doc_to_text", NativeUse::value, "", kWinogrande, winogrande_text},
      {"preprocess_winogrande.doc_to_target", NativeUse::value, "", kWinogrande, winogrande_target},
      {"preprocess_winogrande.doc_to_choice", NativeUse::value, "", kWinogrande, winogrande_choice}};
  return all;
}

uint64_t fnv1a(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

bool names_task(const TaskFile& file, const std::string& word) {
  const std::string names = file.text("task").value_or("") + "\n" + file.text("dataset_path").value_or("");
  return in_case(names, LetterCase::lower).find(word) != std::string::npos;
}

json call(const std::string& function, const json& doc) {
  const Native* native = find_by(natives(), &Native::name, function);
  GPT_ASSERT(native != nullptr);
  return native->call(doc);
}

}  // namespace

void require_native_function(const std::string& name, NativeUse use, const TaskFile& file,
                             const std::string& key) {
  const Native* native = find_by(natives(), &Native::name, name);
  if (native == nullptr || native->use != use || !names_task(file, native->task))
    fail(
        "{}: the Python function {} is not supported, only the functions of HellaSwag and Winogrande are; "
        "write the "
        "output of the function as JSONL and use a template",
        file.place(key), name);
  const std::string module = name.substr(0, name.find('.')) + ".py";
  const std::string path = (std::filesystem::path(file.path()).parent_path() / module).string();
  constexpr uint64_t kMaxSource = 1 << 20;
  if (is_file(path) && fnv1a(read_file(path, kMaxSource)) != native->source)
    fail(
        "{}: expected {} to be the file of lm-evaluation-harness 0.4.13, found a different one; use the "
        "original file, because Python is not run",
        file.place(key), path);
}

json native_document(const std::string& function, const json& doc) {
  return call(function, doc);
}

json native_value(const std::string& function, const json& doc) {
  return call(function, doc);
}

}  // namespace gpt
