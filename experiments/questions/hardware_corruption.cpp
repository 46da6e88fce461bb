// What hardware does to one tensor of one rank, by dose: which rule notices it, and from where on?
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "experiments/experiment.hpp"
#include "experiments/said.hpp"
#include "experiments/scene.hpp"
#include "experiments/small.hpp"
#include "model/joints/memory.hpp"
#include "model/plan/plan.hpp"
#include "number/philox.hpp"
#include "number/rounding.hpp"

namespace plumb::experiments {
namespace {

constexpr int draws = 10;
const std::vector<std::string> rules{default_rules, "perturbation", "flat", "assert-close"};

// One way to be wrong: `touch` changes x, a tensor of BF16, with numbers drawn from `key`.
struct Damage {
  std::string_view kind;
  std::string_view unit;  // of the dose
  std::vector<double> doses;
  void (*touch)(std::span<float> x, double dose, std::uint64_t key);
};

std::size_t place(std::uint64_t key, std::uint64_t draw, std::size_t n) {
  return static_cast<std::size_t>(uniform(key, draw) * static_cast<double>(n));
}

// The bit of a word of BF16, 0 the last of its fraction, 15 its sign.
float with_bit_flipped(float x, std::size_t bit) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ (1U << (16 + bit)));
}

void one_bit(std::span<float> x, double bit, std::uint64_t key) {
  float& hit = x[place(key, 0, x.size())];
  hit = with_bit_flipped(hit, static_cast<std::size_t>(bit));
}
void any_bits(std::span<float> x, double n, std::uint64_t key) {
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(n); ++i) {
    float& hit = x[place(key, 2 * i, x.size())];
    hit = with_bit_flipped(hit, place(key, 2 * i + 1, 16));
  }
}
// As large as the tensor's root mean square, of any sign.
void garbage(std::span<float> x, double n, std::uint64_t key) {
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * v;
  const double size = std::sqrt(squares / static_cast<double>(x.size()));
  const auto tile = std::min(static_cast<std::size_t>(n), x.size());
  const std::size_t first = place(key, 0, x.size() - tile + 1);
  for (std::size_t i = 0; i < tile; ++i) {
    const double drawn = (2 * uniform(key, i + 1) - 1) * size;
    x[first + i] = round_to(static_cast<float>(drawn), bf16);
  }
}
void zeros(std::span<float> x, double share, std::uint64_t key) {
  const auto tile = static_cast<std::size_t>(std::ceil(share * static_cast<double>(x.size())));
  const std::size_t first = place(key, 0, x.size() - tile + 1);
  std::ranges::fill(x.subspan(first, tile), 0.0F);
}
// Every value keeps so many bits of its significand, the rest is cut.
void short_unit(std::span<float> x, double bits, std::uint64_t) {
  const std::uint32_t kept = ~((1U << (24 - static_cast<unsigned>(bits))) - 1);
  for (float& v : x) v = std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) & kept);
}

std::vector<double> all_bits() {
  std::vector<double> bits;
  for (int bit = 0; bit < 16; ++bit) bits.push_back(bit);
  return bits;
}

const std::vector<Damage>& all_damages() {
  static const std::vector<Damage> all = {
      {"bit", "bit of a BF16 word", all_bits(), one_bit},
      {"bits", "flipped, drawn", {1, 4, 16, 64}, any_bits},
      {"garbage", "values in a row", {1, 16, 256}, garbage},
      {"zeros", "share of the tensor", {1.0 / 1024, 1.0 / 64, 0.125, 1}, zeros},
      {"short-unit", "bits kept of 8", {7, 6, 5, 4}, short_unit},
  };
  return all;
}

// The tensors that forward and backward make in BF16, each of more than one number.
std::vector<std::string> candidates(const Training& run) {
  std::vector<std::string> ids;
  for (const Node& node : plan(run.config, run.recipe, run.layout, run.step).nodes) {
    if (node.phase == Phase::optimizer || !(node.how.output == bf16)) continue;
    for (const std::string& id : node.outputs) {
      if (id.front() == 'm') ids.push_back(id);
    }
  }
  return ids;
}

Planted wrong(const Damage& how, double dose, const std::string& id, std::uint64_t key) {
  return {[&how, dose, id, key](Joints& joints, const Config&) {
            joints.tensors.made.replace(
                [&how, dose, id, key](const Where& where, const std::string& made, Tensor& x) {
                  if (made == id && where.tp == 0) how.touch(x.values, dose, key);
                });
          },
          false, id};
}

struct Cell {
  const Damage* how;
  double dose;
  std::string family, weights;
  int draw;

  Table::Row key() const {
    return {std::string(how->kind), cell(dose), family, weights, std::to_string(draw)};
  }
};

std::string scene_of(const Table::Row& key) { return key[2] + " " + key[3] + " " + key[4]; }

// Found is what the healthy run is not accused of.
void judge(Table& rows, LastScene& scenes, const Cell& c, const Effort& effort) {
  Config config = small_model(c.family);
  config.micro_batches = 2;
  config.seed = static_cast<std::uint64_t>(c.draw);
  const Start start =
      small_start(config, find_recipe("bf16"), parse_layout("tp2"), c.weights, effort);
  const std::uint64_t key = key_of(config.seed, std::string(c.how->kind) + cell(c.dose));
  const std::vector<std::string> ids = candidates(start.run);
  const std::string id = ids[place(key, 1'000'000, ids.size())];
  Scene& scene = scenes.of(scene_of(c.key()),
                           [&] { return std::make_unique<Scene>(start, false, ways_of(rules)); });
  const std::vector<Trial> trials = scene.trials(wrong(*c.how, c.dose, id, key));
  Table::Row row = c.key();
  row.insert(row.end(), {id, yes(trials[0].changed), cell(trials[0].effect)});
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const Said said = said_by(rules[i], trials[i]);
    const bool finds = std::ranges::any_of(said.broken, [&](const std::string& found) {
      return std::ranges::find(said.healthy, found) == said.healthy.end();
    });
    row.push_back(yes(finds || said.structure));
    row.push_back(yes(said.blamed == id));
    row.push_back(yes(said.false_alarm));
  }
  rows.add(row);
  effort.progress(c.key()[0] + " " + c.key()[1] + " " + c.family + " " + c.weights + " draw " +
                  c.key()[4]);
}

void run(Table& rows, const Effort& effort) {
  LastScene scenes;
  for (int draw = 1; draw <= draws * effort.scale; ++draw) {
    for (const char* weights : {"random", "trained"}) {
      for (const Damage& how : all_damages()) {
        for (const double dose : how.doses) {
          if (effort.out_of_time()) return;
          const Cell c{&how, dose, draw % 2 == 0 ? "llama" : "gpt", weights, draw};
          if (!rows.settled(c.key())) judge(rows, scenes, c, effort);
        }
      }
    }
  }
}

std::vector<std::string> columns() {
  std::vector<std::string> all = {"kind", "dose",   "family",  "weights",
                                  "draw", "tensor", "changed", "effect"};
  for (const char* rule : {"default", "perturbation", "flat", "assert_close"}) {
    for (const char* what : {"_found", "_blamed_right", "_accused"}) {
      all.push_back(std::string(rule) + what);
    }
  }
  return all;
}

Table rates(const Table& rows) {
  return counted(rows, {"kind", "dose", "weights"}, "trials",
                 {"changed", "default_found", "default_blamed_right", "default_accused",
                  "perturbation_found", "perturbation_accused", "flat_found", "flat_accused",
                  "assert_close_found", "assert_close_accused"});
}

}  // namespace

extern const Experiment hardware_corruption{
    .name = "hardware-corruption",
    .question = "Which rule notices a flipped bit, a tile of garbage, zeros, a unit of fewer bits?",
    .columns = columns(),
    .keys = 5,
    .run = run,
    .trained_states = trained_small_states,
    .rates = rates,
    .shares = scene_of,
};

}  // namespace plumb::experiments
