#include "probe/tables.hpp"

#include <algorithm>
#include <memory>

#include "kernels/ops.hpp"
#include "number/exponential.hpp"

namespace plumb::probe {
namespace {

Tensor softmax_by_kernel(const Tensor& x) {
  Tensor p = x;
  const std::vector<std::size_t> sees_all(x.rows, x.cols - 1);
  causal_softmax(p, {1, 1, 1, x.cols, sees_all}, 0, 0);
  return p;
}

// One function for all tables; whatever is drawn by chance goes on from table to table.
Tables each(Tensor (*made)(const Tensor&, const Emulated&), const Emulated& device) {
  return [made, device, asked = std::make_shared<std::uint64_t>(0)](const std::vector<Tensor>& x) {
    std::vector<Tensor> all;
    for (const Tensor& table : x) {
      Emulated now = device;
      now.key += ++*asked << 32;
      all.push_back(made(table, now));
    }
    return all;
  };
}
Tables each(Tensor (*made)(const Tensor&)) {
  return [made](const std::vector<Tensor>& x) {
    std::vector<Tensor> all;
    for (const Tensor& table : x) all.push_back(made(table));
    return all;
  };
}

Function cast_to(const Format& format) {
  return [format](const std::vector<float>& x, const std::vector<float>&) {
    std::vector<float> y = x;
    round_to_format(y, format);
    return y;
  };
}

}  // namespace

Tensor emulated_column_sum(const Tensor& x, const Emulated& device) {
  const Tensor ones(x.rows, 1, 1.0F);
  return emulated_product(view(x, true), view(ones), device);
}

Tensor emulated_softmax(const Tensor& x, const Emulated& device) {
  Tensor p = x;
  const Tensor ones(x.cols, 1, 1.0F);
  for (std::size_t i = 0; i < p.rows; ++i) {
    float* row = p.row(i);
    const float largest = *std::max_element(row, row + p.cols);
    for (std::size_t j = 0; j < p.cols; ++j) row[j] = exp(row[j] - largest);
  }
  const Tensor sums = emulated_product(view(p), view(ones), device);
  for (std::size_t i = 0; i < p.rows; ++i) {
    for (std::size_t j = 0; j < p.cols; ++j) p(i, j) /= sums.values[i];
  }
  return p;
}

void offer_emulated(Subject& subject, const Emulated& column_sum, const Emulated& softmax) {
  subject.tables["column_sum"] = each(emulated_column_sum, column_sum);
  subject.tables["softmax"] = each(emulated_softmax, softmax);
}

void offer_kernels(Subject& subject) {
  subject.tables["column_sum"] = each(sum_of_rows);
  subject.tables["softmax"] = each(softmax_by_kernel);
  for (const Format& format : {bf16, fp16, e4m3fn, e5m2}) {
    subject.functions["cast_" + std::string(format.name)] = cast_to(format);
  }
}

}  // namespace plumb::probe
