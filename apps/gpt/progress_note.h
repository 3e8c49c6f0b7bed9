#pragma once

#include <string>

#include "report/progress.h"

namespace gpt {

// One line about how far a job has come: rewritten in place on a terminal, else a line of its own now and
// then.
class ProgressNote {
 public:
  explicit ProgressNote(std::string what);
  ~ProgressNote();
  ProgressNote(const ProgressNote&) = delete;
  ProgressNote& operator=(const ProgressNote&) = delete;

  // done of total (any unit) and, behind it, whatever else is worth saying.
  void update(double done, double total, const std::string& details = "");

 private:
  ProgressOutput output_;
  std::string what_;
  double start_, shown_at_ = 0;
  bool line_open_ = false;
};

}  // namespace gpt
