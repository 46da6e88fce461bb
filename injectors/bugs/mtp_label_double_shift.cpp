#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug mtp_label_double_shift{
    .id = "mtp-label-double-shift",
    .title = "The extra head's labels are shifted once too often",
    .kind = BugKind::sharding,
    .story =
        "The labels of the extra head are rolled by one more than its inputs, so that it learns "
        "to predict the third token. At the start the loss is nearly what it should be, as any "
        "label is as unlikely as another; the gradients are others.",
    .seen_in = "miles #2215, Megatron-LM #5011, #6103",
    .needs = {.layout = "dp2", .settings = {{"mtp", "1"}}},
    .hides_when = "no extra head",
    .bites_at = [](const Config&) { return std::string("m0/mtp.loss/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.loss.labels_ahead.replace([](const Where&, Tensor labels) {
            std::rotate(labels.values.begin(), labels.values.begin() + 1, labels.values.end());
            return labels;
          });
        },
};

}  // namespace plumb::injectors
