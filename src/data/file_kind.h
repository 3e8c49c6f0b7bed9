#pragma once

#include <string_view>

namespace gpt {

// Describes a file for require_text_file: its path, its first bytes, and whether it is compressed.
struct FileFacts {
  std::string_view path;
  std::string_view first;   // the first decompressed bytes, at least kLookBytes if there are as many
  bool compressed = false;  // true if the file is compressed with gzip or zstd
};
inline constexpr size_t kLookBytes = size_t{64} << 10;

// Throws Error if the file is neither text nor JSON Lines. The error says what the file is and how to convert
// it. Known binary formats are always rejected. Unknown binary data is rejected unless `any_bytes` is set,
// which means that the tokenizer has a token for every byte.
void require_text_file(const FileFacts& file, bool any_bytes);

// Returns true if the path has this ending. The case of the path is ignored. `ending` must be in lower case.
bool has_ending(std::string_view path, std::string_view ending);
// Returns true if the name of a file in a folder is the name of a text file: .txt, .md, .jsonl, .ndjson, or
// one of these followed by .gz or .zst.
bool is_text_name(std::string_view path);
// Returns true if the name of a file in a folder is the name of a source code or markup file: .py, .c, .html,
// Makefile and others, or one of these followed by .gz or .zst.
bool is_code_name(std::string_view path);
// Returns true if the file name ends with .jsonl or .ndjson, the endings of JSON Lines files.
bool is_json_lines(std::string_view path);

}  // namespace gpt
