#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpt {

// How often each class was taken for each.
class Confusion {
 public:
  explicit Confusion(int64_t classes) : classes_(classes), counts_(static_cast<size_t>(classes * classes)) {}

  void add(int64_t truth, int64_t answer) { ++counts_[static_cast<size_t>(truth * classes_ + answer)]; }
  int64_t operator()(int64_t truth, int64_t answer) const {
    return counts_[static_cast<size_t>(truth * classes_ + answer)];
  }
  int64_t classes() const { return classes_; }

 private:
  int64_t classes_;
  std::vector<int64_t> counts_;
};

// Values as scikit-learn has them; 0 where they are not defined.
double accuracy(const Confusion& confusion);
// The mean over the classes that occur, as a truth or an answer, of 2 TP / (2 TP + FP + FN).
double macro_f1(const Confusion& confusion);
// Matthews' correlation coefficient for any number of classes (Gorodkin 2004).
double matthews(const Confusion& confusion);
// Pearson's correlation, 0 where either is constant; Spearman's, that of the ranks, where equal values have
// the mean of theirs.
double pearson(std::span<const double> x, std::span<const double> y);
double spearman(std::span<const double> x, std::span<const double> y);

// A table, a row for each truth, a column for each answer; of more than `most` classes the largest confusions
// as a list. Lines that end with a line end.
std::string confusion_text(const Confusion& confusion, std::span<const std::string> names, int64_t most = 12);

// A cell of CSV (RFC 4180), quoted where it must be.
std::string csv_cell(std::string_view text);

}  // namespace gpt
