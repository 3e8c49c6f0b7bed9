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

// Whether a file begins as those of torch.save do: like a zip archive, and before PyTorch 1.6 with a magic
// number.
bool is_torch_file(std::span<const std::byte> bytes);

// A state dict saved by torch.save, mapped; its pickle is read without ever calling anything. Tensors are
// those of the outermost dict's "model", "state_dict" or "model_state_dict", or else its own; prefixes
// "_orig_mod." (of torch.compile) and "module." (of data parallelism) are taken off their names. Views of
// storages are allowed as long as they stay inside; those that are not dense rows are copied. Throws Error
// for everything else: other globals (by name), other archives, pickle protocols before 2, sizes that do not
// fit, duplicate names. Both formats are read, that of before 1.6 too. Source: torch/serialization.py and
// torch/_utils.py of PyTorch 2.
class TorchFile : public TensorFile {
 public:
  explicit TorchFile(const std::string& path);
  // The same for bytes in memory, which must outlive the object; `what` names them in errors.
  TorchFile(std::span<const std::byte> bytes, const std::string& what);
  ~TorchFile() override;

  // What else of plain values the outermost dict has, nested to a bounded depth: a training script's
  // "model_args", say. Tensors without dimensions are their numbers, other ones are null. An object.
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
