#include "bounds/examples/shaped.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <sstream>

#include "bounds/examples/maker.hpp"
#include "number/outcome.hpp"
#include "number/philox.hpp"
#include "number/words.hpp"

namespace plumb::bounds {
namespace {

std::vector<std::size_t> sizes_of(const std::string& shape, std::size_t count,
                                  const std::string& expected) {
  std::vector<std::size_t> sizes;
  std::istringstream in(shape);
  for (std::string part; std::getline(in, part, 'x');) {
    std::size_t n = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), n);
    const bool whole = read.ec == std::errc() && read.ptr == part.data() + part.size();
    sizes.push_back(whole ? n : 0);
  }
  const bool possible = std::ranges::all_of(sizes, [](std::size_t n) { return n > 0; });
  if (sizes.size() == count && possible && !shape.ends_with('x')) return sizes;
  throw Failure("shape '" + shape + "' does not fit; write " + expected);
}

}  // namespace

double normal_at(std::uint64_t input, std::uint64_t element) {
  const double radius = std::sqrt(-2 * std::log(1 - uniform(2 * input, element)));
  return radius * std::cos(2 * std::numbers::pi * uniform(2 * input + 1, element));
}

std::vector<std::string> shaped_operations() {
  std::vector<std::string> all;
  for (const Operation* operation : all_operations()) all.emplace_back(operation->id);
  return all;
}

std::string usual_shape(const std::string& operation) {
  return std::string(known_operation(operation).examples.usual);
}

std::vector<std::size_t> sizes_of_shape(const std::string& operation, const std::string& shape) {
  const bool three = std::ranges::count(known_operation(operation).examples.usual, 'x') == 2;
  return three ? sizes_of(shape, 3, "MxKxN, e.g. 64x4096x64")
               : sizes_of(shape, 2, "ROWSxCOLUMNS, e.g. 16x4096");
}

Example shaped_example(const std::string& operation, const std::string& shape, const Format& inputs,
                       const DrawAt& draw) {
  const Examples& examples = known_operation(operation).examples;
  auto sizes = sizes_of_shape(operation, shape);
  const bool three = sizes.size() == 3;
  Example e{operation, {}, {}, {}};
  Maker maker(std::move(sizes), inputs, draw, e);
  if (!three) maker.limit_values({maker.rows, maker.cols});
  examples.shaped(maker);
  keep_known_attributes(e);
  return e;
}

}  // namespace plumb::bounds
