// How long do ranks of a pipeline wait in a step, and how much of other work fits into that? A
// simulation (model/estimate/bubbles.hpp): no row depends on what runs it. What a check costs is
// measured elsewhere (rows of step-cost); what real ranks make of it, too (rows of bubbles-run).
#include <fmt/format.h>

#include <limits>

#include "experiments/experiment.hpp"
#include "model/estimate/bubbles.hpp"

namespace plumb::experiments {
namespace {

constexpr TaskCosts costs;  // backward costs two forwards, messages nothing

struct Shape {
  int ranks, chunks, micro_batches;
};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const int ranks : {2, 4, 8, 16}) {
    for (const int chunks : {1, 2, 4}) {
      for (const int n : {4, 8, 16, 32, 64}) all.push_back({ranks, chunks, n});
    }
  }
  return all;
}

// The model whose layers make the pieces: so many that each chunk has at least one.
Config model() {
  Config c = config_of("llama");
  c.layers = 64;
  return c;
}

std::vector<std::string> cells_of(const Shape& s, const Orders& orders, Grain grain) {
  const Config c = model();
  const int stages = s.ranks * s.chunks;
  Filling work{std::numeric_limits<double>::infinity(),
               size_of(grain, c, static_cast<double>(c.layers) / stages), 0, Fill::foreseen};
  const Bubbles foreseen = bubbles_of(orders, stages, costs, work);
  work.fill = Fill::polled;
  const Bubbles polled = bubbles_of(orders, stages, costs, work);
  const double own = s.chunks * s.micro_batches * (costs.forward + costs.backward);  // of a step
  const auto cells = [](double x) { return fmt::format("{:.6g}", x); };
  return {cells(work.piece),
          cells(foreseen.share),
          cells(published_share(s.ranks, s.chunks, s.micro_batches)),
          cells(foreseen.used),
          cells(foreseen.done / own),
          cells(foreseen.slow_down),
          cells(polled.used),
          cells(polled.done / own),
          cells(polled.slow_down)};
}

void add(Table& rows, const Shape& s, const std::string& order, const Effort& effort) {
  for (const Grain grain : {Grain::operation, Grain::layer, Grain::micro_batch}) {
    Table::Row row{order, std::to_string(s.ranks), std::to_string(s.chunks),
                   std::to_string(s.micro_batches), name_of(grain)};
    if (effort.out_of_time()) return;
    if (rows.settled(row)) continue;
    const Orders orders = order == "as-run" ? schedule(s.ranks, s.ranks * s.chunks, s.micro_batches)
                                            : interleaved(s.ranks, s.chunks, s.micro_batches);
    for (const std::string& cell : cells_of(s, orders, grain)) row.push_back(cell);
    rows.add(row);
    effort.progress(fmt::format("{} {} {}", row[0], row[1], row[2]));
  }
}

void run(Table& rows, const Effort& effort) {
  for (const Shape& s : shapes()) {
    add(rows, s, "as-run", effort);
    if (s.chunks > 1 && s.micro_batches % s.ranks == 0) add(rows, s, "interleaved", effort);
  }
}

}  // namespace

extern const Experiment bubbles{
    .name = "bubbles",
    .question =
        "How long do ranks of a pipeline wait in a step, and how much of a check fits into that?",
    .columns = {"order", "ranks", "chunks", "micro_batches", "piece", "piece_forwards", "waits",
                "published", "used", "done_steps", "slow_down", "polled_used", "polled_done_steps",
                "polled_slow_down"},
    .keys = 5,
    .run = run,
    .trained_states = "none",
};

}  // namespace plumb::experiments
