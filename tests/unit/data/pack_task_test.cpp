// Tests that packing with several tasks gives the same bytes as packing with one, after any interruption.
// Missing parts are reported.

#include "data/pack_task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/rng.h"
#include "data/pack_piece.h"
#include "data/shard_set.h"
#include "data/text_blocks.h"
#include "support/compress.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"
#include "text/tasks_folder.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::names;
using test::refused;
using test::TempDir;
using test::write_plain_file;
using Files = std::map<std::string, std::string>;

struct Stop {};

// Returns the names and contents of the files in a folder, without subfolders.
Files contents(const std::string& folder) {
  Files files;
  for (const FolderEntry& entry : list_folder(folder)) {
    if (entry.kind == PathKind::file) files[entry.name] = read_file(folder + "/" + entry.name);
  }
  return files;
}

class Tasks : public testing::Test {
 protected:
  void SetUp() override {
    std::string lines;
    for (int i = 0; i < 70; ++i)
      lines += "{\"text\":\"" + words(random_.below(300)) + "\"}\n";
    write_plain_file(text_.file("a.jsonl"), lines);
    write_plain_file(text_.file("b.jsonl.gz"), test::gzip(lines.substr(0, lines.find('\n', 5000) + 1)));
    write_plain_file(text_.file("c.jsonl.zst"), test::zstd("{\"text\":\"\"}\n" + lines));
    write_plain_file(text_.file("d.txt"), "");
    write_plain_file(text_.file("e.txt"), words(9000));
    write_plain_file(text_.file("f.txt"), "the end");
    write_plain_file(text_.file("g.txt"), "");
    options_ = {.files = find_text_files({text_.path()}).files,
                .out = out_,
                .shard_tokens = 3000,
                .document_token = 0,
                .block_bytes = 700};
  }

  std::string words(size_t bytes) {
    std::string text(bytes, ' ');
    for (char& c : text)
      c = random_.below(6) == 0 ? ' ' : static_cast<char>('a' + random_.below(26));
    return text;
  }

  Files one() {
    PackOptions options = options_;
    options.out = folder_.file("one");
    ThreadPool pool(2);
    pack_tokens(*tokenizer_, options, pool);
    return contents(options.out);
  }
  // Runs a task and interrupts it after `batches` batches of blocks. -1: runs to the end.
  PackStats task(int64_t number, int64_t count, int batches = -1) {
    ThreadPool pool(1 + static_cast<int>(number % 2));
    return pack_task(*tokenizer_, options_, {number, count}, pool, [&](const PackProgress&) {
      if (batches >= 0 && --batches < 0) throw Stop{};
    });
  }
  void all_tasks(int64_t count) {
    for (int64_t number = count; number >= 1; --number)
      task(number, count);
  }
  PackStats merge() {
    const PackStats stats = merge_tasks(plan_merge(out_));
    remove_tasks(out_);
    return stats;
  }
  std::string of_task(int64_t number, int64_t count, const std::string& name) const {
    return task_folder(out_, {number, count}) + "/" + name;
  }
  // Sets a modification time later than that of all other files of the test.
  static void touch(const std::string& path) {
    fs::last_write_time(path, fs::file_time_type::clock::now() + std::chrono::hours(1));
  }

  RandomStream random_{11, RandomSite::test};
  TempDir text_, folder_;
  std::string out_ = folder_.file("shards");
  std::unique_ptr<Tokenizer> tokenizer_ = make_byte_tokenizer();
  PackOptions options_;
};

TEST_F(Tasks, AnyNumberGivesTheBytesOfOne) {
  for (const ShardFormat format : {ShardFormat::gpt, ShardFormat::llmc}) {
    options_.format = format;
    options_.document_token = format == ShardFormat::gpt ? 0 : -1;
    fs::remove_all(folder_.file("one"));
    const Files expected = one();
    for (const int64_t count : {1, 3, 20}) {
      SCOPED_TRACE(count);
      fs::remove_all(out_);
      all_tasks(count);
      const PackStats stats = merge();
      EXPECT_EQ(contents(out_), expected);
      EXPECT_FALSE(fs::exists(out_ + "/" + kTasksFolder));
      EXPECT_EQ(open_shard_set(out_).tokens(), stats.tokens);
    }
  }
}

TEST_F(Tasks, OneLargeFileIsShared) {
  for (const char* name : {"a.jsonl", "b.jsonl.gz", "c.jsonl.zst", "e.txt"}) {
    options_.files = {text_.file(name)};
    fs::remove_all(out_);
    fs::remove_all(folder_.file("one"));
    int64_t tokens = 0, largest = 0;
    for (int64_t number = 1; number <= 4; ++number) {
      const int64_t n = task(number, 4).tokens;
      largest = std::max(largest, n);
      tokens += n;
    }
    EXPECT_LT(largest, tokens / 2) << name;
    merge();
    EXPECT_EQ(contents(out_), one());
  }
}

// Tasks can be interrupted after any batch of blocks, like a killed process. The next run of a task continues
// it.
TEST_F(Tasks, InterruptedTasksGoOn) {
  const Files expected = one();
  for (int batches = 0; batches < 5; ++batches) {
    SCOPED_TRACE(batches);
    fs::remove_all(out_);
    for (int64_t number = 1; number <= 3; ++number) {
      for (int time = 0; time < 2; ++time) {
        try {
          task(number, 3, batches);
        } catch (const Stop&) {
          if (time == 1) {
            EXPECT_TRUE(refused([&] { merge(); }, out_, {4 - number, 3, "--task " + task_name({number, 3})}));
          }
        }
      }
      task(number, 3);
    }
    const PackStats again = task(1, 3);
    EXPECT_EQ(again.shards_before, again.shards);
    merge();
    EXPECT_EQ(contents(out_), expected);
  }
}

TEST_F(Tasks, AnInterruptedMergeGoesOn) {
  const Files expected = one();
  for (int64_t keep = 0; keep < std::ssize(expected) - 3; keep += 4) {
    fs::remove_all(out_);
    all_tasks(4);
    try {
      merge_tasks(plan_merge(out_), [&](const PackProgress& p) {
        if (p.stats.shards >= keep) throw Stop{};
      });
    } catch (const Stop&) {
      EXPECT_TRUE(refused([&] { open_shard_set(out_); }, out_, {4, "--merge"}));
    }
    EXPECT_GE(merge().shards_before, keep);
    EXPECT_EQ(contents(out_), expected);
  }
}

// A merge rebuilds a shard from the tasks if it was damaged between two merge attempts.
TEST_F(Tasks, AnInterruptedMergeRepairsItsShards) {
  const Files expected = one();
  all_tasks(4);
  try {
    merge_tasks(plan_merge(out_), [](const PackProgress& p) {
      if (p.stats.shards >= 9) throw Stop{};
    });
  } catch (const Stop&) {
  }
  fs::remove(out_ + "/shard-00007.bin");
  write_plain_file(out_ + "/shard-00003.bin", "x");
  EXPECT_EQ(merge().mended.size(), 2u);
  EXPECT_EQ(contents(out_), expected);
}

// After a kill between the last shard and the end of removing the task folders, the next call completes the
// removal.
TEST_F(Tasks, AnInterruptedRemovalGoesOn) {
  const Files expected = one();
  all_tasks(3);
  merge_tasks(plan_merge(out_));
  EXPECT_EQ(error_of([&] { open_shard_set(out_); }), "no error");
  fs::remove_all(task_folder(out_, {1, 3}));
  fs::remove(of_task(2, 3, kPackStateFile));
  EXPECT_EQ(merge().shards_before, open_shard_set(out_).shards.size());
  EXPECT_EQ(contents(out_), expected);
  EXPECT_FALSE(fs::exists(out_ + "/" + kTasksFolder));
  EXPECT_NO_THROW(merge());  // nothing to do
  EXPECT_TRUE(refused([&] { task(2, 3); }, out_, {"`out`"}));
}

TEST_F(Tasks, WhatIsMissingIsNamed) {
  EXPECT_TRUE(refused([&] { merge(); }, out_, {"--task 1/N"}));
  task(3, 3);
  try {
    task(1, 3, 1);
  } catch (const Stop&) {
  }
  EXPECT_TRUE(refused([&] { merge(); }, out_, {2, 3, "1/3", "2/3", "--task 1/3"}));
  ThreadPool pool(1);
  EXPECT_TRUE(refused([&] { pack_tokens(*tokenizer_, options_, pool); }, out_, {3, "--merge"}));
  EXPECT_TRUE(refused([&] { open_shard_set(out_); }, out_, {3, "--out " + out_, "--merge"}));
  EXPECT_TRUE(refused([&] { task(2, 4); }, out_, {3, "`task` I/3", "`task` 2/4"}));
}

TEST_F(Tasks, TasksOfSomethingElseAreNamed) {
  all_tasks(3);
  PackOptions other = options_;
  const auto again = [&](const std::string& what) {
    std::swap(options_, other);
    EXPECT_TRUE(refused([&] { task(2, 3); }, "task 2/3", {out_, what}));
    options_.restart = true;
    task(2, 3);
    options_.restart = false;
    std::swap(options_, other);
    EXPECT_TRUE(refused([&] { merge(); }, "task 2/3", {out_, what, "1/3"}));
    other = options_;
  };
  other.document_token = -1;
  again("document_token");
  other.files.pop_back();
  again("`data`");
  std::unique_ptr<Tokenizer> byte =
      std::exchange(tokenizer_, make_char_tokenizer("abcdefghijklmnopqrstuvwxyz ,{}\":\n"));
  again("`tokenizer`");
  tokenizer_ = std::move(byte);
}

// The problem is detected when a task begins, before any work.
TEST_F(Tasks, ATaskThatCannotBeMergedIsRefused) {
  task(1, 3);
  const auto before = std::exchange(options_.document_token, -1);
  EXPECT_TRUE(refused([&] { task(2, 3); }, "task 1/3", {out_, "document_token", 0, -1, "2/3"}));
  EXPECT_FALSE(fs::exists(of_task(2, 3, "shard-00000.bin")));
  options_.document_token = before;
  task(2, 3);
  const std::vector<std::string> missing = missing_tasks(out_);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_TRUE(names(missing[0], {"3/3"}));
}

TEST_F(Tasks, TextThatChangesIsNamed) {
  all_tasks(2);
  touch(options_.files[4]);
  EXPECT_TRUE(refused([&] { merge(); }, text_.file("e.txt"), {file_bytes(text_.file("e.txt"))}));
  EXPECT_TRUE(refused([&] { task(2, 2); }, "task 2/2", {out_}));
  options_.restart = true;
  task(2, 2);
  EXPECT_TRUE(refused([&] { merge(); }, "task 2/2", {out_, "1/2"}));
  task(1, 2);
  merge();
  EXPECT_EQ(contents(out_), one());
}

// The size and time of the file do not reveal the change.
TEST_F(Tasks, TextThatChangedUnseenIsNotMixedIn) {
  options_.files = {text_.file("a.jsonl")};
  task(1, 2);
  const auto time = fs::last_write_time(options_.files[0]);
  std::string text = read_file(options_.files[0]);
  const size_t at = text.find('\n', 3000) + 1, next = text.find('\n', at) + 1;
  text = text.substr(next) + text.substr(0, next);
  write_plain_file(options_.files[0], text);
  fs::last_write_time(options_.files[0], time);
  task(2, 2);
  EXPECT_TRUE(names(error_of([&] { merge(); }), {options_.files[0], "`restart`"}));
}

TEST_F(Tasks, DamageIsNamedAndRepaired) {
  const Files expected = one();
  all_tasks(3);
  const Files good = contents(task_folder(out_, {2, 3}));
  ASSERT_GT(good.size(), 6u);
  for (int i = 0; i < 40; ++i) {
    auto file = good.begin();
    std::advance(file, random_.below(good.size()));
    SCOPED_TRACE(file->first);
    std::string bytes = file->second;
    const size_t at = random_.below(bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1 + random_.below(255)));
    if (i % 3 == 1) bytes.resize(at);
    write_plain_file(of_task(2, 3, file->first), bytes);
    if (i % 3 == 2) fs::remove(of_task(2, 3, file->first));
    for (const auto& [name, content] : contents(out_))  // of an earlier merge
      fs::remove(out_ + "/" + name);
    // The merge reads the tokenizer from the first task.
    if (file->first != kPackTokenizerFile) {
      EXPECT_TRUE(names(error_of([&] { merge(); }), {i % 3 == 2 ? "2/3" : "2-of-3"}));
    }
    task(2, 3);
    EXPECT_EQ(contents(task_folder(out_, {2, 3})), good);
    if (HasFailure()) return;
  }
  merge();
  EXPECT_EQ(contents(out_), expected);
}

TEST_F(Tasks, WhatOthersPutThereStays) {
  all_tasks(2);
  write_plain_file(of_task(1, 2, "notes.txt"), "mine");
  write_plain_file(out_ + "/.tasks/mine.txt", "mine");
  fs::create_directory(out_ + "/.tasks/01-of-2");
  merge();
  EXPECT_EQ(contents(task_folder(out_, {1, 2})), (Files{{"notes.txt", "mine"}}));
  EXPECT_EQ(contents(out_ + "/.tasks"), (Files{{"mine.txt", "mine"}}));
  EXPECT_FALSE(fs::exists(task_folder(out_, {2, 2})));
}

TEST(TaskShare, EveryBlockHasOneTask) {
  const TempDir folder;
  std::vector<std::string> files;
  for (const size_t size : {5000u, 0u, 1u, 300u, 90000u, 10u, 0u}) {
    files.push_back(folder.file(std::to_string(files.size())));
    write_plain_file(files.back(), std::string(size, 'x'));
  }
  for (const int64_t count : {1, 2, 7, 500}) {
    std::vector<TaskShare> shares;
    for (int64_t number = 1; number <= count; ++number)
      shares.emplace_back(files, PackTask{number, count});
    std::vector<int64_t> blocks(shares.size());
    for (int64_t file = 0; file < std::ssize(files); ++file) {
      for (int64_t block = 0; block < 1000; ++block) {
        int owners = 0;
        for (size_t i = 0; i < shares.size(); ++i) {
          if (!shares[i].has(file, block)) continue;
          ++owners;
          blocks[i] += file == 4 ? 1 : 0;
          EXPECT_TRUE(std::ranges::binary_search(shares[i].files(), file));
        }
        ASSERT_EQ(owners, 1) << file << " " << block << " of " << count;
      }
    }
    // One file has 90000 of 95311 bytes. Tasks that only read this file get an equal share of its blocks.
    if (count != 7) continue;
    for (size_t i = 1; i < 6; ++i)
      EXPECT_NEAR(static_cast<double>(blocks[i]), 1000 * (95311.0 / 7) / 90000, 3);
  }
}

TEST(PackTask, NamesAreChecked) {
  EXPECT_EQ(parse_pack_task("3/8"), (PackTask{3, 8}));
  EXPECT_EQ(parse_pack_task("500/500"), (PackTask{500, 500}));
  for (const char* bad :
       {"", "3", "0/8", "9/8", "-1/8", "3/8/9", "3/", "/8", "1/501", "a/b", " 3/8", "3/8 ", "3.0/8"})
    EXPECT_TRUE(test::refused_parameter([&] { parse_pack_task(bad); }, "task", {"I/N", 500})) << bad;
}

}  // namespace
}  // namespace gpt
