#include "experiments/corpus/plan.hpp"

#include <algorithm>

#include "experiments/small.hpp"
#include "model/data/text.hpp"
#include "number/philox.hpp"
#include "trace/selection.hpp"

namespace plumb::experiments {
namespace {

constexpr std::uint64_t cases_key = 0x636f72707573;  // streams of their own: cases, references
constexpr std::uint64_t most_seeds = 1000;           // of a card and family: seeds do not meet

// The numbers 0 to n - 1 in an order that `draw` draws: each is as likely.
std::vector<std::size_t> drawn_order(std::size_t n, std::uint64_t draw, std::uint32_t stream) {
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = i;
  for (std::size_t i = n; i > 1; --i) {
    const Bits bits =
        philox(cases_key, {static_cast<std::uint32_t>(i), stream, static_cast<std::uint32_t>(draw),
                           static_cast<std::uint32_t>(draw >> 32)});
    std::swap(order[i - 1], order[bits[0] % i]);
  }
  return order;
}

std::string number(std::size_t n) {
  const std::string digits = std::to_string(n + 1);
  return std::string(4 - std::min<std::size_t>(digits.size(), 4), '0') + digits;
}

void refuse_unknown(const CorpusAsked& asked, const std::vector<const Bug*>& bugs) {
  for (const std::string& family : asked.families) model::config_of(family);
  if (!bugs.empty()) return;
  throw Failure("--bugs '" + asked.bugs + "' matches no bug; list them: plumb bugs");
}

void give_numbers(std::vector<Pair>& pairs, std::uint64_t draw) {
  const auto references = drawn_order(pairs.size(), draw, 0);
  const auto cases = drawn_order(2 * pairs.size(), draw, 1);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].reference = number(references[i]);
    pairs[i].healthy = number(cases[2 * i]);
    pairs[i].buggy = number(cases[2 * i + 1]);
  }
  std::ranges::sort(pairs, {}, [](const Pair& p) { return std::stoull(p.reference); });
}

// Why it cannot bite in such a run; empty: it can.
std::string why_left_out(const CorpusAsked& asked, const Pair& pair) {
  try {
    const Config config = config_of(asked, pair);
    const Layout layout = parse_layout(std::string(pair.bug->needs.layout));
    check_layout(layout, config);
    refuse_unmet(*pair.bug, {config, find_recipe(pair.recipe), layout, 1}, 0);
    return "";
  } catch (const Failure& failure) {
    return failure.what();
  }
}

}  // namespace

nlohmann::json json_of(const CorpusAsked& asked) {
  return {{"bugs", asked.bugs},           {"families", asked.families}, {"weights", asked.weights},
          {"recipe", asked.recipe},       {"seeds", asked.seeds},       {"twins", asked.twins},
          {"perturbed", asked.perturbed}, {"small", asked.small},       {"draw", asked.draw}};
}

CorpusPlan plan_corpus(const CorpusAsked& asked) {
  const Pattern wanted(asked.bugs, "--bugs");
  std::vector<const Bug*> bugs;
  for (const Bug* bug : all_bugs()) {
    if (wanted.empty() || wanted.matches(std::string(bug->id))) bugs.push_back(bug);
  }
  refuse_unknown(asked, bugs);
  if (!asked.recipe.empty()) find_recipe(asked.recipe);
  CorpusPlan plan;
  for (const Bug* bug : bugs) {
    const auto place = std::ranges::find(all_bugs(), bug) - all_bugs().begin();
    for (std::size_t f = 0; f < bug->needs.families.size(); ++f) {
      Pair pair{bug, bug->needs.family(bug->needs.families[f])};
      pair.recipe = asked.recipe.empty() ? std::string(bug->needs.recipe) : asked.recipe;
      const auto& only = asked.families;
      if (!only.empty() && std::ranges::find(only, pair.family) == only.end()) continue;
      if (const std::string why = why_left_out(asked, pair); !why.empty()) {
        plan.left_out.push_back({std::string(bug->id), pair.family, why});
        continue;
      }
      for (int seed = 1; seed <= asked.seeds; ++seed) {
        pair.seed = (2 * static_cast<std::uint64_t>(place) + f) * most_seeds +
                    static_cast<std::uint64_t>(seed);
        plan.pairs.push_back(pair);
      }
    }
  }
  if (plan.pairs.empty()) {
    throw Failure("no bug that is asked for can bite in what is asked for" +
                  (plan.left_out.empty()
                       ? std::string(": none has such a family; leave --families out")
                       : " (" + plan.left_out[0].bug + ": " + plan.left_out[0].why + ")"));
  }
  give_numbers(plan.pairs, asked.draw);
  return plan;
}

Config config_of(const CorpusAsked& asked, const Pair& pair) {
  Config config = asked.small ? small_model(pair.family) : model::config_of(pair.family);
  if (asked.small) {
    config.sequences = 4;
    config.micro_batches = 2;
  }
  config.seed = pair.seed;
  pair.bug->needs.complete(config);
  return config;
}

Start start_of(const CorpusAsked& asked, const Pair& pair, const Effort& effort) {
  const Config config = config_of(asked, pair);
  const Recipe recipe = find_recipe(pair.recipe);
  const Layout layout = parse_layout(std::string(pair.bug->needs.layout));
  if (asked.small) return small_start(config, recipe, layout, asked.weights, effort);
  if (asked.weights == "trained") return effort.trained(recipe, layout, config);
  return model::start_of(config, recipe, layout, default_text());
}

}  // namespace plumb::experiments
