#include "experiments/tiny.hpp"

namespace plumb::experiments {

Config tiny_model(const std::string& family) {
  Config c = config_of(family);
  c.layers = 2;
  c.width = 32;
  c.heads = 4;
  c.kv_heads = 4;
  c.hidden = c.experts > 0 ? 32 : 64;
  c.sequence = 16;
  c.micro_batches = 4;
  return c;
}

double number_in(const Trace& step, const std::string& id) {
  for (const RankRecord& rank : step.ranks) {
    const auto found = rank.shards.find(id);
    if (found != rank.shards.end()) return static_cast<double>(found->second.values.values[0]);
  }
  throw Failure("the step did not record '" + id + "'");
}

}  // namespace plumb::experiments
