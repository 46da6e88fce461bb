// tests/cli/judging.hpp: kernels in plain C++ that share nothing with the project and add in orders of
// their own, and plumb judge called on what they make.
#pragma once

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/support/tensors.hpp"

namespace plumb {

using Floats32 = std::vector<float>;

// Numbers in (-1, 1), the same in every run.
inline Floats32 numbers(std::size_t n, std::uint64_t seed) {
  Floats32 all(n);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (float& x : all) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    x = static_cast<float>(static_cast<double>(state >> 40) * 0x1p-23 - 1);
  }
  return all;
}

// Eight lanes, then a tree over them: the order of a processor's vector unit.
template <class F>
float in_lanes(std::size_t n, const F& term) {
  std::array<float, 8> lanes{};
  for (std::size_t j = 0; j < n; ++j) lanes[j % 8] += term(j);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

inline Floats32 softmax(const Floats32& x, std::size_t cols,
                        std::size_t forgotten_row = ~std::size_t(0), std::size_t forgotten = 0) {
  Floats32 p(x.size());
  for (std::size_t row = 0; row < x.size() / cols; ++row) {
    const float* in = x.data() + row * cols;
    const float largest = *std::max_element(in, in + cols);
    const float sum = in_lanes(cols, [&](std::size_t j) {
      return row == forgotten_row && j == forgotten ? 0.0F : std::exp(in[j] - largest);
    });
    for (std::size_t j = 0; j < cols; ++j) p[row * cols + j] = std::exp(in[j] - largest) / sum;
  }
  return p;
}

inline Floats32 layer_norm(const Floats32& x, const Floats32& w, const Floats32& b, float eps,
                           bool eps_in_root) {
  const std::size_t n = w.size();
  Floats32 y(x.size());
  for (std::size_t row = 0; row < x.size() / n; ++row) {
    const float* in = x.data() + row * n;
    const float mean = in_lanes(n, [&](std::size_t j) { return in[j]; }) / static_cast<float>(n);
    const float squares =
        in_lanes(n, [&](std::size_t j) { return (in[j] - mean) * (in[j] - mean); }) /
        static_cast<float>(n);
    const float r = eps_in_root ? 1 / std::sqrt(squares + eps) : 1 / (std::sqrt(squares) + eps);
    for (std::size_t j = 0; j < n; ++j) y[row * n + j] = (in[j] - mean) * r * w[j] + b[j];
  }
  return y;
}

class Judging : public InFolder {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-judging-"); }
  static void write(const std::string& name, const std::vector<Written>& tensors) {
    write_bytes(at(name), safetensors(tensors));
  }
  // What is said of these two files, in `words`, with an exit code.
  static std::string said(const std::string& op, const std::string& in, const std::string& out,
                          int code, const std::string& words = "") {
    const Said r =
        plumb("judge " + op + " --inputs " + at(in) + " --output " + at(out) + " " + words);
    EXPECT_EQ(r.code, code) << r.out;
    return r.out;
  }
  static nlohmann::json document(const std::string& op, const std::string& in,
                                 const std::string& out, int code, const std::string& words = "") {
    return nlohmann::json::parse(said(op, in, out, code, words + " --json"));
  }
};

}  // namespace plumb
