#include "text/spm_model.h"

#include <fmt/ranges.h>

#include <bit>

#include "base/error.h"
#include "base/utf8.h"
#include "text/token_index.h"

namespace gpt::detail {
namespace {

// Iterates over the fields of a protocol buffer message.
class Fields {
 public:
  Fields(std::string_view bytes, const std::string& name) : rest_(bytes), name_(name) {}

  // Reads the next field of the message. Returns false at the end of the message.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    number_ = key >> 3;
    wire_ = static_cast<int>(key & 7);
    if (number_ == 0 || number_ > 536870911) bad("field number");
    switch (wire_) {
      case 0:
        value_ = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        take(varint());
        break;
      case 5:
        take(4);
        break;
      default:
        bad("wire type");
    }
    return true;
  }

  uint64_t number() const { return number_; }
  std::string_view bytes() const { return expect(2), bytes_; }
  std::string text() const { return std::string(bytes()); }
  bool boolean() const { return expect(0), value_ != 0; }
  int64_t integer() const { return expect(0), static_cast<int64_t>(value_); }
  float number32() const {
    expect(5);
    uint32_t bits = 0;
    for (int i = 3; i >= 0; --i)
      bits = bits << 8 | static_cast<unsigned char>(bytes_[static_cast<size_t>(i)]);
    return std::bit_cast<float>(bits);
  }

 private:
  [[noreturn]] void bad(const char* what) const {
    fail("cannot read {}: not a SentencePiece model: invalid {} in its protocol buffer", name_, what);
  }
  void expect(int wire) const {
    if (wire_ != wire) bad("type");
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) bad("number");
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    bad("number");
  }
  void take(uint64_t count) {
    if (count > rest_.size()) bad("length");
    bytes_ = rest_.substr(0, static_cast<size_t>(count));
    rest_.remove_prefix(static_cast<size_t>(count));
  }

  std::string_view rest_, bytes_;
  const std::string& name_;
  uint64_t number_ = 0, value_ = 0;
  int wire_ = 0;
};

// The field numbers below are those of sentencepiece_model.proto.
struct Trainer {
  int64_t model_type = 1;  // the default, unigram
  bool blank_as_suffix = false;
  bool byte_fallback = false;
  std::string bos = "<s>", eos = "</s>", pad = "<pad>";
  std::optional<std::string> unknown_text;
};

void read_piece(Fields piece, VocabData& data) {
  std::string text;
  float score = 0;
  int64_t type = static_cast<int64_t>(VocabData::TokenType::normal);
  while (piece.next()) {
    if (piece.number() == 1) text = piece.text();
    if (piece.number() == 2) score = piece.number32();
    if (piece.number() == 3) type = piece.integer();
  }
  data.tokens.push_back(std::move(text));
  data.scores.push_back(score);
  data.types.push_back(type >= 1 && type <= 6 ? static_cast<int32_t>(type) : 0);
}

using Unsupported = std::vector<std::string>;  // features that are not supported, for messages

Trainer read_trainer(Fields spec) {
  Trainer t;
  while (spec.next()) {
    if (spec.number() == 3) t.model_type = spec.integer();
    if (spec.number() == 24) t.blank_as_suffix = spec.boolean();
    if (spec.number() == 44) t.unknown_text = spec.text();
    if (spec.number() == 35) t.byte_fallback = spec.boolean();
    if (spec.number() == 46) t.bos = spec.text();
    if (spec.number() == 47) t.eos = spec.text();
    if (spec.number() == 48) t.pad = spec.text();
  }
  return t;
}

// Reads the settings of a normalizer. Adds unsupported settings to `unsupported`.
void read_normalizer(Fields spec, VocabData& data, Unsupported& unsupported) {
  std::string rules = "(no name)";
  bool rewrites = false;
  while (spec.next()) {
    if (spec.number() == 1) rules = spec.text();
    if (spec.number() == 2) rewrites = !spec.bytes().empty();
    if (spec.number() == 3) data.add_space_prefix = spec.boolean();
    if (spec.number() == 4) data.remove_extra_whitespaces = spec.boolean();
    if (spec.number() == 5 && !spec.boolean())
      unsupported.emplace_back("spaces are not escaped (escape_whitespaces is false)");
  }
  if (rewrites)
    unsupported.push_back(
        fmt::format("normalization rules \"{}\", expected identity", printable_text(rules, 40)));
}

void check_kind(const Trainer& t, const VocabData& data, const std::string& name, Unsupported unsupported) {
  constexpr const char* kKinds[] = {"unknown", "unigram", "BPE", "word", "char"};
  if (t.model_type != 2)
    unsupported.insert(unsupported.begin(),
                       fmt::format("model type {}, expected BPE",
                                   kKinds[t.model_type >= 0 && t.model_type <= 4 ? t.model_type : 0]));
  if (t.blank_as_suffix)
    unsupported.emplace_back("spaces are stored at the end of words (treat_whitespace_as_suffix is true)");
  if (!unsupported.empty())
    fail_unsupported(
        "cannot read {}: unsupported SentencePiece model: {}; train one with spm_train --model_type=bpe "
        "--normalization_rule_name=identity",
        name, fmt::join(unsupported, "; "));
  bool has_bytes = false;
  for (const int32_t type : data.types)
    has_bytes |= type == static_cast<int32_t>(VocabData::TokenType::byte);
  if (has_bytes != t.byte_fallback)
    fail("cannot read {}: byte_fallback is {}, but there are {}byte pieces", name, t.byte_fallback,
         has_bytes ? "" : "no ");
}

// Finds the ids of the control pieces by name.
void find_special(const Trainer& t, VocabData& data, const std::string& name) {
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const auto n = static_cast<int64_t>(id);
    const auto type = static_cast<VocabData::TokenType>(data.types[id]);
    if (type == VocabData::TokenType::unknown) {
      if (data.special.unk >= 0)
        fail("cannot read {}: pieces {} and {} both have the type unknown", name, data.special.unk, n);
      data.special.unk = n;
    }
    if (type != VocabData::TokenType::control) continue;
    if (data.tokens[id] == t.bos) data.special.bos = n;
    if (data.tokens[id] == t.eos) data.special.eos = n;
    if (data.tokens[id] == t.pad) data.special.pad = n;
  }
}

}  // namespace

VocabData parse_spm_model(std::string_view bytes, const std::string& name) {
  VocabData data{.model = "llama", .special = {.add_bos = false}};
  data.add_space_prefix = true;
  data.remove_extra_whitespaces = true;
  Trainer trainer;
  Unsupported unsupported;
  Fields fields(bytes, name);
  while (fields.next()) {
    if (fields.number() == 1) {
      if (std::ssize(data.tokens) >= kMaxVocab) fail("cannot read {}: more than {} pieces", name, kMaxVocab);
      read_piece(Fields(fields.bytes(), name), data);
    }
    if (fields.number() == 2) trainer = read_trainer(Fields(fields.bytes(), name));
    if (fields.number() == 3) read_normalizer(Fields(fields.bytes(), name), data, unsupported);
    if (fields.number() == 5) {
      VocabData ignored;
      read_normalizer(Fields(fields.bytes(), name), ignored, unsupported);
    }
  }
  if (data.tokens.empty()) fail("cannot read {}: not a SentencePiece model: it has no pieces", name);
  check_kind(trainer, data, name, std::move(unsupported));
  if (trainer.unknown_text) data.unknown_text = *trainer.unknown_text;
  find_special(trainer, data, name);
  return data;
}

}  // namespace gpt::detail
