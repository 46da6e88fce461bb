// Eigen's SGEMM. Its blocking, and so the order of each sum, depends on the shape of the product.
// GCC 12 takes a deliberately undefined register of its own AVX-512 header for a mistake (bug
// 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>

#include "kernels/backend.hpp"

namespace plumb::kernels {
namespace {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Stride = Eigen::OuterStride<>;
using Stored = Eigen::Map<const Rows, 0, Stride>;

Stored stored(const View<float>& v) {
  const auto rows = static_cast<Eigen::Index>(v.transposed ? v.cols : v.rows);
  const auto cols = static_cast<Eigen::Index>(v.transposed ? v.rows : v.cols);
  return {v.data, rows, cols, Stride(static_cast<Eigen::Index>(v.stride))};
}

void gemm(View<float> a, View<float> b, float* c, std::size_t c_stride, bool accumulate) {
  Eigen::Map<Rows, 0, Stride> out(c, static_cast<Eigen::Index>(a.rows),
                                  static_cast<Eigen::Index>(b.cols),
                                  Stride(static_cast<Eigen::Index>(c_stride)));
  if (!accumulate) out.setZero();
  const Stored left = stored(a);
  const Stored right = stored(b);
  if (a.transposed && b.transposed) out.noalias() += left.transpose() * right.transpose();
  if (a.transposed && !b.transposed) out.noalias() += left.transpose() * right;
  if (!a.transposed && b.transposed) out.noalias() += left * right.transpose();
  if (!a.transposed && !b.transposed) out.noalias() += left * right;
}

}  // namespace

extern const Backend eigen_backend{
    .name = "eigen",
    .description = "Eigen's blocked FP32 product; the order of sums depends on the shape",
    .slice_invariant = false,
    .usable_here = [] { return true; },
    .gemm = gemm,
};

}  // namespace plumb::kernels
