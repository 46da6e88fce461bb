// A bug of one's own: the card in query_gradient_not_summed.cpp is in no catalogue. The mini
// Transformer runs with it, and without; the shipped check blames the tensor that the card names,
// and has nothing to say of the healthy run.
#include <cstdio>
#include <string>

#include "injectors/bug.hpp"
#include "model/plan/verify.hpp"
#include "model/run/start.hpp"
#include "trace/check.hpp"

extern const plumb::injectors::Bug query_gradient_not_summed;

using namespace plumb;

namespace {

// A small model with random weights, in the layout and the recipe that the bug needs.
model::Start start_for(const injectors::Bug& bug) {
  model::Config config = model::config_of("gpt");
  config.layers = 2;
  config.width = 32;
  config.heads = config.kv_heads = 4;
  config.hidden = 64;
  config.sequence = 16;
  std::string text;  // that the model is to learn
  for (int i = 0; i < 1000; ++i)
    text += "the quick brown fox counts to " + std::to_string(i) + ". ";
  return model::start_of(config, model::find_recipe(std::string(bug.needs.recipe)),
                         model::parse_layout(std::string(bug.needs.layout)), text);
}

trace::Verdict verdict_on(const model::Start& start, const model::Joints& joints) {
  const trace::Trace reference = model::run_reference(start);
  const trace::Trace candidate = model::run_candidate(start, joints).trace;
  return trace::check(reference, model::merge_verified(reference), candidate,
                      model::merge_verified(candidate), {});
}

}  // namespace

int main() {
  const injectors::Bug& bug = query_gradient_not_summed;
  const model::Start start = start_for(bug);
  injectors::refuse_unmet(bug, start.run, 0);
  model::Joints joints;
  bug.plant(joints, {}, start.run.config);

  const trace::Verdict healthy = verdict_on(start, {}), broken = verdict_on(start, joints);
  std::printf("healthy: %zu findings; %s: %zu findings, blamed: %s\n", healthy.findings.size(),
              std::string(bug.id).c_str(), broken.findings.size(), broken.blamed.c_str());
  return healthy.exit_code() == 0 && broken.blamed == bug.bites_at(start.run.config) ? 0 : 1;
}
