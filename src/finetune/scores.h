#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpt {

// Counts how often each true class was predicted as each class.
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

// The functions below return the same values as the functions of scikit-learn. If a value is undefined, they
// return 0.
double accuracy(const Confusion& confusion);
// Returns the mean of 2 TP / (2 TP + FP + FN) over the classes that occur as a true or predicted class.
double macro_f1(const Confusion& confusion);
// Returns the Matthews correlation coefficient for any number of classes (Gorodkin 2004).
double matthews(const Confusion& confusion);
// pearson returns the Pearson correlation, or 0 if x or y is constant. spearman returns the Pearson
// correlation of the ranks. Equal values get the mean of their ranks.
double pearson(std::span<const double> x, std::span<const double> y);
double spearman(std::span<const double> x, std::span<const double> y);

// Returns the confusion matrix as a table with a row per true class and a column per predicted class. If
// there are more than `most` classes, returns a list of the most frequent misclassifications instead of the
// table. Every line ends with a newline.
std::string confusion_text(const Confusion& confusion, std::span<const std::string> names, int64_t most = 12);

// Returns a cell of a CSV file (RFC 4180). The cell is quoted if necessary.
std::string csv_cell(std::string_view text);

}  // namespace gpt
