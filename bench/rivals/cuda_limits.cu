// Measures the peak throughput of a CUDA device and cuBLASLt on the shapes that this project trains and
// decodes. These are the limits for a CUDA backend.
//
//   nvcc -O3 -std=c++17 -gencode=arch=compute_90,code=sm_90 -o cuda_limits cuda_limits.cu -lcublasLt &&
//   ./cuda_limits
//
// Prints one JSON line per measurement. Matrices are row-major as in a model: forward Y[M,N] = X[M,K]
// W[N,K]^T, data gradient dX[M,K] = dY[M,N] W[N,K], weight gradient dW[N,K] = dY[M,N]^T X[M,K]. The result is
// the fastest of eight algorithms that cuBLASLt proposes; "proposed" is the first one. Calls cycle through
// copies of the operands, so that operands are read from memory and not from the L2 cache.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    const auto status = call;                                                                      \
    if (static_cast<int>(status) != 0) {                                                           \
      std::fprintf(stderr, "%s: status %d, line %d\n", #call, static_cast<int>(status), __LINE__); \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (false)

namespace {

constexpr size_t kWorkspace = size_t{64} << 20;
constexpr size_t kBeyondCache = size_t{256} << 20;

__global__ void copy_kernel(const uint4* from, uint4* to, size_t n) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
    to[i] = from[i];
}

__global__ void read_kernel(const uint4* from, uint32_t* sum, size_t n) {
  uint32_t own = 0;
  size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (; i + 3 * step < n; i += 4 * step) {
    const uint4 a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
    own += a.x ^ b.y ^ c.z ^ d.w;
  }
  if (own == 0x12345678) *sum = own;
}

__global__ void write_kernel(uint4* to, size_t n) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
    to[i] = make_uint4(1, 2, 3, 4);
}

__global__ void empty_kernel() {}

__device__ float noise(uint64_t i) {
  uint64_t x = i * 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9ull;
  return static_cast<float>(static_cast<int32_t>(x >> 32)) * (1.0f / 2147483648.0f);
}

template <typename T>
__global__ void fill_kernel(T* to, size_t n) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
    to[i] = static_cast<T>(noise(i));
}

cudaStream_t stream;

// Returns the duration of a call in microseconds: the median of five series.
double microseconds(const std::function<void(int)>& call) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  const auto series = [&](int calls) {
    CHECK(cudaEventRecord(begin, stream));
    for (int i = 0; i < calls; ++i)
      call(i);
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    return 1e3 * milliseconds / calls;
  };
  series(2);
  const int calls = std::clamp(static_cast<int>(10e3 / series(3)), 3, 1000);
  std::vector<double> times;
  for (int i = 0; i < 5; ++i)
    times.push_back(series(calls));
  std::sort(times.begin(), times.end());
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  return times[2];
}

void measure_memory(int processors) {
  const size_t bytes = size_t{4} << 30, n = bytes / sizeof(uint4);
  uint4 *from, *to;
  uint32_t* sum;
  CHECK(cudaMalloc(&from, bytes));
  CHECK(cudaMalloc(&to, bytes));
  CHECK(cudaMalloc(&sum, 4));
  CHECK(cudaMemset(from, 7, bytes));
  const int blocks = processors * 16;
  const double copied = microseconds([&](int) { copy_kernel<<<blocks, 512, 0, stream>>>(from, to, n); });
  const double copied_by_driver =
      microseconds([&](int) { CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream)); });
  const double read = microseconds([&](int) { read_kernel<<<blocks, 512, 0, stream>>>(from, sum, n); });
  const double written = microseconds([&](int) { write_kernel<<<blocks, 512, 0, stream>>>(to, n); });
  void* host;
  const size_t part = size_t{512} << 20;
  CHECK(cudaMallocHost(&host, part));
  const double to_device =
      microseconds([&](int) { CHECK(cudaMemcpyAsync(to, host, part, cudaMemcpyHostToDevice, stream)); });
  const double to_host =
      microseconds([&](int) { CHECK(cudaMemcpyAsync(host, to, part, cudaMemcpyDeviceToHost, stream)); });
  const auto rate = [](size_t moved, double us) { return static_cast<double>(moved) / us * 1e-3; };
  std::printf(
      "{\"memory_GBps\": {\"copy\": %.0f, \"copy_by_driver\": %.0f, \"read\": %.0f, \"write\": %.0f, "
      "\"host_to_device\": %.1f, \"device_to_host\": %.1f}}\n",
      rate(2 * bytes, copied), rate(2 * bytes, copied_by_driver), rate(bytes, read), rate(bytes, written),
      rate(part, to_device), rate(part, to_host));
  CHECK(cudaGetLastError());
  CHECK(cudaFreeHost(host));
  CHECK(cudaFree(from));
  CHECK(cudaFree(to));
  CHECK(cudaFree(sum));
}

void measure_launches() {
  const double launched = microseconds([](int) { empty_kernel<<<1, 32, 0, stream>>>(); });
  constexpr int kNodes = 200;
  cudaGraph_t graph;
  cudaGraphExec_t instance;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kNodes; ++i)
    empty_kernel<<<1, 32, 0, stream>>>();
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&instance, graph, 0));
  const double replayed = microseconds([&](int) { CHECK(cudaGraphLaunch(instance, stream)); }) / kNodes;
  std::printf("{\"launch_us\": {\"stream\": %.2f, \"graph\": %.2f}}\n", launched, replayed);
  CHECK(cudaGraphExecDestroy(instance));
  CHECK(cudaGraphDestroy(graph));
}

enum class Pass { forward, data, weight };

struct Product {
  std::string name;
  Pass pass;
  int64_t rows, out, in;  // M, N, K of the forward product
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType_t input = CUDA_R_16BF;
  cudaDataType_t output = CUDA_R_16BF;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  bool accumulates = false;
};

const char* name_of(cublasLtEpilogue_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
      return "bias";
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      return "bias, gelu, its input kept";
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
      return "gelu backward, bias gradient";
    case CUBLASLT_EPILOGUE_DGELU:
      return "gelu backward";
    case CUBLASLT_EPILOGUE_BGRADB:
      return "bias gradient";
    default:
      return "none";
  }
}

size_t size_of(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : 2;
}

struct Buffer {
  void* data = nullptr;
  size_t stride = 0;
  Buffer(int64_t n, cudaDataType_t type, int copies) : stride((n * size_of(type) + 255) / 256 * 256) {
    CHECK(cudaMalloc(&data, stride * copies));
    if (type == CUDA_R_32F)
      fill_kernel<<<1024, 256, 0, stream>>>(static_cast<float*>(data), stride * copies / 4);
    else
      fill_kernel<<<1024, 256, 0, stream>>>(static_cast<__nv_bfloat16*>(data), stride * copies / 2);
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data); }
  void* at(int copy) const { return static_cast<char*>(data) + stride * copy; }
};

void measure_product(cublasLtHandle_t handle, void* workspace, const Product& p) {
  // cuBLASLt matrices are column-major: D[m,n] = op(A) op(B) is the transpose of the row-major product.
  const bool forward = p.pass == Pass::forward, weight = p.pass == Pass::weight;
  const int64_t m = forward ? p.out : p.in, n = weight ? p.out : p.rows;
  const int64_t k = forward ? p.in : weight ? p.rows : p.out;
  const cublasOperation_t of_a = forward ? CUBLAS_OP_T : CUBLAS_OP_N,
                          of_b = weight ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t a, b, d;
  CHECK(cublasLtMatmulDescCreate(&product, p.compute, CUDA_R_32F));
  const auto set = [&](cublasLtMatmulDescAttributes_t what, const auto& value) {
    CHECK(cublasLtMatmulDescSetAttribute(product, what, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, of_a);
  set(CUBLASLT_MATMUL_DESC_TRANSB, of_b);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
  const int64_t a_rows = forward ? k : m, a_columns = forward ? m : k, b_rows = weight ? n : k,
                b_columns = weight ? k : n;
  CHECK(cublasLtMatrixLayoutCreate(&a, p.input, a_rows, a_columns, a_rows));
  CHECK(cublasLtMatrixLayoutCreate(&b, p.input, b_rows, b_columns, b_rows));
  CHECK(cublasLtMatrixLayoutCreate(&d, p.output, m, n, m));

  const size_t bytes = (m * k + k * n) * size_of(p.input) + m * n * size_of(p.output);
  const int copies = static_cast<int>(std::clamp<size_t>((kBeyondCache + bytes - 1) / bytes, 1, 64));
  const Buffer of_A(m * k, p.input, copies), of_B(k * n, p.input, copies), of_D(m * n, p.output, copies);
  const bool has_aux = p.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
                       p.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD || p.epilogue == CUBLASLT_EPILOGUE_DGELU;
  const Buffer aux(has_aux ? m * n : 1, CUDA_R_16BF, copies), bias(std::max(m, n), CUDA_R_32F, 1);
  if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data);  // cuBLASLt rejects the epilogue without it
  if (has_aux) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.data);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, m);
  }

  cublasLtMatmulPreference_t preference;
  CHECK(cublasLtMatmulPreferenceCreate(&preference));
  CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &kWorkspace, sizeof kWorkspace));
  cublasLtMatmulHeuristicResult_t proposed[8];
  int count = 0;
  const cublasStatus_t asked =
      cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, d, d, preference, 8, proposed, &count);
  const float one = 1, beta = p.accumulates ? 1 : 0;
  double first = 0, best = 0;
  for (int i = 0; asked == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    const double us = microseconds([&](int call) {
      const int at = call % copies;
      if (has_aux) {
        void* aux_at = aux.at(at);
        set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux_at);
      }
      const auto now =
          cublasLtMatmul(handle, product, &one, of_A.at(at), a, of_B.at(at), b, &beta, of_D.at(at), d,
                         of_D.at(at), d, &proposed[i].algo, workspace, kWorkspace, stream);
      if (now != CUBLAS_STATUS_SUCCESS) status = now;
    });
    if (status != CUBLAS_STATUS_SUCCESS) continue;
    if (first == 0) first = us;
    if (best == 0 || us < best) best = us;
  }
  static const char* passes[] = {"forward", "data gradient", "weight gradient"};
  std::printf(
      "{\"product\": \"%s\", \"pass\": \"%s\", \"M\": %lld, \"N\": %lld, \"K\": %lld, \"epilogue\": \"%s\", "
      "\"type\": \"%s%s%s\"",
      p.name.c_str(), passes[static_cast<int>(p.pass)], static_cast<long long>(p.rows),
      static_cast<long long>(p.out), static_cast<long long>(p.in), name_of(p.epilogue),
      p.input == CUDA_R_16BF                      ? "bf16"
      : p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? "tf32"
                                                  : "fp32",
      p.output == p.input ? "" : ", fp32 out", p.accumulates ? ", added" : "");
  if (best == 0) {
    std::printf(", \"refused\": %d}\n", static_cast<int>(asked));
  } else {
    std::printf(
        ", \"us\": %.2f, \"proposed_us\": %.2f, \"TFLOPs\": %.1f, \"GBps\": %.0f}\n", best, first,
        2e-6 * static_cast<double>(p.rows) * static_cast<double>(p.out) * static_cast<double>(p.in) / best,
        static_cast<double>(bytes) / best * 1e-3);
  }
  std::fflush(stdout);
  CHECK(cublasLtMatmulPreferenceDestroy(preference));
  CHECK(cublasLtMatrixLayoutDestroy(a));
  CHECK(cublasLtMatrixLayoutDestroy(b));
  CHECK(cublasLtMatrixLayoutDestroy(d));
  CHECK(cublasLtMatmulDescDestroy(product));
}

// Adds a linear layer in training: each pass with the epilogue that a fused training step would use, and
// without it.
void add_layer(std::vector<Product>& to, const std::string& name, int64_t rows, int64_t out, int64_t in,
               bool bias, cublasLtEpilogue_t forward, cublasLtEpilogue_t data) {
  to.push_back({name, Pass::forward, rows, out, in});
  if (forward != CUBLASLT_EPILOGUE_DEFAULT) to.push_back({name, Pass::forward, rows, out, in, forward});
  to.push_back({name, Pass::data, rows, out, in});
  if (data != CUBLASLT_EPILOGUE_DEFAULT) to.push_back({name, Pass::data, rows, out, in, data});
  to.push_back({name, Pass::weight, rows, out, in});
  if (bias) to.push_back({name, Pass::weight, rows, out, in, CUBLASLT_EPILOGUE_BGRADB});
  to.push_back({name, Pass::weight, rows, out, in, CUBLASLT_EPILOGUE_DEFAULT, CUDA_R_16BF, CUDA_R_32F,
                CUBLAS_COMPUTE_32F, true});
}

std::vector<Product> products() {
  const auto none = CUBLASLT_EPILOGUE_DEFAULT, bias = CUBLASLT_EPILOGUE_BIAS,
             gelu = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  const auto dgelu = CUBLASLT_EPILOGUE_DGELU_BGRAD;
  std::vector<Product> all{{"square 8192", Pass::forward, 8192, 8192, 8192}};
  const int64_t g = 32 * 1024;
  add_layer(all, "gpt2 qkv", g, 2304, 768, true, bias, none);
  add_layer(all, "gpt2 attention out", g, 768, 768, true, bias, none);
  add_layer(all, "gpt2 up", g, 3072, 768, true, gelu, none);
  add_layer(all, "gpt2 down", g, 768, 3072, true, bias, dgelu);
  add_layer(all, "gpt2 head", g, 50304, 768, false, none, none);
  all.push_back({"gpt2 head, vocabulary not padded", Pass::forward, g, 50257, 768});
  const int64_t s = 64 * 256;
  add_layer(all, "mini-gpt qkv", s, 1152, 384, false, none, none);
  add_layer(all, "mini-gpt attention out", s, 384, 384, false, none, none);
  add_layer(all, "mini-gpt up", s, 1536, 384, true, gelu, none);
  add_layer(all, "mini-gpt down", s, 384, 1536, true, bias, dgelu);
  for (const auto compute : {CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F})
    all.push_back({"gpt2 up", Pass::forward, g, 3072, 768, none, CUDA_R_32F, CUDA_R_32F, compute});
  for (const int64_t rows : {1, 8, 16, 64, 512}) {
    all.push_back({"llama-1b qkv", Pass::forward, rows, 3072, 2048});
    all.push_back({"llama-1b attention out", Pass::forward, rows, 2048, 2048});
    all.push_back({"llama-1b gate and up", Pass::forward, rows, 16384, 2048});
    all.push_back({"llama-1b down", Pass::forward, rows, 2048, 8192});
    all.push_back({"llama-1b head", Pass::forward, rows, 32000, 2048});
  }
  return all;
}

}  // namespace

int main() {
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  CHECK(cudaStreamCreate(&stream));
  std::printf("{\"device\": \"%s\", \"multiprocessors\": %d, \"l2_MiB\": %d, \"cublasLt\": %zu}\n",
              device.name, device.multiProcessorCount, device.l2CacheSize >> 20, cublasLtGetVersion());
  measure_memory(device.multiProcessorCount);
  measure_launches();
  cublasLtHandle_t handle;
  void* workspace;
  CHECK(cublasLtCreate(&handle));
  CHECK(cudaMalloc(&workspace, kWorkspace));
  for (const Product& product : products())
    measure_product(handle, workspace, product);
  CHECK(cudaFree(workspace));
  CHECK(cublasLtDestroy(handle));
}
