#include "data/file_kind.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace gpt {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kUnpack = "unpack it first";
constexpr std::string_view kRows = "convert it to JSON Lines first, with one {\"text\": ...} object per line";
constexpr std::string_view kText = "extract its text first";
constexpr std::string_view kModel = "give text files instead";
constexpr std::string_view kMedia = "give text files instead";

// A file format that is recognized by its magic bytes at offset `at`.
struct Magic {
  std::string_view bytes;
  std::string_view what, advice;
  size_t at = 0;
};
constexpr Magic kMagics[] = {
    {"\x1f\x8b"sv, "gzip data inside compressed data", kUnpack},
    {"\x28\xb5\x2f\xfd"sv, "zstd data inside compressed data", kUnpack},
    {"BZh"sv, "a bzip2 file", "decompress it first: bunzip2"},
    {"\xfd\x37zXZ\0"sv, "an xz file", "decompress it first: unxz"},
    {"\x04\x22\x4d\x18"sv, "an lz4 file", "decompress it first: unlz4"},
    {"LZIP"sv, "an lzip file", kUnpack},
    {"\x1f\x9d"sv, "a compress file (.Z)", kUnpack},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", kUnpack},
    {"Rar!\x1a\x07"sv, "a rar archive", kUnpack},
    {"PK\3\4"sv, "a zip archive (or a format based on zip: .docx, .xlsx, .epub, .npz, .pt)", kUnpack},
    {"PK\5\6"sv, "an empty zip archive", kUnpack},
    {"ustar"sv, "a tar archive", kUnpack, 257},
    {"PAR1"sv, "a Parquet file", kRows},
    {"ARROW1"sv, "an Arrow file", kRows},
    {"FEA1"sv, "a Feather file", kRows},
    {"Obj\x01"sv, "an Avro file", kRows},
    {"SQLite format 3\0"sv, "an SQLite database", kRows},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file", kRows},
    {"%PDF-"sv, "a PDF document", kText},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, "an Office document (.doc, .xls)", kText},
    {"{\\rtf"sv, "an RTF document", kText},
    {"\xff\xfe"sv, "UTF-16 text", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff"sv, "UTF-16 text", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"},
    {"GPTTOKEN"sv, "a token shard (GPTTOKEN)", "train or evaluate on the shard or its folder directly"},
    {"\x88\xd8\x34\x01"sv, "a token shard of llm.c", "train or evaluate on the shard directly"},
    {"\xa1\xd9\x34\x01"sv, "a token shard of llm.c", "train or evaluate on the shard directly"},
    {"GGUF"sv, "a GGUF model", kModel},
    {"\x93NUMPY"sv, "a NumPy array", kModel},
    {"{\""sv, "a safetensors model", kModel, 8},
    {"\x7f"
     "ELF"sv,
     "a program (ELF)", kMedia},
    {"\x89PNG\r\n"sv, "an image (PNG)", kMedia},
    {"\xff\xd8\xff"sv, "an image", kMedia},
    {"GIF8"sv, "an image", kMedia},
    {"II*\0"sv, "an image", kMedia},
    {"MM\0*"sv, "an image", kMedia},
    {"RIFF"sv, "an image, audio or video file", kMedia},
    {"OggS"sv, "an audio or video file", kMedia},
    {"fLaC"sv, "an audio file", kMedia},
    {"ID3\x03"sv, "an audio file", kMedia},
    {"ID3\x04"sv, "an audio file", kMedia},
    {"ftyp"sv, "a video", kMedia, 4},
    {"\0asm"sv, "a program", kMedia},
};

// A file format that is recognized by the file name, because its bytes do not identify the format.
struct Ending {
  std::string_view ending, what, advice;
};
constexpr std::string_view kTable =
    "convert it to JSON Lines first, with one {\"text\": ...} object per line, or rename it to .txt to read "
    "it unchanged";
constexpr Ending kEndings[] = {
    {".csv", "a table", kTable},
    {".tsv", "a table", kTable},
    {".json", "a JSON document",
     "rename it to .jsonl if every line is an object, convert a list of objects with jq -c '.[]', or rename "
     "it to .txt to read it unchanged"},
    {".parquet", "named like a Parquet file", kRows},
    {".arrow", "named like an Arrow file", kRows},
    {".bz2", "named like a bzip2 file, but is not one", "rename it to match its content"},
    {".xz", "named like an xz file, but is not one", "rename it to match its content"},
    {".br", "a Brotli file", "decompress it first: brotli -d"},
    {".bin", "named like a token shard or a model, but is neither",
     "if it was a token shard, it is damaged and has to be packed again with gpt data pack; to read its "
     "bytes as text, rename it to .txt"},
    {".pt", "named like a model, but is not one", kModel},
    {".safetensors", "named like a model, but is not one", kModel},
};

constexpr std::string_view kCodeEndings[] = {
    // source code
    "adb", "ads", "asm", "awk", "bash", "bat", "c", "cc", "cjs", "cl", "clj", "cljs", "cpp", "cs", "cu",
    "cuh", "cxx", "d", "dart", "el", "erl", "ex", "exs", "f", "f03", "f08", "f77", "f90", "f95", "fish",
    "for", "fs", "fsx", "glsl", "go", "groovy", "h", "hh", "hlsl", "hpp", "hrl", "hs", "hxx", "inc", "ino",
    "ipp", "java", "jl", "js", "jsx", "kt", "kts", "lean", "lisp", "lua", "m", "metal", "mjs", "ml", "mli",
    "mm", "nim", "nix", "pas", "php", "pl", "pm", "proto", "ps1", "py", "pyi", "pyx", "r", "rb", "rkt", "rs",
    "s", "scala", "scm", "sh", "sol", "sql", "sv", "swift", "tcl", "thrift", "ts", "tsx", "v", "vb", "vhd",
    "vhdl", "vim", "wgsl", "zig", "zsh",
    // markup and configuration
    "adoc", "bib", "cfg", "cmake", "conf", "css", "gradle", "graphql", "htm", "html", "ini", "less", "mk",
    "org", "properties", "rst", "sass", "scss", "svelte", "tex", "tf", "toml", "vue", "xml", "yaml", "yml"};
constexpr std::string_view kCodeNames[] = {"Makefile",  "GNUmakefile", "Dockerfile",  "Containerfile",
                                           "Rakefile",  "Gemfile",     "Jenkinsfile", "BUILD",
                                           "WORKSPACE", "README",      "LICENSE"};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_compressed_name(std::string_view path) {
  return has_ending(path, ".gz") || has_ending(path, ".zst");
}

std::string_view without_compression(std::string_view path) {
  return is_compressed_name(path) ? path.substr(0, path.rfind('.')) : path;
}

bool matches(const Magic& magic, std::string_view first) {
  if (magic.at >= first.size() || !first.substr(magic.at).starts_with(magic.bytes)) return false;
  if (magic.bytes == "BZh")  // a text may begin with these three letters, so check the block header too
    return first.size() > 9 && (first.substr(4, 6) == "1AY&SY" || first.substr(4, 6) == "\x17rE8P\x90");
  // safetensors and MP4 files begin with a length whose upper bytes are zero. Text has no zero bytes there.
  if (magic.at == 8) return first.substr(5, 3) == "\0\0\0"sv;
  if (magic.bytes == "ftyp") return first.substr(0, 2) == "\0\0"sv;
  if (magic.bytes == "RIFF" || magic.bytes == "Rar!\x1a\x07" || magic.bytes == "LZIP")
    return first.substr(0, kLookBytes).find('\0') != std::string_view::npos;
  return true;
}

}  // namespace

bool has_ending(std::string_view path, std::string_view ending) {
  if (path.size() < ending.size()) return false;
  return std::ranges::equal(path.substr(path.size() - ending.size()), ending, {}, lower);
}

bool is_json_lines(std::string_view path) {
  const std::string_view plain = without_compression(path);
  return has_ending(plain, ".jsonl") || has_ending(plain, ".ndjson");
}

bool is_text_name(std::string_view path) {
  const std::string_view plain = without_compression(path);
  return has_ending(plain, ".txt") || has_ending(plain, ".md") || is_json_lines(path);
}

bool is_code_name(std::string_view path) {
  std::string_view name = without_compression(path);
  name.remove_prefix(std::min(name.rfind('/') + 1, name.size()));
  if (std::ranges::find(kCodeNames, name) != std::end(kCodeNames)) return true;
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  std::string ending(name.substr(dot + 1));
  std::ranges::transform(ending, ending.begin(), lower);
  return std::ranges::find(kCodeEndings, ending) != std::end(kCodeEndings);
}

void require_text_file(const FileFacts& file, bool any_bytes) {
  for (const Magic& magic : kMagics) {
    if (matches(magic, file.first))
      fail("cannot read {} as text: it is {}; {}", file.path, magic.what, magic.advice);
  }
  if (is_compressed_name(file.path) && !file.compressed) {
    fail(
        "cannot read {}: it is named like a compressed file, but its content is not compressed; rename it, "
        "or get it again if it is damaged",
        file.path);
  }
  for (const Ending& ending : kEndings) {
    if (has_ending(without_compression(file.path), ending.ending))
      fail("cannot read {} as text: it is {}; {}", file.path, ending.what, ending.advice);
  }
  const size_t zero = file.first.substr(0, kLookBytes).find('\0');
  if (zero != std::string_view::npos && !any_bytes) {
    fail(
        "cannot read {} as text: byte {} is zero, as in binary files; give text in UTF-8, or use `tokenizer` "
        "byte, which accepts any bytes",
        file.path, zero);
  }
}

}  // namespace gpt
