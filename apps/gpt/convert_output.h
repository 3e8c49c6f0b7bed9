#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/conversion.h"
#include "io/checkpoint_dir.h"

namespace gpt {

struct ConvertArguments {
  std::string in, out, to, dtype, quant, max_shard_size;
  std::vector<std::string> adapters;  // adapters to merge: DIR or DIR=SCALE
  std::vector<std::string> average;   // models to average with `in`, all with equal weight
  std::string base;                   // base model of the adapter to convert
  ShapeHints hints;
  bool dry_run = false, force = false, json = false;
};

// The output of a conversion: the model, and its tokenizer files in the model folder or next to the model
// file. The constructor runs all checks that could prevent writing, so that a dry run reports exactly what a
// real conversion would do.
class ConvertOutput {
 public:
  // Throws Error if OUT overlaps an input, is a run of `gpt train`, exists (unless --force), or would replace
  // a file that was not written by this program. The arguments must outlive the object.
  ConvertOutput(const ConvertArguments& arguments, const LoadedModel& loaded, const Conversion& conversion);

  void write() const;

  const std::vector<std::string>& tokenizer_names() const { return tokenizer_names_; }
  const FolderChanges& changes() const { return changes_; }
  // Returns one line per file with the action on that file; the second word of a line is the file name.
  std::string describe() const;

 private:
  void gather_tokenizer();
  void gather_tokenizer_config();
  void gather_bin_tokenizer();
  void check_file() const;
  void check_beside(const std::string& folder);
  void write_tokenizer(const std::string& folder) const;

  const ConvertArguments& a_;
  const LoadedModel& loaded_;
  const Conversion& conversion_;
  std::map<std::string, std::string> files_;  // tokenizer files: content by name
  std::vector<std::string> tokenizer_names_;
  FolderChanges changes_;
};

}  // namespace gpt
