#pragma once

// A second device with a minimal backend: it has separate memory and implements three ops. For all other ops
// it downloads the arguments, calls the CPU kernel and uploads the results.

#include <cstring>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "kernels/kernel_table.h"
#include "support/op_pointers.h"
#include "support/reserved_range.h"

namespace gpt::test {

// Allocations return addresses in a range that the host cannot access. The bytes are stored elsewhere.
class ToyDevice final : public Device {
 public:
  std::byte* allocate(size_t bytes, const char*) override {
    const std::lock_guard lock(mutex_);
    const size_t begin = bytes_.size();
    bytes_.resize(begin + (bytes + 4095) / 4096 * 4096);
    if (bytes_.size() > addresses_.size()) throw std::runtime_error("the toy device is full");
    return addresses_.begin() + begin;
  }
  void release(std::byte*, size_t) noexcept override {}
  void upload(std::byte* to, const std::byte* from, const Rows2d& rows) override {
    const std::lock_guard lock(mutex_);
    HostDevice().copy(at(to), from, rows);
  }
  void enqueue_download(std::byte* to, const std::byte* from, const Rows2d& rows) override {
    const std::lock_guard lock(mutex_);
    HostDevice().copy(to, at(from), rows);
  }
  void copy(std::byte* to, const std::byte* from, const Rows2d& rows) override {
    const std::lock_guard lock(mutex_);
    HostDevice().copy(at(to), at(from), rows);
  }
  DeviceEvent record() override { return {}; }

  // Return element i of a view or an array, for the ops that this device implements.
  template <class T>
  T* at(const TensorView& view, int64_t i) {
    return reinterpret_cast<T*>(at(view.as<std::byte>())) + i;
  }
  template <class T>
  T& get(DeviceSpan<T> span, int64_t i) {
    using Bytes = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return reinterpret_cast<T*>(at(reinterpret_cast<Bytes*>(unwrap(span))))[i];
  }
  int own_ops = 0;  // number of calls of the ops that this device implements

 private:
  void do_wait(const DeviceEvent&) override {}
  std::byte* at(const std::byte* p) { return bytes_.data() + (p - addresses_.begin()); }

  std::mutex mutex_;
  ReservedRange addresses_{size_t{1} << 36};
  std::vector<std::byte> bytes_;
};

// The kernel table of the toy device: three native ops, the CPU kernels for the rest.
struct ToyKernels : KernelTable {
  ToyKernels(ToyDevice& toy, const KernelTable& cpu) : KernelTable(cpu), device(toy), inner(cpu) {
#define GPT_TOY_OP(op, Args)                                                                      \
  op = [](const ExecContext& ctx, const Args& args) noexcept {                                    \
    run_on_cpu(ctx, args, [](const ExecContext& cpu, const Args& a) { cpu.kernels.op(cpu, a); }); \
  };
    GPT_FOR_EACH_OP(GPT_TOY_OP)
#undef GPT_TOY_OP
    name = "toy";
    embedding_forward = [](const ExecContext& ctx, const EmbeddingArgs& a) noexcept {
      ToyDevice& toy = own(ctx);
      for (int64_t n = 0; n < a.out.rows(); ++n) {
        for (int64_t c = 0; c < a.out.cols(); ++c) {
          float x = *toy.at<float>(a.wte, toy.get(a.ids, n) * a.wte.ld + c);
          if (a.wpe) x += *toy.at<float>(a.wpe, toy.get(a.positions, n) * a.wpe.ld + c);
          *toy.at<float>(a.out, n * a.out.ld + c) = x;
        }
      }
    };
    sum_losses = [](const ExecContext& ctx, const SumLossesArgs& a) noexcept {
      ToyDevice& toy = own(ctx);
      double sum = 0;
      for (size_t n = 0; n < a.losses.size(); ++n)
        sum += toy.get(a.losses, static_cast<int64_t>(n));
      if (a.step) {
        toy.get(a.step, 0).loss += sum;
      } else {
        toy.get(a.sum, 0) += sum;
      }
    };
    clamp = [](const ExecContext& ctx, const ClampArgs& a) noexcept {
      ToyDevice& toy = own(ctx);
      const auto limit = static_cast<float>(a.step ? a.limit * toy.get(a.step, 0).loss_scale : a.limit);
      for (int64_t i = 0; i < a.x.size(); ++i) {
        float& x = *toy.at<float>(a.x, i);
        x = x > limit ? limit : x < -limit ? -limit : x;
      }
    };
  }

  ToyDevice& device;
  const KernelTable& inner;

 private:
  static ToyDevice& own(const ExecContext& ctx) {
    ToyDevice& toy = static_cast<const ToyKernels&>(ctx.kernels).device;
    ++toy.own_ops;
    return toy;
  }
  template <class Args, class Call>
  static void run_on_cpu(const ExecContext& ctx, const Args& args, const Call& call) {
    const auto& own = static_cast<const ToyKernels&>(ctx.kernels);
    const Workspace workspace(
        {.shared = ctx.scratch.shared_bytes, .per_thread = ctx.scratch.per_thread_bytes}, ctx.pool.size());
    HostDevice host;
    const auto download = [&](std::byte* to, const std::byte* from, size_t n) {
      own.device.download(to, from, {.width = n, .rows = 1});
    };
    const auto upload = [&](std::byte* to, const std::byte* from, size_t n) {
      own.device.upload(to, from, {.width = n, .rows = 1});
    };
    run_on_copies(own.inner, args, nullptr, download, upload, [&](const Args& copied) {
      call(ExecContext{host, ctx.pool, own.inner, workspace.scratch()}, copied);
    });
  }
};

}  // namespace gpt::test
