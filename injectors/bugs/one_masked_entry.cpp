#include <cmath>
#include <limits>

#include "injectors/bug.hpp"
#include "model/joints/attention.hpp"

namespace plumb::injectors {
namespace {

struct Entry {
  std::size_t query = 0, key = 0;
};

// The entry in the second half of the queries whose probability is nearest to `wanted`.
Entry nearest_entry(const Tensor& scores, double wanted) {
  Entry best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = scores.rows / 2; i < scores.rows; ++i) {
    double largest = scores(i, 0);
    for (std::size_t j = 1; j <= i; ++j) largest = std::max<double>(largest, scores(i, j));
    double sum = 0;
    for (std::size_t j = 0; j <= i; ++j) sum += std::exp(scores(i, j) - largest);
    for (std::size_t j = 0; j <= i; ++j) {
      const double off = std::fabs(std::exp(scores(i, j) - largest) / sum - wanted);
      if (off < least) {
        least = off;
        best = {i, j};
      }
    }
  }
  return best;
}

}  // namespace

extern const Bug one_masked_entry{
    .id = "one-masked-entry",
    .title = "One (query, key) entry of one head masked by mistake",
    .kind = BugKind::computation,
    .story =
        "In the last layer but one, on the last tensor-parallel rank, one head of one sequence "
        "drops one entry of the causal triangle. Any norm of a whole tensor drowns it.",
    .seen_in = "made up here: the smallest attention bug, below a norm's noise floor",
    .needs = {.layout = "tp2"},
    .hides_when = "an entry whose probability is below a BF16 rounding",
    .dose = "probability (0.03)",
    .bites_at =
        [](const Config& config) {
          return "m0/layers." + std::to_string(std::max(config.layers - 2, 0)) + ".attn.core/out";
        },
    .plant =
        [](Joints& joints, const Dose& dose, const Config& config) {
          const double wanted = dose.magnitude > 0 ? dose.magnitude : 0.03;
          const int layer = std::max(config.layers - 2, 0);
          joints.attention.after_scores.replace(
              [wanted, layer](const Where& where, int head, int sequence, Tensor& scores) {
                if (where.micro_batch != 0 || where.layer != layer || head != 0 || sequence != 0 ||
                    where.tp != where.tp_size - 1) {
                  return;
                }
                const Entry entry = nearest_entry(scores, wanted);
                scores(entry.query, entry.key) = -std::numeric_limits<float>::infinity();
              });
        },
};

}  // namespace plumb::injectors
