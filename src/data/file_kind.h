#pragma once

#include <string_view>

namespace gpt {

// What readers of text know a file of another kind by: its first bytes, or its name where these do not tell.
struct FileFacts {
  std::string_view path;
  std::string_view first;   // decompressed; as many bytes as there are, at most kLookBytes
  bool compressed = false;  // it was gzip or zstd
};
inline constexpr size_t kLookBytes = size_t{64} << 10;

// Throws Error saying what the file is and what to do unless it may be text or JSON lines. Known kinds of
// other files are always refused, bytes of an unknown kind only if not `any_bytes`, that is where the
// tokenizer has no token for every byte.
void require_text_file(const FileFacts& file, bool any_bytes);

// Whether a name ends so, in upper or lower case; the ending is in lower case.
bool has_ending(std::string_view path, std::string_view ending);
// Whether folders take the file for text, by its name: .txt, .md, .jsonl, .ndjson, and these with .gz or
// .zst.
bool is_text_name(std::string_view path);
// Whether folders take the file for source code or markup, by its name: .py, .c, .html, Makefile and others,
// also with .gz or .zst.
bool is_code_name(std::string_view path);
// Whether it has a JSON object in every line, by its name: .jsonl, .ndjson.
bool is_json_lines(std::string_view path);

}  // namespace gpt
