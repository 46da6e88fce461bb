// Which rule accuses a run for what nobody would call a bug: another order of sums over ranks, other
// kernels, activations made again, micro-batches dealt otherwise?
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "experiments/emulated.hpp"
#include "experiments/experiment.hpp"
#include "experiments/other_orders.hpp"
#include "experiments/said.hpp"
#include "experiments/small.hpp"
#include "kernels/backend.hpp"
#include "probe/calibrate.hpp"
#include "probe/machine_products.hpp"

namespace plumb::experiments {
namespace {

constexpr int seeds = 3;
const std::vector<std::string> rules{default_rules, "perturbation"};

// One way to be another run, and no worse.
struct Control {
  std::string name, layout;
  std::string backend = "reference";
  std::optional<AddingOrder> order = {};
};

std::vector<Control> all_controls() {
  std::vector<Control> all;
  const std::vector<std::optional<AddingOrder>> orders = {
      {}, AddingOrder::ring, AddingOrder::tree, AddingOrder::backwards, AddingOrder::switched};
  for (const auto& order : orders) {
    const std::string name = order ? std::string(name_of(*order)) : "as promised";
    for (const char* layout : {"dp4", "tp4,sp", "dp2,tp2,cp2", "tp4,pp2,zero1"}) {
      all.push_back({"sums over ranks: " + name, layout, "reference", order});
    }
  }
  for (const Backend* backend : all_backends()) {
    if (backend->name == "reference") continue;
    all.push_back(
        {"products: " + std::string(backend->name), "tp2,sp", std::string(backend->name)});
  }
  all.push_back({"products: an H100's unit, emulated", "tp2,sp", "h100"});
  for (const char* layout : {"tp2,recompute", "tp2,recompute:selective", "pp2,recompute"}) {
    all.push_back({"activations made again", layout});
  }
  for (const char* layout : {"dp2", "dp4", "dp2,zero2"}) {
    all.push_back({"micro-batches dealt otherwise", layout});
  }
  for (const char* layout : {"dp2,overlap:1", "dp2,tp2,overlap:2", "dp4,overlap:3"}) {
    all.push_back({"gradients in buckets, while backward goes on", layout});
  }
  return all;
}

struct Cell {
  const Control* control;
  std::string recipe, family, weights;
  int seed;

  Table::Row key() const {
    return {control->name, control->layout, recipe, family, weights, std::to_string(seed)};
  }
};

const Backend& backend_of(const Control& control) {
  if (control.backend == emulated_h100().name) return emulated_h100();
  const auto backends = all_backends();
  return **std::ranges::find(backends, control.backend, &Backend::name);
}

// Empty, or why such a run cannot be.
std::string left_out(const Cell& c, const Config& config) {
  if (!backend_of(*c.control).usable_here()) return "the backend is not usable on this machine";
  try {
    check_layout(parse_layout(c.control->layout), config);
  } catch (const Failure& refused) {
    return refused.what();
  }
  return "";
}

std::size_t tensors_with_other_bits(const Merged& a, const Merged& b) {
  std::size_t differ = 0;
  for (const auto& [id, tensor] : a.values) {
    const auto found = b.values.find(id);
    differ += found != b.values.end() && !same_bits(*found->second, *tensor) ? 1 : 0;
  }
  return differ;
}

// How a backend multiplies on a matrix unit, as a probe finds it out once. The others round to nearest in
// some order, as twins do.
struct Unit {
  Machine card;
  std::optional<Multiply> products;
};

const Unit& unit_of(const Control& control) {
  static std::map<std::string, Unit> all;
  const auto [found, is_new] = all.try_emplace(control.backend);
  if (is_new && control.backend != "reference") {
    CalibrateOptions options;
    options.longest = 128;
    found->second.card = calibrate(subject_of(backend_of(control), bf16), options).card;
    found->second.products = products_on(found->second.card);
  }
  return found->second;
}

void judge(Table& rows, const Cell& c, const Config& config, const Effort& effort) {
  const Start start = small_start(config, find_recipe(c.recipe), parse_layout(c.control->layout),
                                  c.weights, effort);
  const Trace reference = run_reference(start), perturbed = run_perturbed(start, 1);
  const auto world = c.control->order ? threads_that_add(*c.control->order) : nullptr;
  const Trace run = train_step(start.run, start.leaves, Joints{}, backend_of(*c.control),
                               world ? *world : threads());
  Table::Row row = c.key();
  const Merged of_reference = merge(reference), of_run = merge(run);
  row.push_back(std::to_string(tensors_with_other_bits(of_reference, of_run)));
  std::vector<CheckOptions> ways = ways_of(rules);
  const Unit& unit = unit_of(*c.control);
  for (CheckOptions& way : ways) {
    way.perturbed = &perturbed;
    if (!unit.products) continue;
    way.multiply = &*unit.products;
    way.replay.machine = &unit.card;
  }
  for (const Verdict& verdict : check_each({reference, of_reference}, run, of_run, ways)) {
    row.push_back(yes(verdict.exit_code() == 1));
  }
  row.emplace_back("-");
  rows.add(row);
  effort.progress(c.control->name + " " + c.control->layout + " " + c.recipe + " " + c.family +
                  " " + c.weights + " seed " + std::to_string(c.seed));
}

void one(Table& rows, const Cell& c, const Effort& effort) {
  if (rows.settled(c.key())) return;
  Config config = small_model(c.family);
  config.seed = static_cast<std::uint64_t>(c.seed);
  const std::string why = left_out(c, config);
  if (why.empty()) return judge(rows, c, config, effort);
  Table::Row row = c.key();
  row.insert(row.end(), {"-", "-", "-", why});
  rows.add(row);
}

void run(Table& rows, const Effort& effort) {
  const std::vector<Control> controls = all_controls();
  for (int seed = 1; seed <= seeds * effort.scale; ++seed) {
    for (const Control& control : controls) {
      for (const char* recipe : {"fp32", "bf16", "bf16-wire32", "fp8-block"}) {
        for (const char* family : {"gpt", "llama"}) {
          for (const char* weights : {"random", "trained"}) {
            if (effort.out_of_time()) return;
            one(rows, {&control, recipe, family, weights, seed}, effort);
          }
        }
      }
    }
  }
}

// By control and recipe.
Table rates(const Table& rows) {
  Table out(
      {"control", "recipe", "runs", "of_other_bits", "default_accused", "perturbation_accused"}, 2);
  std::vector<Table::Row> order;
  std::map<Table::Row, std::vector<int>> counts;
  for (const Table::Row& row : rows.rows()) {
    const Table::Row key = {row[0], row[2]};
    if (!counts.contains(key)) order.push_back(key);
    std::vector<int>& n = counts[key];
    n.resize(4);
    if (row[rows.column("left_out")] != "-") continue;
    ++n[0];
    n[1] += row[rows.column("other_bits")] != "0" ? 1 : 0;
    n[2] += row[rows.column("default_accused")] == "1" ? 1 : 0;
    n[3] += row[rows.column("perturbation_accused")] == "1" ? 1 : 0;
  }
  for (const Table::Row& key : order) {
    Table::Row row = key;
    for (const int n : counts[key]) row.push_back(std::to_string(n));
    out.add(row);
  }
  return out;
}

}  // namespace

extern const Experiment benign_controls{
    .name = "benign-controls",
    .question =
        "Which rule accuses a run whose sums, kernels or schedule are others, and no worse?",
    .columns = {"control", "layout", "recipe", "family", "weights", "seed", "other_bits",
                "default_accused", "perturbation_accused", "left_out"},
    .keys = 6,
    .run = run,
    .trained_states = trained_small_states,
    .rates = rates,
};

}  // namespace plumb::experiments
