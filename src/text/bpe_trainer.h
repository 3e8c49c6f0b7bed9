#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "text/bpe.h"

namespace gpt {

// A list of distinct words. Each word is a sequence of token ids with its number of occurrences.
class WordList {
 public:
  // Appends a word. Throws Error if the list would exceed 2^32 - 1 values.
  void add(uint64_t count, const std::vector<int32_t>& ids);

  int64_t size() const { return size_; }
  int64_t symbols() const { return std::ssize(data_) - kHeader * size_; }

 private:
  friend class BpeTrainer;
  // A word is stored as its length, its count (two halves) and its ids. The values of a word are contiguous,
  // so a merge usually touches a single cache line.
  static constexpr int64_t kHeader = 3;

  std::vector<uint32_t> data_;
  int64_t size_ = 0;
};

// Maximum length of a token in bytes. Without a limit, text without word boundaries could produce a file that
// no program can read. Hugging Face's trainer calls this max_token_length.
inline constexpr size_t kMaxTokenBytes = 4096;

struct BpeTrainInput {
  std::vector<std::string> tokens;  // distinct tokens of the alphabet, by id
  WordList words;                   // words over the ids of the alphabet
};

struct BpeTrainResult {
  std::vector<std::string> tokens;  // by id: the alphabet, then the results of merges
  std::vector<Bpe::Merge> merges;   // in order of rank; each pair occurs once
  int64_t text_tokens = 0;          // number of tokens in the training text
};

// Called from time to time with the current and the target number of tokens.
using BpeTrainProgress = std::function<void(int64_t done, int64_t total)>;

// Learns merges until there are vocab_size tokens or no pair is left (Sennrich et al. 2016). Each round
// merges the pair with the largest count. Ties go to the smallest left id, then to the smallest right id. A
// pair is counted at each adjacent position, including overlapping ones. If a merge produces an existing
// token, no token is added. No token becomes longer than kMaxTokenBytes. The result equals the result of
// Hugging Face's BpeTrainer with 64-bit counts, see bpe_trainer.cpp. The time is proportional to the number
// of symbols times the logarithm of the word length. Throws Error if vocab_size is smaller than the alphabet.
BpeTrainResult train_bpe(BpeTrainInput input, int64_t vocab_size, const BpeTrainProgress& progress = {});

}  // namespace gpt
