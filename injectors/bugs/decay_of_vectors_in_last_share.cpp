#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {
namespace {

// Does the id name the master of a parameter that weight decay leaves alone?
bool is_undecayed_master(const Config& c, const std::string& id) {
  constexpr std::string_view end = "/master";
  return id.ends_with(end) && !decays(parameter_of(c, id.substr(0, id.size() - end.size())));
}

}  // namespace

extern const Bug decay_of_vectors_in_last_share{
    .id = "decay-of-vectors-in-last-share",
    .title = "Weight decay makes norms and biases smaller, in the last rank's shares only",
    .kind = BugKind::computation,
    .story =
        "Shares lose the shapes of their tensors, so a list says which ones decay. The last rank's "
        "list is not filled, and everything there decays. A step moves by so little that no loss "
        "shows it.",
    .seen_in = "made up here: a decay mask that is lost when the optimizer's state is cut",
    .needs = {.layout = "dp2,zero1", .settings = {{"weight_decay", "0.1"}}},
    .hides_when = "no weight decay, or recipes without masters",
    .bites_at = [](const Config&) { return std::string("layers.0.norm1.weight/master"); },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          const auto kept = static_cast<float>(1 - c.rate * fraction(c.weight_decay));
          joints.tensors.made.replace(
              [c, kept](const Where& where, const std::string& id, Tensor& x) {
                if (where.dp != where.dp_size - 1 || !is_undecayed_master(c, id)) return;
                for (float& v : x.values) v *= kept;
              });
        },
};

}  // namespace plumb::injectors
