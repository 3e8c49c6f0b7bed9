#pragma once

// Functions to visit and replace the pointers in the arguments of an op.

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/unwrap.h"

namespace gpt::test {

// Calls fn(name, view) for each TensorView, fn(name, span) for each DeviceSpan and fn(name, matrix) for each
// PackedMatrix of an argument struct, including those in nested structs.
template <class F>
void for_each_pointer(std::string_view name, TensorView& view, F&& fn) {
  fn(name, view);
}
template <class T, class F>
void for_each_pointer(std::string_view name, DeviceSpan<T>& span, F&& fn) {
  fn(name, span);
}
template <class F>
void for_each_pointer(std::string_view name, PackedMatrix& matrix, F&& fn) {
  fn(name, matrix);
}
template <class F>
void for_each_pointer(std::string_view name, DropoutKey& dropout, F&& fn) {
  if (dropout.p > 0) fn(name, dropout.step);
}
template <class F>
void for_each_pointer(std::string_view name, AttentionShape& shape, F&& fn) {
  for_each_pointer(name, shape.dropout, fn);
}
template <class F>
void for_each_pointer(std::string_view name, PickedRows& picked, F&& fn) {
  fn(name, picked.ids);
}
template <class F>
void for_each_pointer(std::string_view name, MuonMatrix& m, F&& fn) {
  for (TensorView* view : {&m.param, &m.grad, &m.m, &m.v, &m.change})
    fn(name, *view);
}
template <class Other, class F>
void for_each_pointer(std::string_view, Other&, F&&) {}

// A copy of the arguments of an op that owns copies of their host arrays.
template <class Args>
class OwnedArgs {
 public:
  explicit OwnedArgs(const Args& args) : args_(args) {
    Args::visit(args_, [&](std::string_view, auto& field) { own(field); });
  }
  const Args& operator*() const { return args_; }
  template <class F>
  void for_each(F&& fn) {
    Args::visit(args_, [&]<class Field>(std::string_view name, Field& field) {
      if constexpr (requires {
                      field.front();
                      field.subspan(0);
                    }) {
        using T = std::remove_cvref_t<decltype(field.front())>;
        for (const T& element : field)
          for_each_pointer(name, const_cast<T&>(element), fn);  // elements are copies
      } else {
        for_each_pointer(name, field, fn);
      }
    });
  }

 private:
  template <class T>
  void own(HostSpan<T>& span) {
    auto copy = std::make_shared<std::vector<T>>(span.begin(), span.end());
    span = *copy;
    arrays_.push_back(std::move(copy));
  }
  template <class Other>
  void own(Other&) {}

  Args args_;
  std::vector<std::shared_ptr<void>> arrays_;
};

// Returns the size of a packed matrix in bytes.
inline size_t bytes_of(const KernelTable& kernels, const PackedMatrix& m) {
  const int64_t packed = kernels.packed_bytes(m.dtype, m.out, m.in, m.transposed);
  return static_cast<size_t>(packed > 0 ? packed : m.out * row_bytes(m.dtype, m.in));
}

// Returns the number of bytes that are reachable through a pointer of an argument struct.
inline size_t reach(const KernelTable&, const TensorView& view) {
  return extent(view);
}
inline size_t reach(const KernelTable& kernels, const PackedMatrix& m) {
  return m ? bytes_of(kernels, m) : 0;
}
template <class T>
size_t reach(const KernelTable&, const DeviceSpan<T>& span) {
  return span ? span.size() * sizeof(T) : 0;
}
// Returns true if an op may write through this pointer.
template <class Pointer>
bool is_writable(const Pointer&) {
  return true;
}
template <class T>
bool is_writable(const DeviceSpan<const T>&) {
  return false;
}
inline std::byte* address_of(const TensorView& view) {
  return view.as<std::byte>();
}
inline std::byte* address_of(const PackedMatrix& m) {
  return static_cast<std::byte*>(m.data);
}
template <class T>
std::byte* address_of(const DeviceSpan<T>& span) {
  return reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(unwrap(span)));
}
inline void set_address(TensorView& view, std::byte* p) {
  view.data = p;
}
inline void set_address(PackedMatrix& m, std::byte* p) {
  m.data = p;
}
template <class T>
void set_address(DeviceSpan<T>& span, std::byte* p) {
  span = {reinterpret_cast<T*>(p), span.size()};
}

// Runs `call` on a copy of the arguments. First copies all memory that the arguments point to into the memory
// of `device` (null: the host). After the call, copies the writable memory back. Views that share memory also
// share it in the copy.
template <class Args, class CopyIn, class CopyOut, class Call>
void run_on_copies(const KernelTable& kernels, const Args& args, Device* device, const CopyIn& copy_in,
                   const CopyOut& copy_out, const Call& call) {
  OwnedArgs<Args> own(args);
  struct End {
    std::byte* end;
    bool writable;
  };
  std::map<std::byte*, End> ranges;  // maps the first byte of a range to its end
  own.for_each([&](std::string_view, auto& pointer) {
    std::byte *begin = address_of(pointer), *end = begin + reach(kernels, pointer);
    bool writable = is_writable(pointer);
    if (begin == end) return;
    for (auto at = ranges.begin(); at != ranges.end();) {
      if (at->first > end || at->second.end < begin) {
        ++at;
        continue;
      }
      begin = std::min(begin, at->first);
      end = std::max(end, at->second.end);
      writable = writable || at->second.writable;
      at = ranges.erase(at);
    }
    ranges[begin] = {end, writable};
  });
  std::map<std::byte*, Buffer> copies;
  for (const auto& [begin, range] : ranges) {
    const auto size = static_cast<size_t>(range.end - begin);
    copy_in(copies.emplace(begin, Buffer(size, "a copy of arguments", device)).first->second.data(), begin,
            size);
  }
  own.for_each([&](std::string_view, auto& pointer) {
    if (reach(kernels, pointer) == 0) return;
    const auto at = std::prev(copies.upper_bound(address_of(pointer)));
    set_address(pointer, at->second.data() + (address_of(pointer) - at->first));
  });
  call(*own);
  for (const auto& [begin, range] : ranges) {
    if (range.writable) copy_out(begin, copies.at(begin).data(), static_cast<size_t>(range.end - begin));
  }
}

}  // namespace gpt::test
