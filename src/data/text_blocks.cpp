#include "data/text_blocks.h"

#include <fmt/ranges.h>
#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "data/file_kind.h"
#include "text/text_cut.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShownPaths = 3;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // U+FEFF, which marks a file as UTF-8

// Result of walking through a folder.
struct Walk {
  // `folders` lists the skipped folders. Each entry ends with the reason.
  std::vector<std::string> files, skipped, folders;
};

// Returns true if a folder holds a model, an adapter, a run or a sweep. The folder of a model, an adapter or
// a run contains a config file, and also weights, a log or a subfolder `last`. The folder of a sweep contains
// sweep.json and a subfolder `runs`. Files such as README.md, merges.txt or metrics.jsonl in these folders
// are not training text.
bool is_model_or_run(const std::vector<FolderEntry>& entries) {
  bool config = false, other = false, sweep = false, runs = false;
  for (const FolderEntry& entry : entries) {
    sweep = sweep || entry.name == "sweep.json";
    runs = runs || entry.name == "runs";
    config = config || entry.name == "config.json" || entry.name == "adapter_config.json";
    other = other || entry.name.ends_with(".safetensors") || entry.name == "pytorch_model.bin" ||
            entry.name == "adapter_model.bin" || entry.name == "last" || entry.name == "metrics.jsonl";
  }
  return (config && other) || (sweep && runs);
}

// Returns `path` relative to `folder`, which is a prefix of the path.
std::string path_below(const std::string& path, const std::string& folder) {
  const std::string_view inside = std::string_view(path).substr(folder.size());
  return std::string(inside.substr(std::min(inside.find_first_not_of('/'), inside.size())));
}

bool matches(const std::vector<std::string>& patterns, const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0 ||
           ::fnmatch(pattern.c_str(), path.c_str(), 0) == 0;
  });
}

// Walks through a folder and its subfolders, and collects the files that pass the filter.
class Walker {
 public:
  Walker(const std::string& folder, const FolderFilter& filter) : folder_(folder), filter_(filter) {}

  void walk(const std::vector<FolderEntry>& entries, const std::string& folder) {
    for (const FolderEntry& entry : entries) {
      const std::string path = (fs::path(folder) / entry.name).string();
      if (entry.kind == PathKind::folder) {
        walk_below(entry, path);
      } else if (!takes(entry.name, path)) {
        if (!entry.name.starts_with('.')) found.skipped.push_back(path);
      } else if (is_file(path)) {
        found.files.push_back(path);
      } else {
        fail("cannot read {}: expected a regular file; remove it from the folder", path);
      }
    }
  }

  Walk found;

 private:
  bool takes(const std::string& name, const std::string& path) const {
    const std::string below = path_below(path, folder_);
    if (matches(filter_.exclude, below)) return false;
    if (!filter_.include.empty()) return matches(filter_.include, below);
    return is_text_name(name) || (!name.starts_with('.') && is_code_name(name));
  }

  void walk_below(const FolderEntry& entry, const std::string& path) {
    if (entry.link) return found.folders.push_back(path + " (a link to a folder)");
    if (entry.name.starts_with('.')) return found.folders.push_back(path + " (hidden)");
    if (matches(filter_.exclude, path_below(path, folder_)))
      return found.folders.push_back(path + " (excluded)");
    const std::vector<FolderEntry> entries = list_folder(path);
    if (is_model_or_run(entries)) return found.folders.push_back(path + " (a model or a run)");
    walk(entries, path);
  }

  const std::string& folder_;
  const FolderFilter& filter_;
};

std::string some_of(const std::vector<std::string>& paths, const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& path : paths)
    names.push_back(printable_text(path_below(path, folder), 60));
  return format_list(names, kShownPaths);
}

// Returns a description of the files that a filter accepts.
std::string wanted_files(const FolderFilter& filter) {
  const std::string excluded =
      filter.exclude.empty() ? "" : fmt::format(", except {}", fmt::join(filter.exclude, ", "));
  if (!filter.include.empty()) return fmt::format("{}{}", fmt::join(filter.include, ", "), excluded);
  return "text (.txt, .md, .jsonl, also with .gz or .zst) or code (.py, .c, .js, ...)" + excluded;
}

std::vector<std::string> files_below(const std::string& folder, const FolderFilter& filter,
                                     std::string& notes) {
  const std::vector<FolderEntry> entries = list_folder(folder);
  if (is_model_or_run(entries))
    fail("{} is a model or a run, not a folder of text; name files in it one by one to read them as text",
         folder);
  Walker walker(folder, filter);
  walker.walk(entries, folder);
  Walk& found = walker.found;
  std::ranges::sort(found.files);
  if (found.files.empty()) {
    fail("the folder {} has no text: expected {}{}; use `include` '*.ENDING' to read other files", folder,
         wanted_files(filter), found.skipped.empty() ? "" : ", found " + some_of(found.skipped, folder));
  }
  notes +=
      fmt::format("{}: {} file{} selected", folder, found.files.size(), found.files.size() == 1 ? "" : "s");
  if (!found.skipped.empty()) {
    notes += fmt::format(", {} skipped (expected {}): {}", found.skipped.size(), wanted_files(filter),
                         some_of(found.skipped, folder));
  }
  if (!found.folders.empty()) notes += fmt::format(", folders skipped: {}", some_of(found.folders, folder));
  notes += "\n";
  return std::move(found.files);
}

std::vector<std::string> files_of_pattern(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  std::erase_if(files, [](const std::string& path) { return !is_file(path); });
  if (files.empty()) fail_not_found("cannot read {}: no such file, folder or pattern", pattern);
  std::ranges::sort(files);
  return files;
}

int64_t crlf_lines(std::string_view text) {
  int64_t n = 0;
  for (size_t at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1))
    n += text.substr(at + 1).starts_with('\n') ? 1 : 0;
  return n;
}

using nlohmann::json;

constexpr int kMaxJsonDepth = 32;
constexpr size_t kMaxNames = 64;  // maximum number of field names kept for suggestions

// Parses a JSON object and keeps only the value of one field.
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
    if (depth_ != 1) return true;
    if (wanted_) value_ = std::move(value);
    if (is_object_ && names_.size() < kMaxNames) texts_.push_back(names_.back());
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
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& e) override {
    fail("{}: expected one JSON object per line, found {} at byte {} of the line", place_,
         e.id == kNumberOverflow ? "a number beyond 1.8e308 that ends" : "a syntax error", at);
  }

 private:
  bool other(const char* what) {
    if (depth_ == 1 && wanted_)
      fail("{}: expected the field \"{}\" to be a string, found {}", place_, field_, what);
    return true;
  }
  bool open(const char* what) {
    other(what);
    if (++depth_ > kMaxJsonDepth) fail("{}: the JSON is nested deeper than {} levels", place_, kMaxJsonDepth);
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }
  bool has(std::string_view name) const { return std::ranges::find(names_, name) != names_.end(); }

  std::string suggestion() const {
    constexpr size_t kShown = 8;
    if (has("messages"))
      return "; it is a conversation with \"messages\": use gpt finetune --task chat to train on it";
    if (names_.empty()) return ", nor any other field";
    std::string text = "; its fields are " + format_list(transformed(names_, printable), kShown);
    if (has(field_.substr(0, field_.find('.'))))
      return text + "; `field` must be a top-level field, not a nested one";
    if (has("text")) return text + "; `data` and `val_data` share the same `field`";
    return text + "; set `field` to the field that contains the text" + likely();
  }

  // Suggests the field that the user probably meant. This is a field with a similar name. If there is none
  // and the object has only one string field, suggests that field.
  std::string likely() const {
    std::string text = did_you_mean(field_, names_);
    if (text.empty() && texts_.size() == 1) text = "; did you mean `field` " + printable(texts_[0]) + "?";
    return text;
  }

  const std::string& field_;
  const std::string& place_;
  int depth_ = 0;
  bool is_object_ = false, wanted_ = false;
  std::optional<std::string> value_;
  std::vector<std::string> names_, texts_;  // names of all fields, and of the fields that are strings
};

}  // namespace

// Each folder is resolved only once, because it may contain many files.
std::string NamedFiles::place(const std::string& path) {
  const fs::path p = path;
  std::error_code error;
  if (fs::is_symlink(p, error) || !p.has_filename()) return resolved_path(path);
  const auto [folder, is_new] = folders_.try_emplace(p.parent_path().string());
  if (is_new) folder->second = resolved_path(folder->first.empty() ? "." : folder->first);
  return (fs::path(folder->second) / p.filename()).string();
}

bool NamedFiles::add(const std::string& path) {
  if (known_.insert(place(path)).second) return true;
  again_.push_back(path);
  return false;
}

std::string NamedFiles::notes() {
  std::string text;
  if (again_.size() > kShownPaths) {
    text = fmt::format("{} files are named twice and read once, for example {}\n", again_.size(), again_[0]);
  } else {
    for (const std::string& path : again_)
      text += path + " is named twice and read once\n";
  }
  again_.clear();
  return text;
}

bool is_model_or_run(const std::string& folder) {
  return is_model_or_run(list_folder(folder));
}

void refuse_output_among_texts(const std::string& out, const std::vector<std::string>& names) {
  constexpr const char* kWritten[] = {"",          "config.json", "metrics.jsonl",  "report.html",
                                      "loss.svg",  "plan.json",   "finetune.json",  "sweep.json",
                                      "pack.json", "sweep.html",  "tokenizer.json", "shard-00000.bin"};
  const std::string folder = resolved_path(out);
  for (const std::string& name : names) {
    const std::string there = resolved_path(name);
    if (is_folder(name)) {
      if (there == folder)
        fail("{} is one of the data folders; choose a separate folder for `out`, such as {}", out,
             (fs::path(folder).parent_path() / "run").string());
      continue;
    }
    if (path_exists(name)) continue;
    for (const char* file : kWritten) {
      const std::string path = *file == '\0' ? folder : folder + "/" + file;
      if (::fnmatch(there.c_str(), path.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0)
        fail("the data pattern {} also matches the output {}; choose another `out`", name, path);
    }
  }
}

TextFiles find_text_files(const std::vector<std::string>& names, NamedFiles* named,
                          const FolderFilter& filter) {
  if (names.empty()) fail_usage("no text given; name files, folders or patterns with `data`");
  TextFiles all;
  NamedFiles own;
  if (named == nullptr) named = &own;
  for (const std::string& name : names) {
    std::vector<std::string> found;
    if (is_folder(name)) {
      found = files_below(name, filter, all.notes);
    } else if (path_exists(name)) {
      found = {name};
    } else {
      found = files_of_pattern(name);
    }
    for (std::string& path : found) {
      if (named->add(path)) all.files.push_back(std::move(path));
    }
  }
  all.notes += named->notes();
  return all;
}

TextBlocks::TextBlocks(std::vector<std::string> files, const TextBlockOptions& options)
    : files_(std::move(files)), options_(options) {
  at_.file = -1;
}

bool TextBlocks::open_next() {
  if (at_.file + 1 >= std::ssize(files_)) return false;
  closed_bytes_ = bytes_done();
  at_ = {.file = at_.file + 1};
  const std::string& path = files_[static_cast<size_t>(at_.file)];
  stream_ = open_byte_stream(path);
  ahead_.clear();
  at_end_ = false;
  fill(std::max(kLookBytes, options_.block_bytes));
  if (at_end_ && ahead_ == kByteOrderMark) ahead_.clear();  // an empty file to which an editor added the mark
  require_text_file({.path = path, .first = ahead_, .compressed = stream_->compressed()}, options_.any_bytes);
  return true;
}

uint64_t TextBlocks::bytes_total() const {
  uint64_t total = 0;
  for (const std::string& path : files_) {
    std::error_code error;
    const uint64_t size = fs::file_size(path, error);
    if (!error) total += size;
  }
  return total;
}

void TextBlocks::skip_to(const TextPosition& position) {
  GPT_ASSERT(position.file >= 0 && position.file < std::ssize(files_));
  at_.file = position.file - 1;
  open_next();
  while (at_.offset < position.offset) {
    if (ahead_.empty() && !fill(options_.block_bytes))
      fail("{} has become shorter: expected at least {} bytes, found {}",
           files_[static_cast<size_t>(at_.file)], position.offset, at_.offset);
    const auto n = static_cast<size_t>(std::min<uint64_t>(ahead_.size(), position.offset - at_.offset));
    ahead_.erase(0, n);
    at_.offset += n;
  }
  at_ = position;
}

// Reads until `ahead_` has `size` bytes. Returns false if no bytes were added.
bool TextBlocks::fill(size_t size) {
  const size_t before = ahead_.size();
  if (at_end_ || size <= before) return false;
  ahead_.resize(size);
  const size_t n = stream_->read(std::span(ahead_).subspan(before));
  ahead_.resize(before + n);
  at_end_ = ahead_.size() < size;
  return n > 0;
}

void TextBlocks::fail_long(const char* what) const {
  fail("{}:{}: {} is longer than {} bytes; split it, or write its documents to a .jsonl file",
       files_[static_cast<size_t>(at_.file)], at_.line, what, options_.max_document);
}

// Returns the end of the last complete line within block_bytes, or the end of the first line if it is longer.
size_t TextBlocks::json_end(bool& last) {
  for (size_t size = options_.block_bytes;; size *= 2) {
    fill(size);
    last = at_end_ && ahead_.size() <= size;
    if (last) return ahead_.size();
    const size_t newline = std::string_view(ahead_).substr(0, size).rfind('\n');
    if (newline != std::string_view::npos) return newline + 1;
    if (size >= options_.max_document) fail_long("a line");
  }
}

size_t TextBlocks::block_end(bool& last) {
  constexpr size_t kMore = 4;  // bytes after a cut that decide whether the cut is safe
  for (size_t size = options_.block_bytes;; size *= 2) {
    fill(size + kMore);
    last = at_end_ && ahead_.size() <= size;
    if (last) return ahead_.size();
    if (options_.cut_documents) {
      const size_t cut = last_safe_cut(ahead_, 0, size);
      if (cut > 0) return cut;
      if (size >= 16 * options_.block_bytes) return last_cut(ahead_, 0, size);
    } else if (size >= options_.max_document) {
      fail_long("a file that this tokenizer cannot encode in parts");
    }
  }
}

bool TextBlocks::next(TextBlock& block) {
  while (stream_ == nullptr || (at_end_ && ahead_.empty())) {
    if (!open_next()) return false;
  }
  block.begin = at_;
  block.json = is_json_lines(files_[static_cast<size_t>(at_.file)]);
  block.begins_document = at_.offset == 0;
  const size_t end = block.json ? json_end(block.ends_document) : block_end(block.ends_document);
  block.mark_bytes =
      at_.offset == 0 && ahead_.starts_with(kByteOrderMark) ? std::min(end, kByteOrderMark.size()) : 0;
  block.text.assign(ahead_, block.mark_bytes, end - block.mark_bytes);
  ahead_.erase(0, end);
  at_.offset += end;
  at_.line += std::ranges::count(block.text, '\n');
  return true;
}

void require_utf8(const TextBlock& block, const std::string& path) {
  const auto at = first_invalid_utf8(block.text);
  if (!at) return;
  const auto before = std::string_view(block.text).substr(0, static_cast<size_t>(*at));
  fail("{}:{}: not valid UTF-8 at byte {} of the file (0x{:02x}); convert it to UTF-8", path,
       block.begin.line + std::ranges::count(before, '\n'),
       block.begin.offset + block.mark_bytes + static_cast<uint64_t>(*at),
       static_cast<unsigned>(static_cast<unsigned char>(block.text[static_cast<size_t>(*at)])));
}

void for_each_json_text(const TextBlock& block, const std::string& path, const std::string& field,
                        const std::function<void(std::string_view text, int64_t line)>& f) {
  std::string_view rest = block.text;
  for (int64_t line = block.begin.line; !rest.empty(); ++line) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    f(json_line_text(text, field, fmt::format("{}:{}", path, line)), line);
  }
}

TextFacts text_facts(const TextBlock& block) {
  TextFacts facts{.mark = block.mark_bytes > 0};
  if (block.json) return facts;  // the JSON parser handles line ends and invalid UTF-8
  facts.crlf = crlf_lines(block.text);
  constexpr std::string_view kEnd = "<|endoftext|>";
  for (size_t at = block.text.find(kEnd); at != std::string::npos;
       at = block.text.find(kEnd, at + kEnd.size()))
    ++facts.ends;
  if (const auto at = first_invalid_utf8(block.text))
    facts.invalid = block.begin.offset + block.mark_bytes + static_cast<uint64_t>(*at);
  return facts;
}

void TextNotes::Kind::add(const std::string& path, int64_t n) {
  if (n == 0) return;
  if (files == 0) first = path;
  if (last != path) ++files;
  last = path;
  count += n;
}

std::string TextNotes::Kind::names() const {
  if (files == 1) return first;
  return fmt::format("{} and {} more file{}", first, files - 1, files == 2 ? "" : "s");
}

void TextNotes::add(const std::string& path, const TextFacts& facts) {
  mark_.add(path, facts.mark ? 1 : 0);
  crlf_.add(path, facts.crlf);
  ends_.add(path, facts.ends);
  if (facts.invalid && invalid_.files == 0) invalid_at_ = *facts.invalid;
  invalid_.add(path, facts.invalid ? 1 : 0);
}

std::string TextNotes::lines() const {
  std::string text;
  if (mark_.files > 0) text += mark_.names() + ": the byte order mark at the start is skipped\n";
  if (ends_.files > 0) {
    text += fmt::format(
        "{}: <|endoftext|> occurs {} and is read as plain text, not as the token; to separate documents, "
        "write JSON lines {{\"text\": \"...\"}} to a .jsonl file\n",
        ends_.names(), format_amount(ends_.count, "time"));
  }
  if (crlf_.files > 0) {
    text += fmt::format("{}: {} line{} with CRLF, and the CR is part of the text\n", crlf_.names(),
                        crlf_.count, crlf_.count == 1 ? " ends" : "s end");
  }
  if (invalid_.files == 1)
    text += fmt::format("{}: not valid UTF-8 at byte {}; read as raw bytes\n", invalid_.first, invalid_at_);
  if (invalid_.files > 1) {
    text += fmt::format("{}: not valid UTF-8, first at byte {}; read as raw bytes\n", invalid_.names(),
                        invalid_at_);
  }
  return text;
}

std::string json_line_text(std::string_view line, const std::string& field, const std::string& place) {
  FieldReader reader(field, place);
  json::sax_parse(line, &reader);
  return reader.take();
}

}  // namespace gpt
