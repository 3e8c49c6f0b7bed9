#include "pack_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "report/table.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr int64_t kShownTokens = 64, kShownChars = 200;

const char* format_name(ShardFormat format) {
  return format == ShardFormat::gpt ? "gpt" : "llmc";
}

int32_t id_at(const TokenShard& shard, int64_t i) {
  return static_cast<int32_t>(shard.info().bytes_per_id == 2 ? shard.ids16()[i] : shard.ids32()[i]);
}

// Returns the text of the first tokens, or "" if the tokenizer does not know one of them.
std::string beginning(const TokenShard& shard, const Tokenizer& tokenizer) {
  std::string text;
  for (int64_t i = 0; i < std::min(shard.info().count, kShownTokens); ++i) {
    const int32_t id = id_at(shard, i);
    if (id < 0 || id >= tokenizer.vocab_size()) return "";
    text += tokenizer.token_bytes(id);
  }
  return printable_text(text, kShownChars);
}

}  // namespace

json pack_json(const PackOptions& options, const PackStats& s) {
  return {{"out", options.out},       {"format", format_name(options.format)},
          {"documents", s.documents}, {"text_bytes", s.text_bytes},
          {"tokens", s.tokens},       {"bytes_per_token", s.bytes_per_token()},
          {"shards", s.shards},       {"shards_before", s.shards_before},
          {"mended", s.mended},       {"document_token", options.document_token},
          {"seconds", s.seconds}};
}

std::string pack_text(const Tokenizer& tokenizer, const PackOptions& options, const PackStats& s) {
  TextTable table;
  const auto row = [&](const char* name, std::string value, std::string note = "") {
    table.rows.push_back({name, std::move(value), std::move(note)});
  };
  const bool marked = options.document_token >= 0;
  row("documents", format_thousands(s.documents),
      marked ? "each behind " + printable_text(tokenizer.token_bytes(options.document_token), 40)
             : "nothing is written between them");
  row("text bytes", format_thousands(s.text_bytes));
  row("tokens", format_thousands(s.tokens));
  row("bytes per token", format_ratio(s.bytes_per_token()));
  row("shards", format_thousands(s.shards), options.out);
  if (s.shards_before == 0)
    row("speed", format_bytes(static_cast<double>(s.text_bytes) / s.seconds) + "/s", "of text");
  return format_table(table);
}

json task_json(const PackTask& task, const PackOptions& options, const PackStats& s) {
  json all = pack_json(options, s);
  all["task"] = task_name(task);
  return all;
}

std::string task_text(const PackTask& task, const PackOptions& options, const PackStats& s) {
  TextTable table;
  table.rows.push_back({"task", task_name(task), "of " + options.out});
  table.rows.push_back({"documents", format_thousands(s.documents), "that start in its part"});
  table.rows.push_back({"text bytes", format_thousands(s.text_bytes), ""});
  table.rows.push_back({"tokens", format_thousands(s.tokens), ""});
  if (s.shards_before == 0)
    table.rows.push_back(
        {"speed", format_bytes(static_cast<double>(s.text_bytes) / s.seconds) + "/s", "of text"});
  return format_table(table);
}

json forecast_json(const PackOptions& options, const PackForecast& f) {
  return {{"out", options.out}, {"files", options.files}, {"file_bytes", f.file_bytes}, {"tokens", f.tokens},
          {"shards", f.shards}, {"estimated", f.sampled}, {"target", f.target}};
}

std::string forecast_text(const PackOptions& options, const PackForecast& f) {
  constexpr size_t kShownFiles = 10;
  TextTable table;
  const char* how = f.sampled ? "estimated from samples" : "";
  for (size_t i = 0; i < std::min(kShownFiles, options.files.size()); ++i)
    table.rows.push_back({i == 0 ? "would read" : "", options.files[i], ""});
  if (options.files.size() > kShownFiles)
    table.rows.push_back({"", fmt::format("and {} more", options.files.size() - kShownFiles), ""});
  table.rows.push_back({"bytes of files", format_thousands(f.file_bytes), ""});
  table.rows.push_back({"tokens", format_thousands(f.tokens), how});
  table.rows.push_back({"shards", format_thousands(f.shards), how});
  table.rows.push_back({"would write", options.out, f.target});
  return format_table(table) + "nothing was written (--dry-run)\n";
}

json verify_json(const ShardSet& set, const std::vector<std::string>& damaged, int64_t without) {
  return {{"shards", set.shards.size()},
          {"tokens", set.tokens()},
          {"without_checksum", without},
          {"damaged", damaged}};
}

std::string verify_text(const ShardSet& set, const std::vector<std::string>& damaged, int64_t without) {
  std::string text = sum_of(damaged, [](const std::string& line) { return line + "\n"; });
  const auto checked = static_cast<int64_t>(set.shards.size()) - without;
  text += fmt::format("{} with {}: headers, sizes and number are correct; checksums of ",
                      format_amount(std::ssize(set.shards), "shard"), format_amount(set.tokens(), "token"));
  text += fmt::format("{} of {} are correct", checked - std::ssize(damaged), checked);
  if (without > 0)
    text += fmt::format(", {} have none (not available in the format of llm.c)",
                        format_amount(without, "shard has", "shards have"));
  return text + "\n";
}

json shards_json(const std::vector<TokenShard>& shards) {
  const auto shard_json = [](const TokenShard& shard) {
    const ShardInfo& i = shard.info();
    json entry = {{"path", shard.name()},
                  {"format", format_name(i.format)},
                  {"tokens", i.count},
                  {"bytes_per_id", i.bytes_per_id}};
    if (i.format == ShardFormat::gpt) {
      entry.update({{"vocab_size", i.vocab_size},
                    {"vocab_hash", fmt::format("{:016x}", i.vocab_hash)},
                    {"checksum", fmt::format("{:016x}", i.checksum)},
                    {"text_bytes", i.text_bytes},
                    {"documents", i.documents},
                    {"document_token", i.document_token}});
    }
    return entry;
  };
  const auto tokens = [](const TokenShard& shard) { return shard.info().count; };
  return {{"shards", transformed(shards, shard_json)}, {"tokens", sum_of(shards, tokens)}};
}

std::string shards_text(const std::vector<TokenShard>& shards, const Tokenizer* tokenizer) {
  TextTable table{.columns = {"shard", "format", "tokens", "documents", "text bytes", "vocabulary", "hash"}};
  int64_t tokens = 0, bytes = 0, documents = 0;
  for (const TokenShard& shard : shards) {
    const ShardInfo& i = shard.info();
    const std::string format = fmt::format("{} u{}", format_name(i.format), 8 * i.bytes_per_id);
    if (i.format == ShardFormat::llmc) {
      table.rows.push_back({shard.name(), format, format_thousands(i.count)});
    } else {
      table.rows.push_back({shard.name(), format, format_thousands(i.count), format_thousands(i.documents),
                            format_thousands(i.text_bytes), format_thousands(i.vocab_size),
                            fmt::format("{:016x}", i.vocab_hash)});
    }
    tokens += i.count;
    bytes += i.text_bytes;
    documents += i.documents;
  }
  std::string text = format_table(table);
  text +=
      fmt::format("\n{} in {}", format_amount(tokens, "token"), format_amount(std::ssize(shards), "shard"));
  if (bytes > 0 && tokens > 0)
    text += fmt::format(", {}, {} bytes per token", format_amount(documents, "document"),
                        format_ratio(static_cast<double>(bytes) / static_cast<double>(tokens)));
  text += "\n";
  if (tokenizer != nullptr) text += "begins: \"" + beginning(shards.front(), *tokenizer) + "\"\n";
  return text;
}

}  // namespace gpt
