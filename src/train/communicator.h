#pragma once

#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace gpt {

// What the processes that train one model together say to each other. All of them call the same operations in
// the same order. An operation may still be under way when its function returns: the memory that it was given
// belongs to it until its handle has been waited for.
class Communicator {
 public:
  class Operation {
   public:
    virtual ~Operation() = default;
    virtual void wait() = 0;  // throws Error where it failed
  };
  using Handle = std::unique_ptr<Operation>;  // null: it is done

  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // x = the sum of x over all processes, added in the order of their ranks, in each. fp32 or fp64, dense.
  virtual Handle reduce(const TensorView& x) = 0;
  // all[r] = x of process r, in each; all: [size, shape of x].
  virtual Handle gather(const TensorView& x, const TensorView& all) = 0;
  // x = x of process `root`, in each.
  virtual Handle broadcast(const TensorView& x, int root) = 0;
  // Done when every process has called it.
  virtual Handle barrier() = 0;
};

// A process by itself: every operation is done at once.
Communicator& single_process();

// Waits for an operation, whether it is done already or not.
inline void finish(const Communicator::Handle& handle) {
  if (handle) handle->wait();
}

}  // namespace gpt
