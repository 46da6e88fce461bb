#include <fmt/format.h>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  double facts = 0, known = 0, wrong = 0, elements = 0, outside = 0, devices = 0;
  for (const Row& row : evidence.rows("calibrate-hardware")) {
    if (row["hidden"] == "-") continue;  // a library of this machine: nobody knows its facts
    ++devices;
    facts += row.number("facts");
    known += row.number("known");
    wrong += row["wrong"] == "-" ? 0 : 1;  // else their names
    if (row["elements"] == "-") continue;  // its card bounds nothing
    elements += row.number("elements");
    outside += row.number("outside");
  }
  if (devices == 0) throw NotMeasured{"rows of devices whose facts are hidden"};
  return {
      wrong == 0 && outside == 0 ? Agreement::yes : Agreement::no,
      fmt::format(
          "of {:.0f} hidden devices {:.0f} of {:.0f} facts found; {:.0f} cards have a wrong one",
          devices, known, facts, wrong),
      {},
      table({"devices", "facts", "found", "cards with a wrong fact",
             "elements judged by the new cards", "outside"},
            {{fmt::format("{:.0f}", devices), fmt::format("{:.0f}", facts),
              fmt::format("{:.0f}", known), fmt::format("{:.0f}", wrong),
              fmt::format("{:.0f}", elements), fmt::format("{:.0f}", outside)}})};
}

}  // namespace

extern const Claim b8_hardware_is_described_by_probes{
    .id = "B8",
    .says =
        "Probes of a device's results alone give a card of it, and no fact on the card is wrong",
    .where = "goes beyond: calibrating tolerances for hardware",
    .source = Source::ourselves,
    .published = "none",
    .reading = "A fact that is not found is left out of the card; only a wrong one is an error.",
    .rows = {{"calibrate-hardware", "device (0|1|2|3|4|5) "}},
    .picture = "calibrate-hardware.svg",
    .judge = judge,
};

}  // namespace plumb::paper_repro
