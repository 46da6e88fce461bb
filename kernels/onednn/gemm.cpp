// oneDNN's products: by AVX-512's instructions for BF16 where all numbers are BF16's and the
// processor has these, otherwise in FP32. The order of sums depends on shape and processor; those
// instructions take subnormal numbers for zero.
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <dnnl.hpp>
#include <vector>

#include "kernels/backend.hpp"
#include "number/outcome.hpp"

namespace plumb::kernels {
namespace {

using dnnl::memory;

// AMX is left out: with K = 18 oneDNN 2.6 zeroes tiles that it has not configured, which ends the
// program.
dnnl::engine& processor() {
  static dnnl::engine engine = [] {
    if (dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16) != dnnl::status::success) {
      throw Failure("oneDNN was used before its instructions could be chosen");
    }
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

// The instructions that oneDNN's BF16 products need, and its FP32 ones do not.
bool has_bf16_products() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}

// Keeps a product on this thread: ranks are threads already, and oneDNN may be built on OpenMP.
void stay_on_this_thread() {
  using SetThreads = void(int);
  static void* const set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
  thread_local bool told = false;
  if (!told && set_threads != nullptr) reinterpret_cast<SetThreads*>(set_threads)(1);
  told = true;
}

// (rows, cols) of a view, as they lie.
memory::desc layout_of(const View<float>& v) {
  const auto stride = static_cast<memory::dim>(v.stride);
  return {{static_cast<memory::dim>(v.rows), static_cast<memory::dim>(v.cols)},
          memory::data_type::bf16,
          v.transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

bool is_bf16(float x) { return (std::bit_cast<std::uint32_t>(x) & 0xffffU) == 0; }

// Returns the upper halves of all numbers between the first and the last; empty if one of them is
// no BF16 number.
std::vector<std::uint16_t> in_bf16(const View<float>& v) {
  const std::size_t lines = v.transposed ? v.cols : v.rows, line = v.transposed ? v.rows : v.cols;
  if (!std::all_of(v.data, v.data + line, is_bf16)) return {};  // as a rule, one of the first
  std::vector<std::uint16_t> halves((lines - 1) * v.stride + line);
  for (std::size_t i = 0; i < lines; ++i) {
    for (std::size_t j = 0; j < line; ++j) {
      const float x = v.data[i * v.stride + j];
      if (!is_bf16(x)) return {};
      halves[i * v.stride + j] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
    }
  }
  return halves;
}

void product_in_fp32(const View<float>& a, const View<float>& b, float* c, std::size_t c_stride,
                     bool accumulate) {
  const auto size = [](std::size_t n) { return static_cast<dnnl_dim_t>(n); };
  const dnnl::status done = dnnl::sgemm(
      a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', size(a.rows), size(b.cols), size(a.cols),
      1, a.data, size(a.stride), b.data, size(b.stride), accumulate ? 1 : 0, c, size(c_stride));
  if (done != dnnl::status::success) throw Failure("oneDNN refuses a product of FP32");
}

void product_in_bf16(const View<float>& a, const void* of_a, const View<float>& b, const void* of_b,
                     float* c, std::size_t c_stride, bool accumulate) {
  const memory::desc out({static_cast<memory::dim>(a.rows), static_cast<memory::dim>(b.cols)},
                         memory::data_type::f32,
                         memory::dims{static_cast<memory::dim>(c_stride), 1});
  dnnl::primitive_attr onto;
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1);
    onto.set_post_ops(sum);
  }
  const memory::desc left = layout_of(a), right = layout_of(b);
  const dnnl::matmul multiply({{left, right, out}, onto, processor()});
  dnnl::stream stream(processor());
  // oneDNN only reads its sources.
  multiply.execute(stream, {{DNNL_ARG_SRC, {left, processor(), const_cast<void*>(of_a)}},
                            {DNNL_ARG_WEIGHTS, {right, processor(), const_cast<void*>(of_b)}},
                            {DNNL_ARG_DST, {out, processor(), c}}});
  stream.wait();
}

void gemm(View<float> a, View<float> b, float* c, std::size_t c_stride, bool accumulate) {
  if (a.rows == 0 || b.cols == 0) return;
  if (a.cols == 0) {
    for (std::size_t i = 0; i < a.rows && !accumulate; ++i) {
      std::fill_n(c + i * c_stride, b.cols, 0.0F);
    }
    return;
  }
  stay_on_this_thread();
  processor();  // before anything else of oneDNN, which then keeps to the instructions it knows
  const std::vector<std::uint16_t> left =
      has_bf16_products() ? in_bf16(a) : std::vector<std::uint16_t>();
  const std::vector<std::uint16_t> right = left.empty() ? std::vector<std::uint16_t>() : in_bf16(b);
  if (right.empty()) {
    product_in_fp32(a, b, c, c_stride, accumulate);
  } else {
    product_in_bf16(a, left.data(), b, right.data(), c, c_stride, accumulate);
  }
}

}  // namespace

extern const Backend onednn_backend{
    .name = "onednn",
    .description =
        "oneDNN: BF16 numbers by the processor's own BF16 instructions, others in FP32; the order "
        "of sums depends on shape and processor",
    .slice_invariant = false,
    .usable_here = [] { return true; },
    .gemm = gemm,
};

}  // namespace plumb::kernels
