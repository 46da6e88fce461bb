#include <array>
#include <numeric>
#include <stdexcept>

#include "bounds/operation.hpp"
#include "bounds/proof/error_moments.hpp"
#include "bounds/proof/running_error.hpp"
#include "bounds/tolerance.hpp"
#include "number/catalogue.hpp"
#include "number/philox.hpp"

namespace plumb::bounds {

#define OPERATION(name) extern const Operation name;
#include "bounds/operations.inc"
#undef OPERATION

namespace {
const Catalogue<Operation>& catalogue() {
  static constexpr const Operation* cards[] = {
#define OPERATION(name) &name,
#include "bounds/operations.inc"
#undef OPERATION
  };
  static constexpr Catalogue<Operation> all("operation", &Operation::id, cards);
  return all;
}
}  // namespace

std::span<const Operation* const> all_operations() { return catalogue().cards(); }
const Operation* find_operation(std::string_view id) { return catalogue().find(id); }
const Operation& known_operation(std::string_view id) { return catalogue().at(id); }

std::string_view name_of(Mode mode) {
  constexpr std::array names{"deterministic", "probabilistic", "moments"};
  return names[static_cast<std::size_t>(mode)];
}

std::string_view name_of(SumOrder order) {
  constexpr std::array names{"sums in the order that its file promises", "no sums",
                             "sums in any order", "sums one after the other",
                             "sums as a balanced tree"};
  return names[static_cast<std::size_t>(order)];
}

namespace {
double attribute_of(const Attributes& attributes, std::string_view name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) {
    throw std::invalid_argument("the operation needs the attribute '" + std::string(name) + "'");
  }
  return found->second;
}
}  // namespace

template <class T>
double Call<T>::attribute(std::string_view name) const {
  return attribute_of(attributes, name);
}
template struct Call<float>;
template struct Call<double>;
template struct Call<RunningError>;
template struct Call<WorstError>;
template struct Call<ErrorMoments>;
template struct Call<BigFloat>;

double ToleranceCall::attribute(std::string_view name) const {
  return attribute_of(attributes, name);
}

namespace {

// Cut `number`, between pieces that end at `end`, each `piece` long; of a draw moved by up to half a
// piece: as far as this draw lies from the one that the candidate stands for.
std::size_t moved(std::size_t end, std::size_t piece, const TokenSharding& tokens,
                  std::uint64_t number) {
  if (tokens.key == 0) return end;
  const auto at = [&](std::uint64_t key) {
    return static_cast<std::size_t>(uniform(key, number) * static_cast<double>(piece / 2 + 1));
  };
  return end + at(tokens.key) - at(tokens.candidates_key);
}

// Zigzag: the numbers of n rows in rank order, and where each rank's begin.
SumPartition zigzag(std::size_t n, const TokenSharding& tokens) {
  const auto ranks = static_cast<std::size_t>(tokens.ranks);
  const auto sequence = static_cast<std::size_t>(tokens.sequence);
  const std::size_t chunks = 2 * ranks, chunk = sequence / chunks;
  if (chunk == 0 || sequence % chunks != 0 || n % sequence != 0) {
    throw std::invalid_argument("tokens are dealt in whole sequences of equal chunks");
  }
  const auto begin = [&](std::size_t first, std::size_t c) {
    return c == 0 || c == chunks ? first + c * chunk
                                 : moved(first + c * chunk, chunk, tokens, first + c);
  };
  SumPartition all{{}, {0}};
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t first = 0; first < n; first += sequence) {
      for (const std::size_t c : {r, chunks - 1 - r}) {
        for (std::size_t i = begin(first, c); i < begin(first, c + 1); ++i) all.order.push_back(i);
      }
    }
    all.begins.push_back(all.order.size());
  }
  return all;
}

}  // namespace

std::vector<std::size_t> rows_in_rank_order(std::size_t n, const TokenSharding& tokens) {
  if (tokens.ranks > 1) return zigzag(n, tokens).order;
  std::vector<std::size_t> rows(n);
  std::iota(rows.begin(), rows.end(), std::size_t(0));
  return rows;
}

Evaluation bounding(Evaluation how) {
  const bool shorter = how.output != fp32 && how.output != fp64;
  if (how.by_chance && shorter) how.output.precision = find_format(how.output.name)->precision - 1;
  return how;
}

SumPartition parting(std::size_t n, const Evaluation& how) {
  const TokenSharding& tokens = how.tokens;
  SumPartition of_ranks =
      tokens.ranks > 1 ? zigzag(n, tokens) : SumPartition{rows_in_rank_order(n, tokens), {0, n}};
  if (how.parts % tokens.ranks != 0) of_ranks.begins = {0, n};
  const auto blocks = static_cast<int>(of_ranks.begins.size()) - 1;
  const int each = how.parts / blocks;  // parts of a rank's own
  SumPartition all{std::move(of_ranks.order), {}};
  for (int p = 0; p < how.parts; ++p) {
    const std::size_t first = of_ranks.begins[static_cast<std::size_t>(p / each)];
    const std::size_t length = of_ranks.begins[static_cast<std::size_t>(p / each) + 1] - first;
    const std::size_t begin = first + slice(length, each, p % each).first;
    const std::size_t piece = length / static_cast<std::size_t>(each);
    const auto number = static_cast<std::uint64_t>(n) + static_cast<std::uint64_t>(p);
    all.begins.push_back(p % each == 0 ? begin : moved(begin, piece, tokens, number));
  }
  all.begins.push_back(n);
  return all;
}

template <class T>
Matrix<T> sum_in_rank_order(std::vector<Matrix<T>>&& parts, const Evaluation& how,
                            Roundings<T>& roundings) {
  if (parts.size() == 1) return std::move(parts[0]);
  if constexpr (std::is_same_v<T, RunningError>) {
    if (how.any_rank_order) return sum_in_any_rank_order(std::move(parts), how.wire, roundings);
  }
  roundings.before_parts(parts, how.wire);
  roundings.round(parts[0], how.wire);
  Matrix<T> total = std::move(parts[0]);
  for (std::size_t p = 1; p < parts.size(); ++p) {
    roundings.round(parts[p], how.wire);
    for (std::size_t e = 0; e < total.size(); ++e) total.values[e] += parts[p].values[e];
    roundings.round(total, how.wire);
  }
  return total;
}
template Matrix<float> sum_in_rank_order(std::vector<Matrix<float>>&&, const Evaluation&,
                                         Roundings<float>&);
template Matrix<double> sum_in_rank_order(std::vector<Matrix<double>>&&, const Evaluation&,
                                          Roundings<double>&);
template Matrix<RunningError> sum_in_rank_order(std::vector<Matrix<RunningError>>&&,
                                                const Evaluation&, Roundings<RunningError>&);
template Matrix<ErrorMoments> sum_in_rank_order(std::vector<Matrix<ErrorMoments>>&&,
                                                const Evaluation&, Roundings<ErrorMoments>&);
template Matrix<BigFloat> sum_in_rank_order(std::vector<Matrix<BigFloat>>&&, const Evaluation&,
                                            Roundings<BigFloat>&);

}  // namespace plumb::bounds
