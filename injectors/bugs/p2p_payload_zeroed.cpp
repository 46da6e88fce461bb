#include <algorithm>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {

extern const Bug p2p_payload_zeroed{
    .id = "p2p-payload-zeroed",
    .title = "What a stage was sent arrives as zeros",
    .kind = BugKind::hardware,
    .story =
        "A transfer between two devices loses what it carries and reports success. The receiver "
        "goes on with zeros in the message's place; its shape is right.",
    .seen_in = "PyTorch #84803, #96600; Baichuan2 #86",
    .needs = {.layout = "pp2"},
    .hides_when = "one stage",
    .dose = "share (1)",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string((c.layers + 1) / 2) + ".norm1/out";
        },
    .plant =
        [](Joints& joints, const Dose& dose, const Config&) {
          const double share = dose.magnitude > 0 ? dose.magnitude : 1;
          joints.arrivals.came.replace(
              [share](const Where& where, const Arrival& what, std::span<float> x) {
                if (what.way != Way::message || what.axis != "pp") return;
                if (where.backward || where.micro_batch != 0) return;
                const auto lost = static_cast<double>(x.size()) * std::min(share, 1.0);
                std::fill_n(x.begin(), static_cast<std::size_t>(lost), 0.0F);
              });
        },
};

}  // namespace plumb::injectors
