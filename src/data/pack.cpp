#include "data/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "data/file_kind.h"
#include "data/pack_before.h"
#include "data/pack_source.h"
#include "data/pack_state.h"
#include "data/shard_set.h"
#include "data/text_blocks.h"
#include "data/token_data.h"
#include "data/unknown_tokens.h"
#include "text/tokenizer_facts.h"

namespace gpt {
namespace {

class Packer {
 public:
  Packer(const Tokenizer& tokenizer, const PackOptions& options, EncodedBlocks& source)
      : tokenizer_(tokenizer),
        options_(options),
        source_(source),
        single_(has_ending(options.out, ".bin")),
        lengths_(text_lengths(tokenizer, options)),
        unknown_(tokenizer) {
    inputs_ = pack_inputs(tokenizer, options);
    state_.inputs = inputs_;
    state_.format = options.format;
    state_.shard_tokens = options.shard_tokens;
    state_.modified = modified(options.files);
  }

  PackStats run(const std::function<void(const PackProgress&)>& progress) {
    const auto start = Clock::now();
    single_ ? prepare_file() : prepare_folder();
    const double total = source_.total();
    while (!state_.done && next_blocks()) {
      for (const EncodedBlock& block : blocks_) {
        unknown_.add(block.ids);
        notes_.add(options_.files[static_cast<size_t>(block.begin.file)], block.facts);
        write(block);
      }
      if (progress) progress({source_.done(), total, stats(start)});
    }
    if (!state_.done) finish();
    if (!single_) remove_file(in_folder(kPackUnfinishedFile));
    return stats(start);
  }

 private:
  PackStats stats(Clock::time_point start) const {
    const PackedShard open = shard_ ? packed_ : PackedShard{};
    PackStats s = {.documents = state_.documents + open.documents,
                   .text_bytes = state_.text_bytes + open.text_bytes,
                   .tokens = state_.tokens + open.tokens,
                   .shards = state_.shards,
                   .empty = empty_,
                   .shards_before = kept_,
                   .mended = mended_,
                   .notes = notes_.lines() + unknown_.note()};
    s.seconds = seconds_since(start);
    return s;
  }
  std::string in_folder(const std::string& name) const { return pack_file(options_.out, name); }
  std::string shard_path(int64_t shard) const {
    return single_ ? options_.out : in_folder(shard_file_name(shard));
  }

  // Prepares the output to a single file. An existing shard is replaced only by an identical shard, or by a
  // different shard if `restart` is set.
  void prepare_file() {
    if (!path_exists(options_.out)) return;
    if (!is_token_shard(options_.out))
      fail("{} is an existing file, but not a token shard; choose another `out`", options_.out);
    compare_ = !options_.restart;
  }

  // Prepares a new folder, or a folder that holds a complete or interrupted run of the same pack.
  void prepare_folder() {
    make_directories(options_.out);
    before_ = look_at_pack(tokenizer_, options_, inputs_);
    compare_ = before_.compare;
    note_tokenizer();
    if (!before_.note.empty()) mended_.push_back(before_.note);
    mend_strangers(before_.problems);
    if (compare_) {
      for (const ShardProblem& problem : before_.problems)
        if (problem.shard == kNoShard && problem.path.empty()) mended_.push_back(problem.what);
    } else if (before_.state) {
      go_on(*before_.state, before_.problems);
    }
  }

  // Called before the first write to the folder. A text that cannot be encoded leaves the folder unchanged.
  void begin() {
    if (begun_ || single_) return;
    begun_ = true;
    mark_unfinished();
    if (compare_) return;
    for (const std::string& path : before_.replaced)
      remove_file(path);
    write_pack_state(options_.out, state_);
    write_tokenizer();
  }

  void mark_unfinished() const {
    write_file_atomic(in_folder(kPackUnfinishedFile), "gpt data pack is running or was interrupted\n");
  }

  // Records the hash and the origin of tokenizer.json in the state. Returns true if these values differ from
  // the values in pack.json.
  bool note_tokenizer() {
    const TokenizerBefore& t = before_.tokenizer;
    const bool changes = state_.tokenizer != t.hash || state_.tokenizer_found != t.found;
    state_.tokenizer = t.hash;
    state_.tokenizer_found = t.found;
    return changes;
  }

  void write_tokenizer() {
    TokenizerBefore& t = before_.tokenizer;
    if (!t.write) return;
    t.write = false;
    const std::string path = in_folder(kPackTokenizerFile);
    const std::string aside = t.aside ? set_aside(path) : "";
    write_file_atomic(path, tokenizer_.to_json());
    if (t.problem.empty()) return;
    mended_.push_back(t.problem + (t.aside ? "; renamed to " + aside + " and" : ";") + " written again");
  }

  void go_on(const PackState& before, const std::vector<ShardProblem>& problems) {
    state_ = before;
    kept_ = state_.shards;
    for (const ShardProblem& problem : problems) {
      if (problem.shard < 0) continue;
      rewrite(state_.list[static_cast<size_t>(problem.shard)], problem.path);
      mended_.push_back(problem.what + "; written again");
      --kept_;
    }
    begin_ = state_.next;
    write_tokenizer();
    if (state_.done) {
      if (note_tokenizer()) write_pack_state(options_.out, state_);
      return;
    }
    note_tokenizer();
    begin();
    if (state_.next.block.file < std::ssize(options_.files)) source_.skip_to(state_.next.block);
  }

  // Adds an ending to the name of a file, so that the file no longer looks like a part of the shard set.
  // Returns the new path.
  static std::string set_aside(const std::string& path) {
    std::string aside = path + ".unknown";
    while (path_kind(aside) != PathKind::nothing)
      aside += "+";
    std::error_code error;
    std::filesystem::rename(path, aside, error);
    if (error) fail("cannot rename {} to {}: {}", path, aside, error.message());
    return aside;
  }

  // Renames the files that do not belong to the shard set.
  void mend_strangers(const std::vector<ShardProblem>& problems) {
    for (const ShardProblem& problem : problems) {
      if (problem.shard == kNoShard && !problem.path.empty())
        mended_.push_back(problem.what + "; renamed to " + set_aside(problem.path));
    }
  }

  bool next_blocks() {
    if (!source_.next(blocks_)) return false;
    for (const EncodedBlock& block : blocks_)
      empty_ += block.empty;
    return true;
  }

  // Writes one shard of a complete or interrupted pack again.
  void rewrite(const PackedShard& shard, const std::string& path) {
    if (shard.begin.block.file >= std::ssize(options_.files))
      fail(
          "{} is damaged: it lists a shard that starts after the last text file; use `restart` to write all "
          "shards again",
          in_folder(kPackStateFile));
    source_.skip_to(shard.begin.block);
    ShardWriter writer(path, shard_info(tokenizer_, options_, options_.format));
    PackedShard made{.begin = shard.begin};
    auto at = static_cast<size_t>(shard.begin.skip);
    while (made.tokens < shard.tokens && next_blocks()) {
      for (size_t i = 0; i < blocks_.size() && made.tokens < shard.tokens; ++i) {
        const size_t size = blocks_[i].ids.size(), begin = std::min(at, size);
        const size_t n = std::min(size - begin, static_cast<size_t>(shard.tokens - made.tokens));
        write_ids(writer, blocks_[i], begin, n, made);
        at = 0;
      }
    }
    const ShardInfo info = writer.complete();
    if (info.count != shard.tokens || info.checksum != shard.checksum)
      fail(
          "cannot write {} again: the text has changed since it was packed; choose another `out`, or use "
          "`restart` to write all shards again",
          path);
    writer.publish();
  }

  // Writes the ids of a block. Splits the ids over several shards if necessary.
  void write(const EncodedBlock& block) {
    auto at = static_cast<size_t>(state_.next.skip);
    state_.next.skip = 0;
    while (at < block.ids.size()) {
      if (!shard_) open_shard();
      const auto room = static_cast<size_t>(single_ ? INT64_MAX : options_.shard_tokens - packed_.tokens);
      const size_t n = std::min(block.ids.size() - at, room);
      write_ids(*shard_, block, at, n, packed_);
      at += n;
      if (n < room) continue;
      state_.next = {block.begin, static_cast<int64_t>(at)};
      close_shard();
      state_.next.skip = 0;
    }
  }

  void write_ids(ShardWriter& shard, const EncodedBlock& block, size_t at, size_t n, PackedShard& sum) const {
    const std::span<const int32_t> ids = std::span(block.ids).subspan(at, n);
    const int64_t bytes = text_before(block, at + n) - text_before(block, at);
    const auto begin = std::ranges::lower_bound(block.documents, at);
    const auto end = std::ranges::lower_bound(block.documents, at + n);
    shard.write(ids);
    shard.add_text(bytes, end - begin);
    sum.tokens += std::ssize(ids);
    sum.text_bytes += bytes;
    sum.documents += end - begin;
  }

  // Returns the number of text bytes of the block that come before id `at`. The bytes of the text are
  // assigned to the ids in proportion to the decoded length of each id. The result is exact if the ids decode
  // to the text.
  int64_t text_before(const EncodedBlock& block, size_t at) const {
    if (at == block.ids.size()) return block.text_bytes;
    const auto decoded = [&](size_t count) {
      return sum_of(std::span(block.ids).first(count),
                    [&](int32_t id) { return int64_t{lengths_[static_cast<size_t>(id)]}; });
    };
    return share_of_text(block.text_bytes, decoded(at), decoded(block.ids.size()));
  }

  void open_shard() {
    if (state_.shards >= kMaxShards)
      fail_usage("{}: the text needs more than {} shards; use a larger `shard_tokens`", options_.out,
                 kMaxShards);
    if (!compare_) begin();
    shard_ = std::make_unique<ShardWriter>(shard_path(state_.shards),
                                           shard_info(tokenizer_, options_, options_.format));
    packed_ = {.begin = begin_};
  }

  void close_shard() {
    const ShardInfo info = shard_->complete();
    packed_.checksum = info.checksum;
    if (!compare_ || !is_there(info)) {
      begin();
      shard_->publish();
    }
    shard_.reset();
    state_.tokens += packed_.tokens;
    state_.text_bytes += packed_.text_bytes;
    state_.documents += packed_.documents;
    if (state_.has_list()) state_.list.push_back(packed_);
    ++state_.shards;
    begin_ = state_.next;
    // Saving pack.json rewrites the whole list of shards. The longer the list is, the less often it is saved.
    if (!single_ && !compare_ && state_.shards % (1 + state_.shards / 1000) == 0)
      write_pack_state(options_.out, state_);
  }

  // Returns true if the output already contains this shard. A damaged shard counts as missing. Throws Error
  // for an intact shard with different content, because it belongs to a different pack. If pack.json
  // describes this pack, such a shard is replaced instead.
  bool is_there(const ShardInfo& info) {
    const std::string path = shard_path(state_.shards);
    const bool is_new = before_.state && state_.shards >= before_.state->shards;
    if (is_new || path_kind(path) == PathKind::nothing) {
      is_new ? void(++changed_) : mended_.push_back(path + ": is missing; written again");
      return false;
    }
    try {
      const TokenShard shard(path);
      const ShardInfo& found = shard.info();
      if (damaged_ids(shard, info.checksum).empty() && found.format == info.format &&
          found.count == info.count &&
          (found.format != ShardFormat::gpt || found.text_bytes == info.text_bytes) &&
          found.vocab_hash == (info.format == ShardFormat::gpt ? info.vocab_hash : 0)) {
        ++kept_;
        return true;
      }
      shard.verify();
    } catch (const Error& error) {
      mended_.push_back(std::string(error.what()) + "; written again");
      return false;
    }
    if (!before_.state) fail_other_pack(options_.out);
    if (before_.written.empty()) {
      mended_.push_back(path + ": does not match the text; written again");
    } else {
      ++changed_;
    }
    return false;
  }

  void finish() {
    if (state_.tokens == 0 && !shard_)
      fail("the text of {} is empty; give some text", options_.files.front());
    state_.next = {{.file = std::ssize(options_.files)}, 0};
    if (shard_) close_shard();
    state_.done = true;
    if (single_) return;
    if (compare_) end_comparison();
    mend_strangers(shard_problems(options_.out, state_, false));
    write_pack_state(options_.out, state_);
  }

  void end_comparison() {
    const int64_t listed = before_.state ? before_.state->shards : 0;
    for (int64_t shard = state_.shards; shard < listed; ++shard) {  // shards that are no longer needed
      begin();
      remove_file(shard_path(shard));
      ++changed_;
    }
    write_tokenizer();
    if (before_.written.empty()) return;
    mended_.push_back(before_.written + " was modified after it was packed: " +
                      (changed_ == 0 ? "its text is unchanged"
                                     : fmt::format("{} of {} shards had different text and were packed again",
                                                   changed_, std::max(listed, state_.shards))));
  }

  const Tokenizer& tokenizer_;
  const PackOptions& options_;
  EncodedBlocks& source_;
  bool single_;
  std::vector<int32_t> lengths_;  // bytes of text per token id
  std::string inputs_;
  PackState state_;
  PackPlace begin_;       // start of the shard being written
  bool compare_ = false;  // compare new shards with existing ones and keep those that are identical
  PackBefore before_;     // state of the output folder before this run
  bool begun_ = false;    // true once this run has written to the folder
  int64_t kept_ = 0, empty_ = 0, changed_ = 0;
  TextNotes notes_;
  UnknownTokens unknown_;  // counts unknown tokens in the text that this run reads
  std::vector<std::string> mended_;
  std::vector<EncodedBlock> blocks_;  // blocks being written
  std::unique_ptr<ShardWriter> shard_;
  PackedShard packed_;  // totals of the shard being written
};

// Describes what exists at the output path and what a pack would do with it.
std::string describe_target(const Tokenizer& tokenizer, const PackOptions& options) {
  const bool there = path_kind(options.out) != PathKind::nothing;
  if (has_ending(options.out, ".bin")) {
    if (!there) return "a new file";
    if (!is_token_shard(options.out)) return "an existing file that is not a token shard: refused";
    if (options.restart) return "an existing shard, which would be replaced";
    return "an existing shard: an identical shard would be kept, a different shard requires `restart`";
  }
  if (!there) return "a new folder";
  const PackBefore before = look_at_pack(tokenizer, options, pack_inputs(tokenizer, options));
  if (options.restart && !before.replaced.empty()) return "its shards would be removed and written again";
  if (!before.written.empty())
    return before.written +
           " was modified after it was packed: shards whose text differs would be written again";
  if (before.compare)
    return "no list of shards in pack.json: identical shards would be kept, damaged shards would be written "
           "again";
  if (!before.state) return "a folder without shards";
  std::string text = before.note + (before.note.empty() ? "" : "; ");
  text += fmt::format("{} {}", format_amount(before.state->shards, "shard exists", "shards exist"),
                      before.state->done ? "already" : "from an interrupted run, which would continue");
  for (const ShardProblem& problem : before.problems) {
    if (problem.shard == kTokenizerFile) continue;  // reported below
    text += fmt::format("; {}: would be {}", problem.what, problem.shard < 0 ? "renamed" : "written again");
  }
  if (!before.tokenizer.problem.empty())
    text += fmt::format("; {}: would be written again", before.tokenizer.problem);
  return text;
}

}  // namespace

double PackStats::bytes_per_token() const {
  return tokens == 0 ? 0 : static_cast<double>(text_bytes) / static_cast<double>(tokens);
}

PackStats pack_tokens(const Tokenizer& tokenizer, const PackOptions& options, ThreadPool& pool,
                      const std::function<void(const PackProgress&)>& progress) {
  check_pack_options(tokenizer, options);
  require_no_tasks(options.out);
  TextSource source(tokenizer, options, pool);
  return pack_blocks(tokenizer, options, source, progress);
}

PackStats pack_blocks(const Tokenizer& tokenizer, const PackOptions& options, EncodedBlocks& source,
                      const std::function<void(const PackProgress&)>& progress) {
  return Packer(tokenizer, options, source).run(progress);
}

PackForecast forecast_pack(const Tokenizer& tokenizer, const PackOptions& options) {
  check_pack_options(tokenizer, options);
  require_no_tasks(options.out);
  constexpr int64_t kSampleFiles = 16, kSampleBytes = int64_t{16} << 20;
  PackForecast out;
  const int64_t files = std::ssize(options.files);
  const int64_t step = std::max<int64_t>(1, files / kSampleFiles);
  // `read`, `text` and `tokens` are the totals of the samples: bytes on disk, bytes of text, and number of
  // ids.
  double read = 0, text = 0, tokens = 0;
  const BlockEncoder encoder(tokenizer, options);
  for (int64_t i = 0; i < files; ++i) {
    const std::string& path = options.files[static_cast<size_t>(i)];
    out.file_bytes += static_cast<int64_t>(file_bytes(path));
    if (i % step != 0) {
      out.sampled = true;
      continue;
    }
    TextBlocks blocks({path}, block_options(tokenizer, options));
    const double before = text;
    for (TextBlock block; blocks.next(block);) {
      EncodedBlock encoded;
      encoder.encode(block, path, encoded);
      text += static_cast<double>(block.text.size());
      tokens += static_cast<double>(encoded.ids.size());
      if (text - before >= static_cast<double>(kSampleBytes / std::min(files, kSampleFiles))) break;
    }
    read += static_cast<double>(blocks.bytes_done());
    out.sampled = out.sampled || blocks.bytes_done() < blocks.bytes_total();
  }
  const double scale = read > 0 ? static_cast<double>(out.file_bytes) / read : 0;
  out.text_bytes = static_cast<int64_t>(text * scale);
  out.tokens = static_cast<int64_t>(tokens * scale);
  out.shards =
      has_ending(options.out, ".bin") ? 1 : (out.tokens + options.shard_tokens - 1) / options.shard_tokens;
  out.target = describe_target(tokenizer, options);
  return out;
}

int32_t special_token_id(const Tokenizer& tokenizer, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& token : tokenizer_facts(tokenizer, 0).added) {
    if (token.text == name) return token.id;
    names.push_back(token.text);
  }
  fail_usage("the tokenizer has no special token \"{}\"{}", name.substr(0, 64), did_you_mean(name, names));
}

}  // namespace gpt
