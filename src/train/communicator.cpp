#include "train/communicator.h"

#include <cstring>

namespace gpt {
namespace {

class SingleProcess : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Handle reduce(const TensorView&) override { return nullptr; }
  Handle gather(const TensorView& x, const TensorView& all) override {
    std::memcpy(all.data, x.data, static_cast<size_t>(x.size()) * dtype_size(x.dtype));
    return nullptr;
  }
  Handle broadcast(const TensorView&, int) override { return nullptr; }
  Handle barrier() override { return nullptr; }
};

}  // namespace

Communicator& single_process() {
  static SingleProcess process;
  return process;
}

}  // namespace gpt
