#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "io/pickle.h"

namespace gpt {

// Whether bytes begin as torch.save wrote them before PyTorch 1.6, and still does with
// _use_new_zipfile_serialization=False, in pickle protocol 2 or later.
bool is_legacy_torch(std::span<const std::byte> bytes);

// Such a file: pickles of a magic number, a version, facts of the machine, the object and the keys of its
// storages, and then for each storage the number of its elements and its data. Source: _legacy_save of
// torch/serialization.py.
class LegacyTorch {
 public:
  // globals: those that the object's pickle may name. element_size: bytes of an element of a storage, by the
  // global of its type; 0 for unknown ones. Throws Error naming `what`, as Pickle does. The bytes must
  // outlive the object.
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
  size_t at_ = 0;  // behind what has been read
  Pickle pickle_;
  std::map<std::string, std::span<const std::byte>, std::less<>> storages_;
};

}  // namespace gpt
