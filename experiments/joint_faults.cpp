#include "experiments/joint_faults.hpp"

namespace plumb::experiments {
namespace {

using enum Family;

const Place all_places[] = {
    {{.families = {gpt}, .layout = "tp2"}},
    {{.families = {llama}, .layout = "tp2,sp"}},
    {{.families = {gpt}, .layout = "dp2,zero1"}},
    {{.families = {gpt}, .layout = "dp2,pp2,zero1"}},
    {{.families = {llama}, .layout = "cp2:ring"}},
    {{.families = {llama}, .layout = "cp2:allgather"}},
    {{.families = {llama}, .layout = "recompute:uniform2"}},
    {{.families = {llama}, .layout = "tp2", .settings = {{"qk_norm", "1"}}}},
    {{.families = {llama}, .layout = "tp2", .settings = {{"kv_heads", "1"}}}},
    {{.families = {llama}, .layout = "cp2", .settings = {{"documents", "3"}}}},
    {{.families = {llama}, .layout = "cp2", .settings = {{"rope_stretch", "4"}}}},
    {{.families = {gpt}, .layout = "tp2,sp", .settings = {{"dropout", "0.1"}}}},
    {{.families = {gpt}, .layout = "tp2", .settings = {{"attention_dropout", "0.1"}}}},
    {{.families = {gpt}, .layout = "tp2", .settings = {{"label_smoothing", "0.1"}}}},
    {{.families = {gpt}, .layout = "dp2", .settings = {{"mtp", "1"}}}},
    {{.families = {gpt}, .layout = "dp2,overlap:1"}},
    {{.families = {gpt}, .layout = "tp2", .recipe = "fp8-current"}},
    {{.families = {gpt}, .layout = "tp2,sp", .recipe = "fp8-current"}},
    {{.families = {gpt}, .layout = "tp2", .recipe = "fp16"}},
    {{.families = {gpt}, .layout = "tp2,sp", .experts = true}},
    {{.families = {gpt}, .layout = "dp2,ep2", .experts = true}},
    {{.families = {gpt}, .layout = "tp2,sp", .experts = true, .settings = {{"capacity", "1.0"}}}},
    {{.families = {gpt},
      .layout = "dp2",
      .experts = true,
      .settings = {{"balance_bias", "0.001"}}}},
    {{.families = {gpt}, .layout = "tp2"}, true},
    {{.families = {gpt}, .layout = "dp2,zero1"}, true},
    {{.families = {gpt}, .layout = "pp2:1+3", .recipe = "fp8-current-ends"}},
    {{.families = {gpt}, .layout = "dp2,zero1,padded"}},
    {{.families = {llama}, .layout = "runs2"}},
    {{.families = {gpt}, .layout = "tp2,recompute,split"}},
    {{.families = {gpt}, .layout = "dp2", .settings = {{"idle_layers", "1"}}}, true},
};

}  // namespace

std::span<const Place> places_of_joints() { return all_places; }

std::optional<Shown> Search::first_change(const GenericFault& fault,
                                          const std::function<Scene&(const Place&)>& scene) {
  for (const Place& place : all_places) {
    if (not_asked_.contains({fault.joint, &place})) continue;
    const Planted wrong{[&](Joints& joints, const Config&) { fault.plant(joints); },
                        place.in_the_next_step};
    Scene& here = scene(place);
    Scene::Broken broken = here.broken(wrong);
    if (!broken.changes.reached) not_asked_.insert({fault.joint, &place});
    if (!broken.changes.reached || !broken.changes.changed) continue;
    return Shown{&place, &here, std::move(broken)};
  }
  return {};
}

}  // namespace plumb::experiments
