#include "data/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "data/text_blocks.h"
#include "text/tokenizer_facts.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
constexpr int64_t kMinShardTokens = 1000;
constexpr uint64_t kMaxStateBytes = uint64_t{64} << 20;
constexpr int kBlocksPerThread = 4;
constexpr const char* kState = "pack.json";
constexpr const char* kUnfinished = "pack.unfinished";

// The ids of a block of text.
struct Encoded {
  std::vector<int32_t> ids;
  std::vector<size_t> documents;  // where documents begin
};

// Where the next run goes on, and what there is so far.
struct State {
  json inputs;  // what the shards depend on
  TextPosition next;
  int64_t skip = 0;  // ids of the block at `next` that are in a shard already
  PackStats stats;
  bool done = false;
};

json state_json(const State& s) {
  return {
      {"inputs", s.inputs},
      {"next", {{"file", s.next.file}, {"offset", s.next.offset}, {"line", s.next.line}, {"skip", s.skip}}},
      {"documents", s.stats.documents},
      {"text_bytes", s.stats.text_bytes},
      {"tokens", s.stats.tokens},
      {"shards", s.stats.shards},
      {"done", s.done}};
}

State read_state(const std::string& path) {
  State s;
  try {
    const json root = json::parse(read_file(path, kMaxStateBytes));
    s.inputs = root.at("inputs");
    const json& next = root.at("next");
    s.next = {next.at("file"), next.at("offset"), next.at("line")};
    s.skip = next.at("skip");
    s.stats = {.documents = root.at("documents"),
               .text_bytes = root.at("text_bytes"),
               .tokens = root.at("tokens"),
               .shards = root.at("shards")};
    s.done = root.at("done");
  } catch (const json::exception&) {
    fail("cannot read {}: expected what an earlier run of gpt data pack wrote; start anew with --restart",
         path);
  }
  return s;
}

class Packer {
 public:
  Packer(const Tokenizer& tokenizer, const PackOptions& options, ThreadPool& pool)
      : tokenizer_(tokenizer),
        options_(options),
        pool_(pool),
        single_(options.out.ends_with(".bin")),
        blocks_(options.files, {.block_bytes = options.block_bytes,
                                .cut_documents = tokenizer_facts(tokenizer, 0).can_cut}) {
    for (int64_t id = 0; id < tokenizer.vocab_size(); ++id)
      lengths_.push_back(length_of(static_cast<int32_t>(id)));
    if (options.document_token >= 0) lengths_[static_cast<size_t>(options.document_token)] = 0;
    state_.inputs = inputs();
  }

  PackStats run(const std::function<void(const PackProgress&)>& progress) {
    const auto start = Clock::now();
    prepare();
    const auto total = static_cast<double>(blocks_.bytes_total());
    while (!state_.done && next_blocks()) {
      encode_blocks();
      for (size_t i = 0; i < texts_.size(); ++i)
        write(texts_[i], encoded_[i]);
      state_.stats.seconds = seconds_since(start);
      if (progress) progress({static_cast<double>(blocks_.bytes_done()), total, state_.stats});
    }
    if (!state_.done) finish();
    if (!single_) fs::remove(in_folder(kUnfinished));
    state_.stats.seconds = seconds_since(start);
    return state_.stats;
  }

 private:
  int32_t length_of(int32_t id) const {
    try {
      return static_cast<int32_t>(tokenizer_.token_bytes(id).size());
    } catch (const Error&) {
      return 0;  // an id without a token
    }
  }
  std::string in_folder(const char* name) const { return (fs::path(options_.out) / name).string(); }
  std::string shard_path() const {
    return single_ ? options_.out : in_folder(fmt::format("shard-{:05}.bin", state_.stats.shards).c_str());
  }

  json inputs() const {
    json files = json::array();
    for (const std::string& path : options_.files) {
      std::error_code ignored;
      files.push_back({{"path", path}, {"bytes", fs::file_size(path, ignored)}});
    }
    return {{"files", files},
            {"field", options_.field},
            {"format", options_.format == ShardFormat::gpt ? "gpt" : "llmc"},
            {"shard_tokens", options_.shard_tokens},
            {"document_token", options_.document_token},
            {"vocabulary", fmt::format("{:016x}", vocabulary_hash(tokenizer_))}};
  }

  // A new folder, or one that this very pack was interrupted in.
  void prepare() {
    if (single_) return;
    make_directories(options_.out);
    if (!options_.restart && fs::exists(in_folder(kState))) {
      State before = read_state(in_folder(kState));
      if (before.inputs != state_.inputs)
        fail(
            "{} holds shards of other text or made with other options; choose another --out, or --restart to "
            "write them anew",
            options_.out);
      state_ = std::move(before);
      state_.stats.shards_before = state_.stats.shards;
      if (!state_.done) blocks_.skip_to(state_.next);
      return;
    }
    for (const auto& entry : fs::directory_iterator(options_.out)) {
      if (!is_token_shard(entry.path().string())) continue;
      if (!options_.restart)
        fail("{} holds token shards already; choose another --out, or --restart to write them anew",
             options_.out);
      fs::remove(entry.path());
    }
    write_file_atomic(in_folder(kUnfinished), "gpt data pack is at work, or was interrupted\n");
    write_file_atomic(in_folder("tokenizer.json"), tokenizer_.to_json());
    write_file_atomic(in_folder(kState), state_json(state_).dump(1) + "\n");
  }

  bool next_blocks() {
    texts_.resize(static_cast<size_t>(pool_.size()) * kBlocksPerThread);
    size_t n = 0;
    while (n < texts_.size() && blocks_.next(texts_[n]))
      ++n;
    texts_.resize(n);
    return n > 0;
  }

  void encode_blocks() {
    encoded_.assign(texts_.size(), {});
    std::vector<std::exception_ptr> errors(texts_.size());
    pool_.parallel_for(std::ssize(texts_), [&](int64_t i, int) {
      const auto at = static_cast<size_t>(i);
      try {
        encode_block(texts_[at], encoded_[at]);
      } catch (...) {
        errors[at] = std::current_exception();
      }
    });
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

  void encode_block(const TextBlock& block, Encoded& out) const {
    const std::string& path = blocks_.files()[static_cast<size_t>(block.begin.file)];
    if (block.json) {
      for_each_json_text(block, path, options_.field, [&](std::string_view text) {
        if (!text.empty()) append(text, true, out);
      });
      return;
    }
    if (tokenizer_.kind() != "byte") require_utf8(block, path);
    try {
      append(block.text, block.begins_document, out);
    } catch (const Error& error) {
      fail("{}: from line {} on: {}", path, block.begin.line, error.what());
    }
  }

  void append(std::string_view text, bool begins, Encoded& out) const {
    if (begins) out.documents.push_back(out.ids.size());
    if (begins && options_.document_token >= 0) out.ids.push_back(options_.document_token);
    const std::vector<int32_t> ids = tokenizer_.encode(text);
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  }

  // Writes the ids of a block, to several shards if it has to be.
  void write(const TextBlock& block, const Encoded& encoded) {
    auto at = static_cast<size_t>(state_.skip);
    state_.skip = 0;
    while (at < encoded.ids.size()) {
      if (!shard_) shard_ = std::make_unique<ShardWriter>(shard_path(), shard_info());
      const auto room = static_cast<size_t>(single_ ? INT64_MAX : options_.shard_tokens - in_shard_);
      const size_t n = std::min(encoded.ids.size() - at, room);
      write_ids(encoded, at, n);
      at += n;
      if (n < room) continue;
      state_.next = block.begin;
      state_.skip = static_cast<int64_t>(at);
      close_shard();
      state_.skip = 0;
    }
  }

  void write_ids(const Encoded& encoded, size_t at, size_t n) {
    const std::span<const int32_t> ids = std::span(encoded.ids).subspan(at, n);
    int64_t bytes = 0;
    for (const int32_t id : ids)
      bytes += lengths_[static_cast<size_t>(id)];
    const auto begin = std::ranges::lower_bound(encoded.documents, at);
    const auto end = std::ranges::lower_bound(encoded.documents, at + n);
    shard_->write(ids);
    shard_->add_text(bytes, end - begin);
    in_shard_ += std::ssize(ids);
    state_.stats.tokens += std::ssize(ids);
    state_.stats.text_bytes += bytes;
    state_.stats.documents += end - begin;
  }

  ShardInfo shard_info() const {
    return {.format = options_.format,
            .bytes_per_id = tokenizer_.vocab_size() <= 65536 ? 2 : 4,
            .vocab_size = tokenizer_.vocab_size(),
            .vocab_hash = vocabulary_hash(tokenizer_),
            .document_token = options_.document_token};
  }

  void close_shard() {
    shard_->finish();
    shard_.reset();
    in_shard_ = 0;
    ++state_.stats.shards;
    if (!single_) write_file_atomic(in_folder(kState), state_json(state_).dump(1) + "\n");
  }

  void finish() {
    if (state_.stats.tokens == 0 && !shard_)
      fail("the text of {} is empty; give some text", options_.files.front());
    state_.done = true;
    if (shard_) {
      close_shard();
    } else if (!single_) {
      write_file_atomic(in_folder(kState), state_json(state_).dump(1) + "\n");
    }
  }

  const Tokenizer& tokenizer_;
  const PackOptions& options_;
  ThreadPool& pool_;
  bool single_;
  TextBlocks blocks_;
  std::vector<int32_t> lengths_;  // bytes of text by id
  State state_;
  std::vector<TextBlock> texts_;
  std::vector<Encoded> encoded_;
  std::unique_ptr<ShardWriter> shard_;
  int64_t in_shard_ = 0;
};

}  // namespace

double PackStats::bytes_per_token() const {
  return tokens == 0 ? 0 : static_cast<double>(text_bytes) / static_cast<double>(tokens);
}

PackStats pack_tokens(const Tokenizer& tokenizer, const PackOptions& options, ThreadPool& pool,
                      const std::function<void(const PackProgress&)>& progress) {
  if (options.shard_tokens < kMinShardTokens)
    fail_usage("shard_tokens: expected at least {}, found {}", kMinShardTokens, options.shard_tokens);
  if (options.document_token >= tokenizer.vocab_size())
    fail_usage("document_token: expected at most {}, found {}", tokenizer.vocab_size() - 1,
               options.document_token);
  return Packer(tokenizer, options, pool).run(progress);
}

int32_t special_token_id(const Tokenizer& tokenizer, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& token : tokenizer_facts(tokenizer, 0).added) {
    if (token.text == name) return token.id;
    names.push_back(token.text);
  }
  fail_usage("the tokenizer has no special token \"{}\"{}", name.substr(0, 64), did_you_mean(name, names));
}

int32_t usual_document_token(const Tokenizer& tokenizer) {
  const auto added = tokenizer_facts(tokenizer, 0).added;
  for (const char* name : {"<|endoftext|>", "<|bos|>", "<|begin_of_text|>"}) {
    for (const auto& token : added) {
      if (token.text == name) return token.id;
    }
  }
  return -1;
}

}  // namespace gpt
