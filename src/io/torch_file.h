#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "io/tensor_file.h"
#include "tensor/buffer.h"

namespace gpt {

struct PickleValue;

// Returns true if `bytes` start like a torch.save file: with the magic number of a zip archive, or with the
// magic number that PyTorch wrote before version 1.6.
bool is_torch_file(std::span<const std::byte> bytes);

// A memory-mapped state dict saved by torch.save, in the current zip format or in the format from before
// PyTorch 1.6. The pickle is decoded without executing anything. The tensors are taken from "model",
// "state_dict" or "model_state_dict" of the outermost dict, or from the outermost dict itself. The prefixes
// "_orig_mod." (from torch.compile) and "module." (from data parallelism) are removed from tensor names.
// Views must stay inside their storage; views that are not contiguous are copied. Throws Error for archives
// of other kinds, pickle protocols before 2, sizes that do not match, and duplicate names. Also throws Error,
// with the name of the global, if the pickle uses a global that tensors do not need. Source:
// torch/serialization.py and torch/_utils.py of PyTorch 2.
class TorchFile : public TensorFile {
 public:
  explicit TorchFile(const std::string& path);
  // Reads a file from memory. `bytes` must outlive the object; `what` names the file in error messages.
  TorchFile(std::span<const std::byte> bytes, const std::string& what);
  ~TorchFile() override;

  // Returns the other plain values of the outermost dict as a JSON object, for example the "model_args" of a
  // training script. The nesting depth is bounded. 0-d tensors become numbers; other tensors become null.
  const nlohmann::json& settings() const { return *settings_; }
  const MappedFile* mapped() const override { return &file_; }

 private:
  void parse(std::span<const std::byte> bytes);
  void parse_zip(std::span<const std::byte> bytes);
  void read(const PickleValue& root,
            const std::function<std::span<const std::byte>(std::string_view)>& storage, uint64_t file_bytes);

  MappedFile file_;
  std::vector<Buffer> copies_;
  std::unique_ptr<nlohmann::json> settings_;
};

}  // namespace gpt
