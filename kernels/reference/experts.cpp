#include "kernels/experts.hpp"

#include <algorithm>
#include <cmath>

#include "number/exponential.hpp"

namespace plumb::kernels {
namespace {

std::size_t chosen(const Tensor& choices, std::size_t token, std::size_t slot) {
  return static_cast<std::size_t>(choices(token, slot));
}

// The experts of one token by falling rating, the first of equal ones first.
std::vector<std::size_t> by_falling_rating(const float* ratings, std::size_t experts) {
  std::vector<std::size_t> order;
  for (std::size_t e = 0; e < experts; ++e) {
    std::size_t at = order.size();
    while (at > 0 && ratings[order[at - 1]] < ratings[e]) --at;
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(at), e);
  }
  return order;
}

}  // namespace

Ratings rate_experts(const Tensor& logits, const Tensor& ratings, std::size_t k) {
  Ratings r{Tensor(logits.rows, logits.cols), Tensor(logits.rows, 1), Tensor(logits.rows, 1)};
  for (std::size_t t = 0; t < logits.rows; ++t) {
    const float* x = logits.row(t);
    const float largest = *std::max_element(x, x + logits.cols);
    float sum = 0;
    for (std::size_t e = 0; e < logits.cols; ++e) {
      r.p(t, e) = exp(x[e] - largest);
      sum += r.p(t, e);
    }
    for (std::size_t e = 0; e < logits.cols; ++e) r.p(t, e) /= sum;
    const auto order = by_falling_rating(ratings.row(t), logits.cols);
    r.margin.values[t] = ratings(t, order[k - 1]) - ratings(t, order[k]);
    r.lse.values[t] = largest + std::log(sum);
  }
  return r;
}

Tensor choose_experts(const Tensor& ratings, std::size_t k) {
  Tensor choices(ratings.rows, k);
  for (std::size_t t = 0; t < ratings.rows; ++t) {
    const auto order = by_falling_rating(ratings.row(t), ratings.cols);
    for (std::size_t j = 0; j < k; ++j) choices(t, j) = static_cast<float>(order[j]);
  }
  return choices;
}

Tensor within_capacity(Tensor choices, std::size_t experts, std::size_t most) {
  std::vector<std::size_t> taken(experts);
  for (float& choice : choices.values) {
    std::size_t& so_far = taken[static_cast<std::size_t>(choice)];
    if (so_far < most) {
      ++so_far;
    } else {
      choice = static_cast<float>(experts);
    }
  }
  return choices;
}

Tensor count_choices(const Tensor& choices, std::size_t experts) {
  Tensor count(experts, 1);
  for (const float choice : choices.values) count.values[static_cast<std::size_t>(choice)] += 1;
  return count;
}

Copies copies_of(const Tensor& choices, std::size_t experts) {
  Copies copies;
  copies.slots = choices.cols;
  copies.row.resize(choices.size());
  for (std::size_t e = 0; e <= experts; ++e) {  // the last is none
    copies.begin.push_back(copies.rows());
    for (std::size_t i = 0; i < choices.size(); ++i) {
      if (static_cast<std::size_t>(choices.values[i]) != e) continue;
      copies.row[i] = copies.rows();
      copies.token.push_back(i / choices.cols);
    }
  }
  return copies;
}

Tensor copy_tokens(const Tensor& x, const Copies& copies) {
  Tensor rows(copies.rows(), x.cols);
  for (std::size_t r = 0; r < copies.begin.back(); ++r)
    std::copy_n(x.row(copies.token[r]), x.cols, rows.row(r));
  return rows;
}

Tensor weigh_rows(const Tensor& rows, const Copies& copies, const Tensor& p, const Tensor& choices,
                  std::size_t first) {
  Tensor y(p.rows, rows.cols);
  for (std::size_t t = 0; t < y.rows; ++t) {
    for (std::size_t j = 0; j < copies.slots; ++j) {
      const std::size_t r = copies.row[(first + t) * copies.slots + j];
      if (copies.dropped(r)) continue;
      const float weight = p(t, chosen(choices, t, j));
      const float* row = rows.row(r);
      for (std::size_t d = 0; d < y.cols; ++d) y(t, d) = std::fma(weight, row[d], y(t, d));
    }
  }
  return y;
}

Tensor add_rows(const Tensor& rows, const Copies& copies, std::size_t first, std::size_t tokens) {
  Tensor y(tokens, rows.cols);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t j = 0; j < copies.slots; ++j) {
      const std::size_t r = copies.row[(first + t) * copies.slots + j];
      if (copies.dropped(r)) continue;
      const float* row = rows.row(r);
      for (std::size_t d = 0; d < y.cols; ++d) y(t, d) += row[d];
    }
  }
  return y;
}

Tensor weight_gradient(const Tensor& dy, const Tensor& rows, const Copies& copies,
                       const Tensor& choices, std::size_t experts, std::size_t first) {
  Tensor dp(dy.rows, experts);
  for (std::size_t t = 0; t < dy.rows; ++t) {
    for (std::size_t j = 0; j < copies.slots; ++j) {
      const std::size_t r = copies.row[(first + t) * copies.slots + j];
      if (copies.dropped(r)) continue;
      const float* row = rows.row(r);
      float& along = dp(t, chosen(choices, t, j));
      for (std::size_t d = 0; d < dy.cols; ++d) along = std::fma(dy(t, d), row[d], along);
    }
  }
  return dp;
}

Tensor spread_gradient(const Tensor& dy, const Tensor& p, const Tensor& choices,
                       const Copies& copies) {
  Tensor rows(copies.rows(), dy.cols);
  for (std::size_t t = 0; t < dy.rows; ++t) {
    for (std::size_t j = 0; j < copies.slots; ++j) {
      const std::size_t r = copies.row[t * copies.slots + j];
      if (copies.dropped(r)) continue;
      const float weight = p(t, chosen(choices, t, j));
      float* row = rows.row(r);
      for (std::size_t d = 0; d < dy.cols; ++d) row[d] = weight * dy(t, d);
    }
  }
  return rows;
}

Tensor rating_gradient(const Ratings& ratings, const Tensor& dp, const Tensor& count,
                       double balance, double z, float loss_scale) {
  const auto share = static_cast<float>(balance) * loss_scale;
  const auto twice_z = static_cast<float>(2 * z) * loss_scale;
  const Tensor& p = ratings.p;
  Tensor dx(p.rows, p.cols);
  for (std::size_t t = 0; t < p.rows; ++t) {
    float along = 0;
    for (std::size_t e = 0; e < p.cols; ++e) {
      dx(t, e) = std::fma(share, count.values[e], dp(t, e));
      along = std::fma(p(t, e), dx(t, e), along);
    }
    const float off = twice_z * ratings.lse.values[t] - along;
    for (std::size_t e = 0; e < p.cols; ++e) dx(t, e) = p(t, e) * (dx(t, e) + off);
  }
  return dx;
}

}  // namespace plumb::kernels
