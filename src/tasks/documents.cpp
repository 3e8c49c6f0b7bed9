#include "tasks/documents.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "tasks/native_functions.h"
#include "text/jinja/datetime.h"

namespace gpt {
namespace {

using json = nlohmann::ordered_json;

constexpr uint64_t kMaxFile = uint64_t{4} << 30;

// Reads the documents of a JSONL file. Returns true if the file has a blank line.
bool read_lines(const std::string& path, std::vector<json>& docs, std::vector<std::string>& places) {
  bool has_blank_line = false;
  const std::string text = read_file(path, kMaxFile);
  int64_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      has_blank_line = true;
      continue;
    }
    places.push_back(fmt::format("{}, line {}", path, number));
    docs.emplace_back(parse_json_document(line, places.back()));
    if (!docs.back().is_object())
      fail("{}: expected an object, found {}", places.back(), json_kind(docs.back()));
  }
  return has_blank_line;
}

std::string joined(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

Documents processed(const Documents& split, const std::string& function) {
  auto docs = std::make_shared<std::vector<json>>();
  for (size_t i = 0; i < split.size(); ++i) {
    try {
      docs->push_back(native_document(function, (*split.docs)[i]));
    } catch (const Error& e) {
      fail_because(e, "{}: {}", split.places[i], e.what());
    }
  }
  return {.docs = std::move(docs), .places = split.places};
}

}  // namespace

Documents read_documents(const std::vector<std::string>& paths, std::optional<TextTypes> texts) {
  auto docs = std::make_shared<std::vector<json>>();
  Documents out;
  std::vector<DocumentFile> files;
  for (const std::string& path : paths) {
    files.push_back({.begin = docs->size()});
    files.back().has_blank_line = read_lines(path, *docs, out.places);
  }
  if (docs->empty()) fail("{}: expected one document per line, found none", fmt::join(paths, ", "));
  try {
    if (texts) type_documents(*docs, *texts, files);
  } catch (const Error& e) {
    fail_because(e, "{}: {}", fmt::join(paths, ", "), e.what());
  }
  out.docs = std::move(docs);
  return out;
}

json plain_document(const json& value) {
  if (value.is_binary() && !is_big_integer(value)) return PythonDatetime::from_json(value).str();
  json plain = value;
  if (value.is_structured()) {
    for (json& member : plain)
      member = plain_document(member);
  }
  return plain;
}

namespace {

[[noreturn]] void fail_missing(const std::string& task, std::vector<std::string> tried) {
  std::vector<std::string> once;
  for (std::string& path : tried) {
    if (std::ranges::find(once, path) == once.end()) once.push_back(std::move(path));
  }
  fail("task {}: the data is missing; provide one of the files {}", task, fmt::join(once, ", "));
}

}  // namespace

std::vector<std::string> TaskData::files_of(const std::string& split) const {
  std::vector<std::string> tried;
  const auto found = [&](const std::string& path) {
    tried.push_back(path);
    return is_file(path);
  };
  if (config_.dataset_path == "json") {
    const auto files = config_.data_files.find(split);
    if (files == config_.data_files.end())
      fail("task {}: {}: dataset_kwargs.data_files has no split {}", config_.name, config_.file, split);
    return transformed(files->second, [&](const std::string& name) {
      const std::string beside = std::filesystem::path(config_.file).parent_path().string();
      std::vector<std::string> folders = {"", beside};
      if (!data_dir_.empty()) folders.insert(folders.begin(), data_dir_);
      for (const std::string& folder : folders) {
        if (found(joined(folder, name))) return tried.back();
      }
      fail_missing(config_.name, tried);
    });
  }
  if (data_dir_.empty())
    fail(
        "task {}: the data set {} is not downloaded automatically; set `data_dir` DIR to a folder with the "
        "data as JSONL: DIR/{}/{}.jsonl",
        config_.name, config_.dataset_path, config_.name, split);
  const std::string& path = config_.dataset_path;
  const std::string last = path.substr(path.find_last_of('/') + 1);
  std::vector<std::string> names = {config_.name};
  for (const std::string& name : {path, last}) {
    if (!config_.dataset_name.empty()) names.push_back(joined(name, config_.dataset_name));
    names.push_back(name);
  }
  names.emplace_back("");
  for (const std::string& name : names) {
    if (found(joined(joined(data_dir_, name), split + ".jsonl"))) return {tried.back()};
  }
  fail_missing(config_.name, tried);
}

const Documents& TaskData::split(const std::string& name) {
  const auto known = splits_.find(name);
  if (known != splits_.end()) return known->second;
  // All other data sets are JSONL copies. Such a copy does not record which strings are dates, so all strings
  // stay strings.
  const TextTypes texts = config_.dataset_path == "json" ? TextTypes::datetimes : TextTypes::text;
  Documents docs = read_documents(files_of(name), texts);
  if (!config_.process_docs.empty()) docs = processed(docs, config_.process_docs);
  return splits_.emplace(name, std::move(docs)).first->second;
}

}  // namespace gpt
