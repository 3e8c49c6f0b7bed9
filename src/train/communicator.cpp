#include "train/communicator.h"

#include "tensor/memory.h"

namespace gpt {
namespace {

class SingleProcess : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Handle reduce(const TensorView&) override { return nullptr; }
  Handle gather(const TensorView& x, const TensorView& all) override {
    copy_rows(x, all.row_range(0, x.rows()));
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
