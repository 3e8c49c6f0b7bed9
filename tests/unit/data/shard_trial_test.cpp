// Damages packed folders in many ways. Readers must detect each kind of damage, and packing again must repair
// it.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/rng.h"
#include "data/pack.h"
#include "data/shard_check.h"
#include "data/shard_set.h"
#include "data/text_blocks.h"
#include "data/token_data.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::names;
using test::refused;
using test::TempDir;
using test::write_plain_file;

constexpr int kTrials = 200;
constexpr int64_t kShardTokens = 1000;

enum class Damage { remove, cut, empty, header, ids, swap, magic, gap, stranger, state, state_cut, count };

class ShardTrial : public testing::TestWithParam<ShardFormat> {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 9700; ++i)
      text += static_cast<char>('a' + random_.below(26));
    write_plain_file(folder_.file("a.txt"), text);
    pack();
    for (const FolderEntry& entry : list_folder(out_))
      good_[entry.name] = read_file(file(entry.name));
  }

  PackStats pack() {
    ThreadPool pool(1);
    return pack_tokens(*make_byte_tokenizer(),
                       {.files = find_text_files({folder_.file("a.txt")}).files,
                        .out = out_,
                        .format = GetParam(),
                        .shard_tokens = kShardTokens,
                        .block_bytes = 700},
                       pool);
  }
  std::string file(const std::string& name) const { return out_ + "/" + name; }
  std::string any_shard() { return shard_file_name(static_cast<int64_t>(random_.below(10))); }
  size_t header() const { return GetParam() == ShardFormat::gpt ? 128 : 1024; }

  void change_byte(const std::string& name, size_t begin, size_t end) {
    std::string bytes = good_[name];
    const size_t at = begin + random_.below(end - begin);
    bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1 + random_.below(255)));
    write_plain_file(file(name), bytes);
  }

  // Damages the folder. Returns true if the damage is visible without reading the ids.
  bool damage(Damage kind) {
    const std::string name = any_shard();
    const std::string& bytes = good_[name];
    switch (kind) {
      case Damage::remove:
        fs::remove(file(name));
        break;
      case Damage::cut:
        write_plain_file(file(name), bytes.substr(0, 1 + random_.below(bytes.size() - 1)));
        break;
      case Damage::empty:
        write_plain_file(file(name), "");
        break;
      case Damage::header:  // the header of llm.c is empty after its third number
        change_byte(name, 0, GetParam() == ShardFormat::gpt ? header() : 12);
        break;
      case Damage::ids:
        change_byte(name, header(), bytes.size());
        return false;
      case Damage::swap: {
        std::string other = any_shard();
        while (other == name)
          other = any_shard();
        write_plain_file(file(name), good_[other]);
        write_plain_file(file(other), bytes);
        return GetParam() == ShardFormat::gpt || good_[other].size() != bytes.size();
      }
      case Damage::magic:
        change_byte(name, 0, 4);
        break;
      case Damage::gap:
        fs::rename(file(name), file("shard-00077.bin"));
        break;
      case Damage::stranger:
        write_plain_file(file("more.bin"), random_.below(2) == 0 ? bytes : "something");
        break;
      case Damage::state:
        change_byte(kPackStateFile, 0, good_[kPackStateFile].size());
        break;
      default:
        write_plain_file(file(kPackStateFile),
                         good_[kPackStateFile].substr(0, random_.below(good_[kPackStateFile].size() - 2)));
    }
    return true;
  }

  // Returns the error that `gpt data verify` finds, or an empty string.
  std::string verify() {
    const ShardSet set = open_shard_set(out_);
    for (size_t i = 0; i < set.shards.size(); ++i) {
      const std::string what = damaged_ids(set.shards[i], set.checksums[i]);
      if (what.empty()) continue;
      EXPECT_TRUE(names(what, {fmt::format("{:016x}", set.checksums[i].value())}));
      return what;
    }
    return "";
  }
  // Returns the error that a training run finds in the background.
  std::string check_in_background() {
    const ShardSet set = open_shard_set(out_);
    std::vector<CheckedBytes> shards;
    for (size_t i = 0; i < set.shards.size(); ++i)
      shards.push_back({set.shards[i].name(), set.shards[i].ids_offset(), set.shards[i].ids().size(),
                        set.checksums[i], set.shards[i].stamp()});
    ShardCheck check(shards);
    return error_of([&] { check.finish(60); });
  }

  void expect_whole() {
    EXPECT_EQ(error_of([&] { open_shard_set(out_); }), "no error");
    for (const auto& [name, bytes] : good_) {
      // The repaired shards are identical. A damaged state file may be repaired with different but equivalent
      // content.
      EXPECT_TRUE(name == kPackStateFile || read_file(file(name)) == bytes) << name;
    }
    EXPECT_EQ(verify(), "");
    EXPECT_EQ(check_in_background(), "no error");
  }

  TempDir folder_;
  std::string out_ = folder_.file("shards");
  RandomStream random_{7, RandomSite::test};
  std::map<std::string, std::string> good_;
};

INSTANTIATE_TEST_SUITE_P(Formats, ShardTrial, testing::Values(ShardFormat::gpt, ShardFormat::llmc),
                         [](const auto& info) { return info.param == ShardFormat::gpt ? "gpt" : "llmc"; });

TEST_P(ShardTrial, EveryDamageIsFoundAndRepaired) {
  expect_whole();
  for (int i = 0; i < kTrials; ++i) {
    const auto kind = static_cast<Damage>(i % static_cast<int>(Damage::count));
    SCOPED_TRACE("trial " + std::to_string(i) + ", damage " + std::to_string(static_cast<int>(kind)));
    const bool header_tells = damage(kind);
    const std::string found = error_of([&] { open_shard_set(out_); });
    EXPECT_EQ(found != "no error", header_tells) << found;
    if (header_tells) {
      EXPECT_TRUE(names(found, {out_}));
    } else {
      EXPECT_NE(verify(), "");
      EXPECT_TRUE(names(check_in_background(), {out_}));
    }
    PackStats stats;
    ASSERT_EQ(error_of([&] { stats = pack(); }), "no error");
    EXPECT_FALSE(stats.mended.empty());
    EXPECT_GE(stats.shards_before, kind == Damage::swap ? 8 : 9);
    expect_whole();
    if (HasFailure()) return;
    good_[kPackStateFile] = read_file(file(kPackStateFile));
    for (const FolderEntry& entry : list_folder(out_)) {  // files that packing has set aside
      if (!good_.contains(entry.name)) {
        EXPECT_NE(entry.name.find(".unknown"), std::string::npos) << entry.name;
        fs::remove(file(entry.name));
      }
    }
  }
}

// Packs of earlier versions have no list of shards. Such packs can be loaded and repaired, too.
TEST_P(ShardTrial, PacksOfEarlierVersions) {
  PackState state = read_pack_state(out_);
  state.list.clear();
  write_pack_state(out_, state);
  const std::string old = read_file(file(kPackStateFile));
  EXPECT_EQ(error_of([&] { open_shard_set(out_); }), "no error");
  EXPECT_EQ(pack().shards_before, 10);
  EXPECT_EQ(error_of([&] { open_shard_set(out_); }), "no error");
  for (const Damage kind :
       {Damage::remove, Damage::cut, Damage::empty, Damage::header, Damage::magic, Damage::gap}) {
    write_plain_file(file(kPackStateFile), old);
    damage(kind);
    EXPECT_NE(error_of([&] { open_shard_set(out_); }), "no error");
    EXPECT_FALSE(pack().mended.empty());
    EXPECT_TRUE(read_pack_state(out_).has_list());
    fs::remove(file("shard-00077.bin.unknown"));
    expect_whole();
  }
}

// A state with a tokenizer hash but without a list is damaged, because earlier versions wrote neither.
TEST_P(ShardTrial, AListThatWasRemovedIsMissed) {
  nlohmann::json state = nlohmann::json::parse(read_file(file(kPackStateFile)));
  state.erase("list");
  state.erase("checksum");
  write_plain_file(file(kPackStateFile), state.dump());
  EXPECT_TRUE(refused([&] { open_shard_set(out_); }, file(kPackStateFile)));
  EXPECT_FALSE(pack().mended.empty());
  expect_whole();
}

// The file stamp detects that a shard was changed or replaced after it was read. A deleted shard is not
// detected.
TEST_P(ShardTrial, ShardsThatChangeAfterTheirCheckAreNamed) {
  const ShardSet set = open_shard_set(out_);
  ShardCheck check({{set.shards[3].name(), 0, 0, std::nullopt, set.shards[3].stamp()}});
  EXPECT_NO_THROW(check.require_unchanged());
  fs::copy(file("shard-00003.bin"), file("copy"));
  fs::remove(file("shard-00003.bin"));
  EXPECT_NO_THROW(check.require_unchanged());
  fs::rename(file("copy"), file("shard-00003.bin"));
  EXPECT_TRUE(refused([&] { check.require_unchanged(); }, file("shard-00003.bin")));
}

TEST_P(ShardTrial, TextThatIsWrittenAgainIsTold) {
  EXPECT_TRUE(pack().mended.empty());
  fs::last_write_time(folder_.file("a.txt"), fs::file_time_type::clock::now() + std::chrono::hours(1));
  const PackStats stats = pack();
  EXPECT_EQ(stats.shards_before, 10);
  ASSERT_EQ(stats.mended.size(), 1u);
  EXPECT_TRUE(names(stats.mended[0], {folder_.file("a.txt")}));
  EXPECT_TRUE(pack().mended.empty());
  expect_whole();
}

// The text keeps its size. The modification time of the text reveals the change, and the content of the text
// confirms it.
TEST_P(ShardTrial, TextThatChangedIsPackedAgain) {
  std::string text = read_file(folder_.file("a.txt"));
  text[4100] = '!';
  write_plain_file(folder_.file("a.txt"), text);
  fs::last_write_time(folder_.file("a.txt"), fs::file_time_type::clock::now() + std::chrono::hours(1));
  const PackStats stats = pack();
  EXPECT_EQ(stats.shards_before, 9);
  ASSERT_EQ(stats.mended.size(), 1u);
  EXPECT_TRUE(names(stats.mended[0], {folder_.file("a.txt"), 1, 10}));
  EXPECT_EQ(open_shard_set(out_).shards[4].ids16()[100], '!');
  EXPECT_EQ(verify(), "");
  EXPECT_TRUE(pack().mended.empty());
}

TEST_P(ShardTrial, TextThatChangedUnseenIsNotMixedIn) {
  const fs::file_time_type time = fs::last_write_time(folder_.file("a.txt"));
  write_plain_file(folder_.file("a.txt"), std::string(9700, 'x'));
  fs::last_write_time(folder_.file("a.txt"), time);
  fs::remove(file("shard-00004.bin"));
  EXPECT_TRUE(names(error_of([&] { pack(); }), {file("shard-00004.bin"), "`restart`"}));
  EXPECT_FALSE(fs::exists(file("shard-00004.bin")));
}

// tokenizer.json belongs to the set. A missing, damaged or replaced file is detected and written again.
TEST_P(ShardTrial, TokenizersAreCheckedAndRepaired) {
  const std::string path = file(kPackTokenizerFile);
  for (const std::string& wrong : {std::string(), std::string("{"), make_char_tokenizer("ab")->to_json()}) {
    wrong.empty() ? void(fs::remove(path)) : write_plain_file(path, wrong);
    EXPECT_TRUE(refused([&] { open_shard_set(out_); }, path));
    const PackStats stats = pack();
    EXPECT_EQ(stats.shards_before, 10);
    ASSERT_EQ(stats.mended.size(), 1u);
    EXPECT_TRUE(names(stats.mended[0], {path}));
    EXPECT_EQ(fs::exists(path + ".unknown") ? read_file(path + ".unknown") : "", wrong);
    fs::remove(path + ".unknown");
    expect_whole();
  }
  // Earlier versions recorded no tokenizer hash, so a hash is added.
  PackState state = read_pack_state(out_);
  state.tokenizer.clear();
  write_pack_state(out_, state);
  EXPECT_TRUE(pack().mended.empty());
  EXPECT_FALSE(read_pack_state(out_).tokenizer.empty());
}

// --restart replaces the files that pack.json lists and renames other shard files.
TEST_P(ShardTrial, RestartingKeepsStrangers) {
  write_plain_file(file("shard-weights.bin"), "weights");
  write_plain_file(file("shard-00010.bin"), good_["shard-00003.bin"]);
  fs::remove(file("shard-00004.bin"));
  ThreadPool pool(1);
  const PackStats stats = pack_tokens(*make_byte_tokenizer(),
                                      {.files = {folder_.file("a.txt")},
                                       .out = out_,
                                       .format = GetParam(),
                                       .shard_tokens = 2 * kShardTokens,
                                       .restart = true},
                                      pool);
  EXPECT_EQ(stats.shards, 5);
  EXPECT_EQ(read_file(file("shard-weights.bin.unknown")), "weights");
  EXPECT_EQ(read_file(file("shard-00010.bin.unknown")), good_["shard-00003.bin"]);
  EXPECT_EQ(open_shard_set(out_).shards.size(), 5u);
  EXPECT_FALSE(fs::exists(file("shard-00007.bin")));
}

// Shard folders of other programs must have one format and no gaps.
TEST(ForeignShards, GapsAndMixturesAreRefused) {
  const TempDir folder;
  const ShardInfo info{.format = ShardFormat::llmc, .bytes_per_id = 2, .vocab_size = 256};
  const auto write = [&](const std::string& name, const ShardInfo& kind) {
    ShardWriter writer(folder.file(name), kind);
    writer.write(std::vector<int32_t>(10, 7));
    writer.complete();
    writer.publish();
  };
  for (const char* name : {"train_000001.bin", "train_000002.bin", "train_000003.bin", "val_000000.bin"})
    write(name, info);
  write_plain_file(folder.file("notes.txt"), "x");
  const ShardSet set = open_shard_set(folder.path());
  EXPECT_EQ(set.tokens(), 40);
  EXPECT_TRUE(names(set.notes, {folder.path(), 1, "notes.txt"}));
  write("shard-00001.bin", info);  // shards of this program begin with number 0
  EXPECT_TRUE(
      refused([&] { open_shard_set(folder.path()); }, folder.path(), {"shard-…0.bin", "shard-…1.bin"}));
  fs::remove(folder.file("shard-00001.bin"));
  fs::remove(folder.file("train_000002.bin"));
  EXPECT_TRUE(
      refused([&] { open_shard_set(folder.path()); }, folder.path(), {"train_…2.bin", "train_…3.bin"}));
  ShardInfo wide = info;
  wide.bytes_per_id = 4;
  write("train_000002.bin", wide);
  EXPECT_TRUE(refused([&] { open_shard_set(folder.path()); }, folder.file("train_000002.bin"),
                      {folder.file("train_000001.bin")}));
  write_plain_file(folder.file("train_000002.bin"), "damaged");
  EXPECT_TRUE(names(error_of([&] { open_shard_set(folder.path()); }), {folder.file("train_000002.bin")}));
}

}  // namespace
}  // namespace gpt
