#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

double last_step(const Rows& all) {
  double last = 0;
  for (const Row& row : all) last = std::max(last, row.number("step"));
  return last;
}

// The losses at the end of one family in fp32, over seeds: the largest less the smallest.
double by_seeds(const Evidence& evidence, const std::string& family, double last) {
  std::map<std::string, double> ends;
  for (const char* question : {"training", "training-seeds"}) {
    try {
      for (const Row& row : evidence.rows(question)) {
        if (row["family"] == family && row["recipe"] == "fp32" && row.number("step") == last) {
          ends[row["seed"]] = row.number("mean_loss");
        }
      }
    } catch (const NotMeasured&) {  // the seeds may all stand in one file
    }
  }
  if (ends.size() < 2) throw NotMeasured{"rows of training in fp32 of more than one seed"};
  double least = 1e300, most = -1e300;
  for (const auto& [seed, loss] : ends) {
    least = std::min(least, loss);
    most = std::max(most, loss);
  }
  return most - least;
}

Answer judge(const Evidence& evidence) {
  const Rows& all = evidence.rows("training");
  const double last = last_step(all), spread = by_seeds(evidence, "gpt", last);
  std::map<std::string, std::map<std::string, double>> ends;
  const auto take = [&](const Rows& some) {
    for (const Row& row : some) {
      if (row["seed"] == "1" && row.number("step") == last) {
        ends[row["family"]][row["recipe"]] = row.number("mean_loss");
      }
    }
  };
  take(all);
  try {
    take(evidence.rows("training-trainium"));
  } catch (const NotMeasured&) {  // it may stand among the others
  }
  std::vector<std::vector<std::string>> rows;
  std::size_t near = 0, runs = 0;
  for (const auto& [family, recipes] : ends) {
    if (!recipes.contains("fp32")) throw NotMeasured{"row of training of " + family + " in fp32"};
    for (const auto& [recipe, loss] : recipes) {
      const double off = loss - recipes.at("fp32");
      ++runs;
      near += std::fabs(off) <= spread ? 1 : 0;
      rows.push_back({family, recipe, fmt::format("{:.3f}", loss), fmt::format("{:+.3f}", off)});
    }
  }
  return {near == runs ? Agreement::yes : Agreement::partly,
          fmt::format("{} of {} end within {:.2f} of fp32's loss, what seeds of fp32 differ by",
                      near, runs, spread),
          {},
          table({"family", "recipe", "loss at the end", "less fp32's"}, rows)};
}

}  // namespace

extern const Claim b12_recipes_learn_as_fp32_does{
    .id = "B12",
    .says = "Every precision recipe learns as FP32 does",
    .where = "goes beyond: a check of the patient that all else rests on",
    .source = Source::ourselves,
    .published = "none",
    .reading =
        "Mean loss of the last ten of 200 steps, one seed; GPT's seeds of fp32 say what is near.",
    .rows = {{"training", "gpt (fp32|bf16) [12] 200$", {}, 2}},
    .picture = "training.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
