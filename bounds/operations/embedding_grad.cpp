// embedding_grad: dTable[v] = sum of dy_t over the tokens t with key_t = v
//
//   inputs       keys (T, 1): ids, or positions; dy (T, D)        dTable (V, D)
//   attributes   rows: V; period: 0 takes the key from the input, S > 0 takes t mod S
//   evaluate     tokens in `parts` slices; each a chain of FP32 additions in token order
//   forms        fp32, as above; stored: each sum is kept in the output's format, and rounded to it
//                when a token is added [PyTorch-Embedding]
// SOURCES  theory.md D7; bounds/SOURCES.md [PyTorch-Embedding]
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/index.hpp"
#include "bounds/sum.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

constexpr List<Form> forms{{"fp32", true}, {"stored", false, true}};

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const Matrix<T>& keys = call[0];
  const Matrix<T>& dy = call[1];
  const std::size_t rows = call.count("rows"), period = call.count("period");
  if (period > rows) throw std::invalid_argument("embedding_grad: more positions than rows");
  const auto [order, begins] = parting(dy.rows, call.how);
  SumsIn in = call.sums;
  if (call.form == 1) in.kept = call.how.output;
  std::vector<Matrix<T>> parts;
  for (std::size_t p = 0; p + 1 < begins.size(); ++p) {
    SumTable<T> part(rows, dy.cols, in);
    for (std::size_t i = begins[p]; i < begins[p + 1]; ++i) {
      const std::size_t t = order[i];
      const std::size_t v =
          period > 0 ? t % period : index_of(keys.values[t], rows, "embedding_grad: a key");
      for (std::size_t j = 0; j < dy.cols; ++j) part.add(v, j, dy(t, j));
    }
    parts.push_back(std::move(part).totals());
  }
  Matrix<T> table = sum_in_rank_order(std::move(parts), call.how, call.roundings);
  call.roundings.round(table, call.how.output);
  return as_outputs(std::move(table));
}

void random(RandomCall& c) {
  c.add(c.draw.whole(c.rows, 7));
  c.table();
  c.e.attributes = {{"rows", 7}, {"period", c.draw.coin() ? 0 : 7}};
  c.shard_tokens(c.rows);
}

// ROWS tokens of a table with as many rows.
void shaped(Maker& m) {
  m.filled(m.rows, 1, 0);
  for (std::size_t t = 0; t < m.rows; ++t) {
    m.e.inputs.back().values[t] = static_cast<double>(t * 7 % m.rows);
  }
  m.table();
  m.e.attributes = {{"rows", static_cast<double>(m.rows)}, {"period", 0}};
}

}  // namespace

extern const Operation embedding_grad{
    .id = "embedding_grad",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>, 1>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"keys", "T", "1"}, {"dy", "T", "D"}},
               .outputs = {{"dtable", "rows", "D"}},
               .attributes = {count("rows"), count("period", 0)},
               .dealt = "T"},
    .examples = {.random = random, .shaped = shaped},
    .sums_as_asked = true,
    .forms = forms,
};

}  // namespace plumb::bounds
