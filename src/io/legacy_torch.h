#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "io/pickle.h"

namespace gpt {

// Returns true if `bytes` start like a file that torch.save wrote before PyTorch 1.6, with pickle protocol 2
// or later. Newer versions still write this format with _use_new_zipfile_serialization=False.
bool is_legacy_torch(std::span<const std::byte> bytes);

// Reads the torch.save format from before PyTorch 1.6. The file starts with pickles of a magic number, the
// version, machine properties, the saved object and the keys of its storages. After these pickles, the file
// contains the element count and the data of each storage. Source: _legacy_save in torch/serialization.py.
class LegacyTorch {
 public:
  // `globals` lists the globals that the object's pickle may name. `element_size` maps the name of a storage
  // class to its element size in bytes, or to 0 for unknown classes. Throws Error that names `what`, like
  // Pickle. `bytes` and `what` must outlive the object.
  LegacyTorch(std::span<const std::byte> bytes, const std::string& what,
              std::span<const std::string_view> globals,
              const std::function<size_t(std::string_view)>& element_size);

  const Pickle& pickle() const { return pickle_; }
  // Returns the data of a storage. Throws Error if no storage has this key.
  std::span<const std::byte> storage(std::string_view key) const;

 private:
  void check_machine();
  void read_storages(const std::function<size_t(std::string_view)>& element_size);
  Pickle next(std::span<const std::string_view> globals);

  std::span<const std::byte> bytes_;
  const std::string& what_;
  size_t at_ = 0;  // offset of the first unread byte
  Pickle pickle_;
  std::map<std::string, std::span<const std::byte>, std::less<>> storages_;
};

}  // namespace gpt
