#include "data/text_blocks.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>

#include "base/error.h"
#include "base/parse.h"
#include "base/rng.h"
#include "data/file_kind.h"
#include "support/compress.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

using test::error_of;
using test::gzip;
using test::names;
using test::refused;
using test::TempDir;
using test::write_plain_file;
using test::zstd;

std::string read_all(ByteStream& stream, size_t step) {
  std::string out, part(step, '\0');
  for (size_t n = step; n == step;) {
    n = stream.read(part);
    out.append(part, 0, n);
  }
  return out;
}

std::string unpack(const std::string& bytes, size_t step = 1000, const ByteStreamLimits& limits = {}) {
  return read_all(*byte_stream_of(std::as_bytes(std::span(bytes)), "mem", limits), step);
}

std::string random_text(size_t size) {
  RandomStream random(3, RandomSite::test);
  std::string text;
  while (text.size() < size)
    text += random.below(9) == 0 ? '\n' : static_cast<char>('a' + random.below(7));
  return text;
}

TEST(ByteStream, ReadsPlainGzipAndZstd) {
  const std::string text = random_text(700000);
  for (const size_t step : {size_t{1} << 20, size_t{4096}, size_t{333}}) {
    EXPECT_EQ(unpack(text, step), text);
    EXPECT_EQ(unpack(gzip(text), step), text);
    EXPECT_EQ(unpack(zstd(text), step), text);
  }
  EXPECT_EQ(unpack(gzip("a") + gzip("") + gzip("bc")), "abc");
  EXPECT_EQ(unpack(gzip("a") + std::string(100, '\0')), "a");
  EXPECT_EQ(unpack(zstd("a") + zstd("") + zstd("bc")), "abc");
  EXPECT_EQ(unpack(gzip("")), "");
  EXPECT_EQ(unpack(""), "");
}

TEST(ByteStream, EveryCutAndEveryFlippedByteIsAnErrorOrHarmless) {
  const std::string text = random_text(2000);
  for (const std::string& good : {gzip(text), zstd(text)}) {
    for (size_t n = 4; n < good.size(); ++n)
      EXPECT_TRUE(names(error_of([&] { unpack(good.substr(0, n)); }), {"mem"}));
    for (size_t at = 4; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 0x55);
      try {
        unpack(bad, 1 << 20);  // a changed flag or time stamp in the header is harmless
      } catch (const Error& error) {
        EXPECT_TRUE(names(error.what(), {"mem"}));
      }
    }
  }
  EXPECT_TRUE(names(error_of([&] { unpack(gzip(text) + "junk"); }), {"mem"}));
  EXPECT_TRUE(names(error_of([&] { unpack(zstd(text) + "junk"); }), {"mem"}));
  const std::string zeros(3, '\0');
  EXPECT_TRUE(names(error_of([&] { unpack(gzip(text) + zeros + "x"); }), {"mem", gzip(text).size()}));
}

TEST(ByteStream, RefusesAFileThatShrinksWhileItIsRead) {
  const TempDir folder;
  const std::string path = folder.file("a.txt");
  for (const std::string& text : {std::string(3 << 20, 'a'), gzip(random_text(6 << 20))}) {
    write_plain_file(path, text);
    const auto stream = open_byte_stream(path);
    std::string part(1000, '\0');
    ASSERT_EQ(stream->read(part), part.size());
    std::filesystem::resize_file(path, 1000);
    std::string rest(4 << 20, '\0');
    EXPECT_TRUE(refused([&] { stream->read(rest); }, path, {text.size(), 1000}));
  }
}

TEST(ByteStream, RefusesBombs) {
  const std::string zeros(8 << 20, '\0');
  const ByteStreamLimits tight{.max_ratio = 100, .free_bytes = 1 << 20};
  for (const std::string& bomb : {gzip(zeros), zstd(zeros)}) {
    EXPECT_TRUE(names(error_of([&] { unpack(bomb, 1 << 16, tight); }), {"mem", 100}));
    EXPECT_EQ(unpack(bomb, 1 << 16), zeros);  // fewer than free_bytes
  }
}

// The frame requests a window of 2 GiB. The decoder must refuse it before it allocates memory.
TEST(ByteStream, RefusesHugeWindows) {
  std::string frame("\x28\xb5\x2f\xfd", 4);
  frame += '\0';                               // no checksum, no size
  frame += static_cast<char>((31 - 10) << 3);  // 2^31
  frame += std::string("\x01\x00\x00", 3);     // an empty last block
  EXPECT_TRUE(names(error_of([&] { unpack(frame); }), {"mem"}));
}

TEST(ByteStream, FilesMustBeThereAndRegular) {
  for (const std::string path : {"/nonexistent/file", "/dev/zero"})
    EXPECT_TRUE(names(error_of([&] { open_byte_stream(path); }), {path}));
}

struct Read {
  std::string text;
  std::vector<TextBlock> blocks;
};

Read read_blocks(const std::vector<std::string>& files, const TextBlockOptions& options,
                 const TextPosition* from = nullptr) {
  Read out;
  TextBlocks blocks(files, options);
  if (from != nullptr) blocks.skip_to(*from);
  for (TextBlock block; blocks.next(block);) {
    out.text += block.text;
    out.blocks.push_back(block);
  }
  return out;
}

TEST(TextBlocks, CoverEveryFileAndGoOnAnywhere) {
  const TempDir folder;
  const std::string text = random_text(30000);
  std::string lines;
  for (int i = 0; i < 400; ++i)
    lines += "{\"text\":\"" + std::string(static_cast<size_t>(i % 150), 'x') + "\"}\n";
  write_plain_file(folder.file("a.txt"), text);
  write_plain_file(folder.file("b.jsonl"), lines.substr(0, lines.size() - 1));
  write_plain_file(folder.file("c.txt.gz"), gzip(text));
  write_plain_file(folder.file("d.jsonl.zst"), zstd(lines));
  write_plain_file(folder.file("e.txt"), "");
  const auto files = find_text_files({folder.path()}).files;
  ASSERT_EQ(files.size(), 5u);
  const TextBlockOptions options{.block_bytes = 2000};
  const Read all = read_blocks(files, options);
  EXPECT_EQ(all.text, text + lines.substr(0, lines.size() - 1) + text + lines);
  EXPECT_GT(all.blocks.size(), 20u);
  for (size_t i = 0; i < all.blocks.size(); i += 3) {
    const Read rest = read_blocks(files, options, &all.blocks[i].begin);
    ASSERT_EQ(rest.blocks.size(), all.blocks.size() - i);
    for (size_t k = 0; k < rest.blocks.size(); ++k) {
      EXPECT_EQ(rest.blocks[k].text, all.blocks[i + k].text);
      EXPECT_EQ(rest.blocks[k].begin, all.blocks[i + k].begin);
      EXPECT_EQ(rest.blocks[k].ends_document, all.blocks[i + k].ends_document);
    }
  }
  for (const TextBlock& block : all.blocks) {
    if (block.json) continue;
    EXPECT_EQ(block.begins_document, block.begin.offset == 0);
  }
}

TEST(TextBlocks, WholeDocumentsOnRequest) {
  const TempDir folder;
  const std::string text = random_text(30000);
  write_plain_file(folder.file("a.txt"), text);
  const TextBlockOptions whole{.block_bytes = 1000, .cut_documents = false};
  const Read read = read_blocks({folder.file("a.txt")}, whole);
  ASSERT_EQ(read.blocks.size(), 1u);
  EXPECT_EQ(read.text, text);
  const TextBlockOptions small{.block_bytes = 1000, .max_document = 4000, .cut_documents = false};
  EXPECT_TRUE(refused([&] { read_blocks({folder.file("a.txt")}, small); }, folder.file("a.txt:1"), {4000}));
}

TEST(TextBlocks, LongLinesAreNamed) {
  const TempDir folder;
  write_plain_file(folder.file("a.jsonl"), "{}\n" + std::string(5000, ' '));
  const TextBlockOptions small{.block_bytes = 100, .max_document = 1000};
  EXPECT_TRUE(
      refused([&] { read_blocks({folder.file("a.jsonl")}, small); }, folder.file("a.jsonl:2"), {1000}));
}

TEST(TextBlocks, FindsFilesByFolderAndPattern) {
  const TempDir folder;
  std::filesystem::create_directories(folder.file("deep"));
  for (const char* name : {"b.txt", "a.jsonl.gz", "deep/c.md", "d.bin"})
    write_plain_file(folder.file(name), "x");
  const auto taken = [&](const std::vector<std::string>& given) {
    std::vector<std::string> out;
    for (const std::string& path : find_text_files(given).files)
      out.push_back(path.substr(folder.path().size() + 1));
    return out;
  };
  EXPECT_EQ(taken({folder.path()}), (std::vector<std::string>{"a.jsonl.gz", "b.txt", "deep/c.md"}));
  EXPECT_EQ(taken({folder.file("*.bin"), folder.file("b.txt"), folder.file("?.txt")}),
            (std::vector<std::string>{"d.bin", "b.txt"}));
  EXPECT_TRUE(names(find_text_files({folder.path()}).notes, {folder.path(), 3, 1, "d.bin"}));
  // Skips runs that were created in the folder of their text, and hidden folders of other programs.
  for (const char* name :
       {"run-7/config.json", "run-7/metrics.jsonl", "run-7/last/README.md", ".cache/e.txt", "a/f.txt"}) {
    std::filesystem::create_directories(std::filesystem::path(folder.file(name)).parent_path());
    write_plain_file(folder.file(name), "{}");
  }
  EXPECT_EQ(taken({folder.path()}),
            (std::vector<std::string>{"a.jsonl.gz", "a/f.txt", "b.txt", "deep/c.md"}));
  EXPECT_TRUE(names(find_text_files({folder.path()}).notes, {folder.path(), 4, 1, ".cache", "run-7"}));
  for (const std::string& none : {folder.file("*.none"), folder.file("missing.txt")})
    EXPECT_TRUE(names(error_of([&] { taken({none}); }), {none}));
  EXPECT_TRUE(names(error_of([&] { find_text_files({}); }), {"`data`"}));
  for (const char* name : {"a.py", "b.CPP", "c.tar.d/Makefile", "d.js.gz", "README"})
    EXPECT_TRUE(is_code_name(name)) << name;
  for (const char* name : {"a.json", "b.csv", "c.png", "d.safetensors", ".py", "py", "e.bin"})
    EXPECT_FALSE(is_code_name(name)) << name;
  EXPECT_TRUE(is_json_lines("x.jsonl.zst"));
  EXPECT_TRUE(is_json_lines("X.JSONL.GZ"));
  EXPECT_TRUE(is_text_name("B.TXT"));
  EXPECT_FALSE(is_json_lines("x.json.gz"));
}

TEST(TextBlocks, FoldersGiveWhatAFilterTakes) {
  const TempDir folder;
  for (const char* name : {"a.txt", "b.py", "src/c.py", "src/d.rs", "src/old/e.py", "f.png", ".g.py"}) {
    std::filesystem::create_directories(std::filesystem::path(folder.file(name)).parent_path());
    write_plain_file(folder.file(name), "x");
  }
  const auto taken = [&](const FolderFilter& filter) {
    std::vector<std::string> out;
    for (const std::string& path : find_text_files({folder.path()}, nullptr, filter).files)
      out.push_back(path.substr(folder.path().size() + 1));
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(taken({}), (Names{"a.txt", "b.py", "src/c.py", "src/d.rs", "src/old/e.py"}));
  EXPECT_EQ(taken({.include = {"*.py"}}), (Names{".g.py", "b.py", "src/c.py", "src/old/e.py"}));
  EXPECT_EQ(taken({.include = {"src/*.py", "*.png"}}), (Names{"f.png", "src/c.py", "src/old/e.py"}));
  EXPECT_EQ(taken({.include = {"[ab].*"}}), (Names{"a.txt", "b.py"}));
  EXPECT_EQ(taken({.exclude = {"src"}}), (Names{"a.txt", "b.py"}));
  EXPECT_EQ(taken({.exclude = {"src/old", "*.txt"}}), (Names{"b.py", "src/c.py", "src/d.rs"}));
  EXPECT_EQ(taken({.include = {"*.py"}, .exclude = {".*", "old"}}), (Names{"b.py", "src/c.py"}));
  EXPECT_TRUE(names(error_of([&] { taken({.include = {"*.go"}}); }), {folder.path(), "*.go"}));
  const TextFiles named = find_text_files({folder.file("f.png")}, nullptr, {.include = {"*.py"}});
  EXPECT_EQ(named.files, Names{folder.file("f.png")}) << "a file that is named is taken";
}

// Files are identified by their location and not by their name.
TEST(TextBlocks, FilesNamedTwiceAreTakenOnce) {
  namespace fs = std::filesystem;
  const TempDir folder;
  for (const char* name : {"a.txt", "b.txt"})
    write_plain_file(folder.file(name), "x");
  fs::create_symlink("a.txt", folder.file("c.txt"));
  const std::string again = folder.path() + "/./b.txt";
  NamedFiles named;
  const TextFiles found = find_text_files({folder.path(), again}, &named);
  EXPECT_EQ(found.files, (std::vector<std::string>{folder.file("a.txt"), folder.file("b.txt")}));
  for (const std::string& name : {folder.file("c.txt"), again})
    EXPECT_TRUE(names(found.notes, {name}));
  EXPECT_TRUE(find_text_files({folder.file("b.txt")}, &named).files.empty());
}

// A byte order mark is removed, also in compressed files. Other unusual content is reported.
TEST(TextBlocks, MarksAndUnusualTextAreTold) {
  const TempDir folder;
  const std::string mark = "\xef\xbb\xbf";
  write_plain_file(folder.file("a.txt"), mark + "one\r\ntwo\r\n\r");
  write_plain_file(folder.file("b.txt.gz"), gzip(mark + "three"));
  write_plain_file(folder.file("c.jsonl.zst"), zstd(mark + "{\"text\":\"four\"}\r\n"));
  write_plain_file(folder.file("d.txt"), mark);
  write_plain_file(folder.file("e.txt"), mark + "ab\xff");
  write_plain_file(folder.file("f.txt"), "a" + mark);
  const auto files = find_text_files({folder.path()}).files;
  const Read read = read_blocks(files, {});
  EXPECT_EQ(read.text,
            "one\r\ntwo\r\n\rthree{\"text\":\"four\"}\r\nab\xff"
            "a" +
                mark);
  EXPECT_EQ(read.blocks[1].begin, (TextPosition{.file = 1}));
  EXPECT_EQ(read_blocks(files, {}, &read.blocks[1].begin).text, read.text.substr(read.text.find("three")));
  TextNotes notes;
  for (const TextBlock& block : read.blocks)
    notes.add(files[static_cast<size_t>(block.begin.file)], text_facts(block));
  const std::string told = notes.lines();
  const auto lines = lines_of(told);
  ASSERT_EQ(lines.size(), 3u) << told;
  EXPECT_TRUE(names(lines[0], {folder.file("a.txt"), 3}));
  EXPECT_TRUE(names(lines[1], {folder.file("a.txt"), 2, "CRLF"}));
  EXPECT_TRUE(names(lines[2], {folder.file("e.txt"), 5, "UTF-8"}));
  EXPECT_TRUE(refused([&] { require_utf8(read.blocks[3], "e.txt"); }, "e.txt:1", {5, "0xff"}));
}

// A file that is not text is refused by its actual format, independent of its name.
TEST(TextBlocks, OtherFilesAreNamed) {
  using namespace std::string_literals;
  const TempDir folder;
  const auto refusal = [&](const std::string& name, const std::string& bytes, bool any_bytes = true) {
    write_plain_file(folder.file(name), bytes);
    TextBlocks blocks({folder.file(name)}, {.any_bytes = any_bytes});
    TextBlock block;
    const std::string message = error_of([&] { blocks.next(block); });
    EXPECT_TRUE(message == "no error" || names(message, {folder.file(name)}));
    return message;
  };
  const std::string tail = "\0 and so on"s;
  const std::pair<std::string, std::string> kinds[] = {
      {"PAR1" + tail, "Parquet"},
      {"PK\3\4" + tail, "zip"},
      {"%PDF-1.7" + tail, "PDF"},
      {"\x7f\x45LF" + tail, "ELF"},
      {"SQLite format 3" + tail, "SQLite"},
      {"BZh91AY&SY" + tail, "bzip2"},
      {"\xfd\x37zXZ\0"s + tail, "xz"},
      {"\x89PNG\r\n" + tail, "PNG"},
      {"GPTTOKEN" + tail, "GPTTOKEN"},
      {"GGUF" + tail, "GGUF"},
      {"\x10\0\0\0\0\0\0\0{\"a\":1}"s, "safetensors"},
      {"\xff\xfeh\0i\0"s, "UTF-16"},
      {std::string(257, 'a') + "ustar" + tail, "tar"},
      {gzip(gzip("text")), "gzip"},
  };
  for (const auto& [bytes, kind] : kinds) {
    for (const std::string name : {"a.txt", "a.jsonl", "a"}) {
      EXPECT_TRUE(names(refusal(name, bytes), {kind}));
      EXPECT_TRUE(names(refusal(name, gzip(bytes)), {kind}));
    }
  }
  for (const char* name :
       {"a.csv", "a.tsv", "a.CSV", "a.json", "a.csv.gz", "a.parquet", "a.bin", "a.txt.gz"}) {
    const bool packed = std::string_view(name) == "a.csv.gz";
    EXPECT_NE(refusal(name, packed ? gzip("a,b\n") : "a,b\n"), "no error") << name;
  }
  // Data of unknown format is only accepted if the tokenizer supports arbitrary bytes.
  EXPECT_TRUE(names(refusal("a.txt", "ab\0cd"s, false), {2, "`tokenizer`"}));
  EXPECT_EQ(refusal("a.txt", "ab\0cd"s, true), "no error");
  for (const char* text :
       {"PKzip was a program", "MZ", "BZh9 is a header", "RIFF raff", "GIF", "II", "a ftyp"})
    EXPECT_EQ(refusal("a.txt", text, false), "no error") << text;
}

TEST(TextBlocks, MisnamedGzipIsRead) {
  const TempDir folder;
  write_plain_file(folder.file("a.txt"), gzip("some text"));
  write_plain_file(folder.file("b.jsonl"), zstd("{\"text\":\"x\"}\n"));
  EXPECT_EQ(read_blocks({folder.file("a.txt"), folder.file("b.jsonl")}, {}).text,
            "some text{\"text\":\"x\"}\n");
}

// A dangling link with the name of a text file is an error. A link to a folder is skipped and reported.
TEST(TextBlocks, LinksInFolders) {
  namespace fs = std::filesystem;
  const TempDir folder;
  write_plain_file(folder.file("a.txt"), "x");
  fs::create_directory_symlink(folder.path(), folder.file("round"));
  const TextFiles found = find_text_files({folder.path()});
  EXPECT_EQ(found.files.size(), 1u);
  EXPECT_TRUE(names(found.notes, {folder.path(), "round"}));
  fs::create_symlink("loop.txt", folder.file("loop.txt"));
  for (const std::string& path : {folder.path(), folder.file("loop.txt")})
    EXPECT_TRUE(names(error_of([&] { find_text_files({path}); }), {folder.file("loop.txt")}));
  fs::remove(folder.file("loop.txt"));
  fs::create_symlink("nothing", folder.file("gone.txt"));
  EXPECT_TRUE(names(error_of([&] { find_text_files({folder.path()}); }), {folder.file("gone.txt")}));
}

TEST(TextBlocks, ModelFoldersAreNoText) {
  for (const char* kind : {"config.json", "adapter_config.json"}) {
    const TempDir folder;
    for (const char* name : {kind, "model.safetensors", "merges.txt"})
      write_plain_file(folder.file(name), "x");
    EXPECT_TRUE(refused([&] { find_text_files({folder.path()}); }, folder.path()));
  }
}

TEST(ByteStream, FilesThatChangeWhileTheyAreReadAreNamed) {
  const TempDir folder;
  write_plain_file(folder.file("a.txt"), std::string(100, 'x'));
  const auto stream = open_byte_stream(folder.file("a.txt"));
  std::string part(50, '\0');
  stream->read(part);
  write_plain_file(folder.file("a.txt"), std::string(60, 'y'));
  part.resize(100);
  EXPECT_TRUE(refused([&] { stream->read(part); }, folder.file("a.txt"), {100, 60}));
}

TEST(TextBlocks, BadUtf8IsFound) {
  const TempDir folder;
  write_plain_file(folder.file("a.txt"), "one\ntwo\nthr\xff\x65");
  TextBlocks blocks({folder.file("a.txt")});
  TextBlock block;
  ASSERT_TRUE(blocks.next(block));
  EXPECT_TRUE(refused([&] { require_utf8(block, "a.txt"); }, "a.txt:3", {11, "0xff"}));
}

std::string text_of(const std::string& line) {
  return json_line_text(line, "text", "f:7");
}

TEST(JsonLine, TakesOneField) {
  EXPECT_EQ(text_of(R"({"text":"a\u00e9\n"})"), "a\u00e9\n");
  EXPECT_EQ(text_of(R"({"id":3,"meta":{"text":"no","x":[1,2,{"y":null}]},"text":"yes","f":1.5,"b":true})"),
            "yes");
  EXPECT_EQ(text_of(R"( {"text":""} )"), "");
  EXPECT_EQ(text_of(R"({"text":"\ud83d\ude42"})"), "\U0001F642");
}

TEST(JsonLine, NamesThePlaceOfEveryMistake) {
  for (const std::string bad :
       {"", "x", "3", "\"text\"", "[]", "[{\"text\":\"a\"}]", "null", "{}", R"({"txt":"a"})", R"({"text":3})",
        R"({"text":null})", R"({"text":["a"]})", R"({"text":{"text":"a"}})", R"({"text":"a")",
        R"({"text":"a"}})", R"({"text":"a","text":"b"})", R"({"text":"\ud800"})", "{\"text\":\"\xff\"}",
        R"({"text":"a"}{"text":"b"})"}) {
    EXPECT_TRUE(refused([&] { text_of(bad); }, "f:7")) << bad;
  }
  EXPECT_TRUE(refused([] { text_of(R"({"Text":"a"})"); }, "f:7", {"text", "Text", "`field`"}));
  EXPECT_TRUE(refused([] { text_of(R"({"id":"7","story":"a","n":1})"); }, "f:7",
                      {"\"id\"", "\"story\"", "\"n\"", "`field`"}));
  EXPECT_TRUE(refused([] { text_of(R"({"id":7,"content":"a"})"); }, "f:7", {"`field` \"content\""}))
      << "the only text";
  EXPECT_TRUE(refused([] { json_line_text(R"({"text":"a"})", "content", "f:7"); }, "f:7",
                      {"content", "\"text\"", "`data`", "`val_data`"}));
  EXPECT_TRUE(refused([] { json_line_text(R"({"meta":{"text":"a"}})", "meta.text", "f:7"); }, "f:7",
                      {"meta.text", "\"meta\"", "`field`"}));
  EXPECT_EQ(json_line_text(R"({"meta.text":"a"})", "meta.text", "f:7"), "a") << "as datasets flattens it";
  const std::string deep = "{\"text\":\"a\",\"x\":" + std::string(1000000, '[');
  EXPECT_TRUE(refused([&] { text_of(deep); }, "f:7", {32}));
  EXPECT_TRUE(refused([] { text_of("{\"text\":" + std::string(40, '[')); }, "f:7", {"text"}));
}

TEST(JsonLine, LinesAreCounted) {
  const TextBlock block{.text = "{\"text\":\"a\"}\n\n  \r\n{\"text\":\"b\"}\n{\"text\":1}\n",
                        .begin = {.line = 10},
                        .json = true};
  std::string seen;
  EXPECT_TRUE(refused(
      [&] { for_each_json_text(block, "p", "text", [&](std::string_view text, int64_t) { seen += text; }); },
      "p:14", {"text"}));
  EXPECT_EQ(seen, "ab");
}

}  // namespace
}  // namespace gpt
