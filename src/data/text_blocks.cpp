#include "data/text_blocks.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "base/error.h"
#include "data/json_line.h"
#include "text/text_cut.h"
#include "text/utf8.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

std::string without_compression(const std::string& path) {
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (path.ends_with(ending)) return path.substr(0, path.size() - ending.size());
  }
  return path;
}

bool is_text(const fs::path& path) {
  const std::string ending = fs::path(without_compression(path.string())).extension().string();
  return ending == ".txt" || ending == ".md" || ending == ".jsonl" || ending == ".ndjson";
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (is_text(entry.path()) && entry.is_regular_file()) files.push_back(entry.path().string());
    }
  } catch (const fs::filesystem_error& error) {
    fail("cannot read the folder {}: {}", folder, error.code().message());
  }
  if (files.empty()) {
    fail(
        "the folder {} has no text: expected *.txt, *.md or *.jsonl, or these with .gz or .zst; name the "
        "files "
        "one by one",
        folder);
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> files_of_pattern(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  std::erase_if(files, [](const std::string& path) { return !fs::is_regular_file(path); });
  if (files.empty()) fail("cannot read {}: no such file, folder or pattern", pattern);
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<std::string> find_text_files(const std::vector<std::string>& names) {
  if (names.empty()) fail_usage("no text given; name files, folders or patterns with --data");
  std::vector<std::string> files;
  std::unordered_set<std::string> seen;
  for (const std::string& name : names) {
    std::error_code ignored;
    std::vector<std::string> found;
    if (fs::is_directory(name, ignored)) {
      found = files_below(name);
    } else if (fs::exists(name, ignored)) {
      found = {name};
    } else {
      found = files_of_pattern(name);
    }
    for (std::string& path : found) {
      if (seen.insert(path).second) files.push_back(std::move(path));
    }
  }
  return files;
}

bool is_json_lines(const std::string& path) {
  const std::string plain = without_compression(path);
  return plain.ends_with(".jsonl") || plain.ends_with(".ndjson");
}

TextBlocks::TextBlocks(std::vector<std::string> files, const TextBlockOptions& options)
    : files_(std::move(files)), options_(options) {
  at_.file = -1;
}

bool TextBlocks::open_next() {
  if (at_.file + 1 >= std::ssize(files_)) return false;
  closed_bytes_ = bytes_done();
  at_ = {.file = at_.file + 1};
  stream_ = open_byte_stream(files_[static_cast<size_t>(at_.file)]);
  ahead_.clear();
  at_end_ = false;
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

// Reads until `size` bytes are there; false when there are no more than before.
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
  fail("{}:{}: {} is longer than {} bytes; cut it, or write it as documents in a .jsonl file",
       files_[static_cast<size_t>(at_.file)], at_.line, what, options_.max_document);
}

// Behind the last complete line among the first bytes, or behind the first one.
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
  constexpr size_t kMore = 4;  // bytes that tell whether a cut is safe
  for (size_t size = options_.block_bytes;; size *= 2) {
    fill(size + kMore);
    last = at_end_ && ahead_.size() <= size;
    if (last) return ahead_.size();
    if (options_.cut_documents) {
      const size_t cut = last_safe_cut(ahead_, 0, size);
      if (cut > 0) return cut;
      if (size >= 16 * options_.block_bytes) return last_cut(ahead_, 0, size);
    } else if (size >= options_.max_document) {
      fail_long("a file that cannot be cut");
    }
  }
}

bool TextBlocks::next(TextBlock& block) {
  while (stream_ == nullptr || (at_end_ && ahead_.empty())) {
    if (!open_next()) return false;
    fill(options_.block_bytes);
  }
  block.begin = at_;
  block.json = is_json_lines(files_[static_cast<size_t>(at_.file)]);
  block.begins_document = at_.offset == 0;
  const size_t end = block.json ? json_end(block.ends_document) : block_end(block.ends_document);
  block.text.assign(ahead_, 0, end);
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
       block.begin.line + std::ranges::count(before, '\n'), block.begin.offset + static_cast<uint64_t>(*at),
       static_cast<unsigned>(static_cast<unsigned char>(block.text[static_cast<size_t>(*at)])));
}

void for_each_json_text(const TextBlock& block, const std::string& path, const std::string& field,
                        const std::function<void(std::string_view text)>& f) {
  std::string_view rest = block.text;
  for (int64_t line = block.begin.line; !rest.empty(); ++line) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    f(json_line_text(text, field, fmt::format("{}:{}", path, line)));
  }
}

}  // namespace gpt
