// A machine's card that somebody wrote: what is read is written and read again.
#include "bounds/machine_card.hpp"
#include "tests/fuzz/reader.hpp"

namespace plumb::fuzz::machine_card_reader {
namespace {

const Reader machine_card("machine_card", [](Bytes bytes) {
  const bounds::Machine machine = bounds::machine_from_card("card", bytes);
  (void)machine.arithmetic();
  (void)bounds::machine_from_card("card", bounds::text_of(machine));
});

}  // namespace
}  // namespace plumb::fuzz::machine_card_reader
