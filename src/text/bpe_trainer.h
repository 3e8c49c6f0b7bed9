#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "text/bpe.h"

namespace gpt {

// Distinct words as sequences of token ids, one after the other, each with the number of its occurrences.
class WordList {
 public:
  // Appends a word. Throws Error beyond 2^32 - 1 symbols in all.
  void add(uint64_t count, const std::vector<int32_t>& ids);

  int64_t size() const { return size_; }
  int64_t symbols() const { return std::ssize(data_) - kHeader * size_; }

 private:
  friend class BpeTrainer;
  // A word: length, count (two halves), ids. One place for all of it, so that a merge touches one line.
  static constexpr int64_t kHeader = 3;

  std::vector<uint32_t> data_;
  int64_t size_ = 0;
};

// Longer tokens are not made: a text of one endless word would give a file that nobody can read. Hugging
// Face's max_token_length.
inline constexpr size_t kMaxTokenBytes = 4096;

struct BpeTrainInput {
  std::vector<std::string> tokens;  // the alphabet, by id; distinct
  WordList words;                   // over these ids
};

struct BpeTrainResult {
  std::vector<std::string> tokens;  // the alphabet, then what merges brought, by id
  std::vector<Bpe::Merge> merges;   // in order of rank, every pair once
  int64_t text_tokens = 0;          // of all words, each as often as it occurred
};

// Called now and then with the number of tokens that exist and the number wanted.
using BpeTrainProgress = std::function<void(int64_t done, int64_t total)>;

// Learns merges until there are vocab_size tokens or no pair is left (Sennrich et al. 2016). Each round
// merges the pair with the largest count; of equal counts, the one with the smallest left, then right id. A
// pair counts once per adjacent position, overlaps included. Where two tokens join to one that exists
// already, no token is new, and none becomes longer than kMaxTokenBytes. Exactly what Hugging Face's
// BpeTrainer does with 64-bit counts, see bpe_trainer.cpp. Time grows with the symbols of the words times the
// logarithm of their length. Throws Error unless vocab_size is at least the size of the alphabet.
BpeTrainResult train_bpe(BpeTrainInput input, int64_t vocab_size, const BpeTrainProgress& progress = {});

}  // namespace gpt
