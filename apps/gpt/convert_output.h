#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/conversion.h"
#include "io/checkpoint_dir.h"

namespace gpt {

struct ConvertArguments {
  std::string in, out, to, dtype, quant, max_shard_size;
  std::vector<std::string> adapters;  // merged: DIR or DIR=SCALE
  std::vector<std::string> average;   // models whose weights count as much as those of `in`
  std::string base;                   // of an adapter that is converted
  ShapeHints hints;
  bool dry_run = false, force = false, json = false;
};

// Where a conversion goes: the model, and the files of its tokenizer in it or beside it. Everything that
// could speak against writing is checked when the object is made, so that a dry run says what the real one
// does.
class ConvertOutput {
 public:
  // Throws Error when OUT overlaps what is read, is a run of `gpt train`, exists (unless --force), or when a
  // file is in the way that this program did not write. The arguments must outlive the object.
  ConvertOutput(const ConvertArguments& arguments, const LoadedModel& loaded, const Conversion& conversion);

  void write() const;

  const std::vector<std::string>& tokenizer_names() const { return tokenizer_names_; }
  const FolderChanges& changes() const { return changes_; }
  // What happens to which file, a line each; the second word of a line is its name.
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
  std::map<std::string, std::string> files_;  // the tokenizer's, by name
  std::vector<std::string> tokenizer_names_;
  FolderChanges changes_;
};

}  // namespace gpt
