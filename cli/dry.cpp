#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/columns.hpp"
#include "cli/json.hpp"
#include "cli/pipeline.hpp"
#include "cli/verbs.hpp"
#include "model/estimate/dry.hpp"
#include "model/estimate/traffic.hpp"
#include "model/spec/mesh.hpp"
#include "number/words.hpp"

namespace plumb::cli {
namespace {

using nlohmann::json;

double bytes_of(const Format& format) {
  return format == fp32 ? 4 : format == bf16 || format == fp16 ? 2 : 1;
}

std::string amount(double bytes) {
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t u = 0;
  for (; bytes >= 1000 && u + 1 < std::size(units); ++u) bytes /= 1000;
  return fmt::format("{:.3g} {}", bytes, units[u]);
}

struct Planned {
  Config c;
  Recipe r;
  Layout l;
  CheckPieces check;
};

json rows_of(const std::vector<PlacedShape>& shapes) {
  json rows = json::array();
  for (const PlacedShape& s : shapes) {
    rows.push_back({{"tensor", s.tensor},
                    {"whole", size_of(s.rows, s.cols)},
                    {"on a rank", size_of(s.own_rows, s.own_cols)},
                    {"sliced", s.sliced}});
  }
  return rows;
}

json rows_of(const std::vector<SharedSum>& sums) {
  json rows = json::array();
  for (const SharedSum& sum : sums) {
    rows.push_back({{"what", sum.what},
                    {"terms", sum.terms},
                    {"parts", sum.parts},
                    {"wire", sum.wire.name},
                    {"deviation_of_one", sum.on_one_rank.deviation},
                    {"deviation", sum.here.deviation},
                    {"bound_of_one", sum.on_one_rank.bound},
                    {"bound", sum.here.bound}});
  }
  return rows;
}

// One row for all travels that are alike.
json rows_of(const std::vector<Travel>& travels) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, json> rows;
  for (const Travel& t : travels) {
    json& row = rows[{t.what, t.axis, t.how, std::string(t.format.name)}];
    if (row.is_null()) row = json::object();
    row["calls"] = row.value("calls", 0.0) + t.calls;
    row["bytes"] = row.value("bytes", 0.0) + t.elements * bytes_of(t.format);
  }
  json all = json::array();
  for (auto& [key, row] : rows) {
    std::tie(row["what"], row["axis"], row["how"], row["format"]) = key;
    all.push_back(row);
  }
  return all;
}

json plan_of(const Planned& p) {
  double size = 0;
  for (const Parameter& each : parameters(p.c)) {
    size += static_cast<double>(each.rows) * each.cols;
  }
  json all{{"type", "dry"},
           {"family", family_of(p.c)},
           {"recipe", p.r.id},
           {"layout", name_of(p.l)},
           {"ranks", p.l.world_size()},
           {"parameters", size},
           {"tokens", static_cast<double>(p.c.tokens()) * p.c.micro_batches}};
  for (const int rank : ranks_to_look_at(p.l)) {
    const Holdings h = holdings(p.c, p.r, p.l, rank);
    all["looked_at"].push_back(
        {{"rank", rank},
         {"stage", coordinates(p.l, rank).pp},
         {"parameters_bytes", h.parameters * bytes_of(p.r.compute)},
         {"gradients_bytes", h.gradients * 4},
         {"optimizer_bytes", h.masters * 4 + h.moments * bytes_of(p.r.moments)},
         {"sent", rows_of(traffic(p.c, p.r, p.l, rank))}});
  }
  all["placements"] = rows_of(placed_shapes(p.c, p.l));
  all["tolerances"] = rows_of(shared_sums(p.c, p.r, p.l));
  if (p.l.pp > 1) all["pipeline"] = pipeline_of(p.c, p.l, p.check);
  return all;
}

using Rows = std::vector<std::vector<std::string>>;

void tell_ranks(const json& plan) {
  for (const json& at : plan["looked_at"]) {
    fmt::print("\nrank {}, stage {}: parameters {}, gradients {}, optimizer {}\n",
               at["rank"].get<int>(), at["stage"].get<int>(), amount(at["parameters_bytes"]),
               amount(at["gradients_bytes"]), amount(at["optimizer_bytes"]));
    if (at["sent"].empty()) continue;
    Rows rows;
    for (const json& row : at["sent"]) {
      rows.push_back({row["what"], row["axis"], row["how"], row["format"],
                      fmt::format("{}", row["calls"].get<double>()), amount(row["bytes"])});
    }
    fmt::print(
        "{}",
        in_columns(
            {{"it sends in a step"}, {"along"}, {"by"}, {"in"}, {"calls", true}, {"bytes", true}},
            rows, 2));
  }
}

void tell_placements(const json& plan) {
  Rows rows;
  for (const json& row : plan["placements"]) {
    rows.push_back({row["tensor"], row["whole"], row["on a rank"], row["sliced"]});
  }
  fmt::print("\n{}",
             in_columns({{"placements"}, {"whole", true}, {"on a rank", true}, {"sliced"}}, rows));
}

void tell_tolerances(const json& plan) {
  if (plan["tolerances"].empty()) return;
  Rows rows;
  for (const json& row : plan["tolerances"]) {
    const double one = row["deviation_of_one"], here = row["deviation"];
    rows.push_back({row["what"], fmt::format("{}", row["terms"].get<int>()),
                    fmt::format("{}", row["parts"].get<int>()), row["wire"],
                    fmt::format("{:.2e}", one), fmt::format("{:.2e}", here),
                    fmt::format("{:.2f}x", here / one),
                    fmt::format("{:.2e}", row["bound"].get<double>())});
  }
  fmt::print(
      "\n{}(standard deviation and bound of one result, over the size of the results; of at most {} terms)\n",
      in_columns({{"sums that ranks share"},
                  {"terms", true},
                  {"ranks", true},
                  {"wire"},
                  {"one rank", true},
                  {"here", true},
                  {"growth", true},
                  {"worst case", true}},
                 rows),
      most_terms);
}

void tell(const json& plan) {
  fmt::print("{} in {} over {}: {}\n{:.4g} parameters, {:.4g} tokens a step\n",
             plan["family"].get<std::string>(), plan["recipe"].get<std::string>(),
             plan["layout"].get<std::string>(), how_many(plan["ranks"].get<std::size_t>(), "rank"),
             plan["parameters"].get<double>(), plan["tokens"].get<double>());
  tell_ranks(plan);
  tell_placements(plan);
  tell_tolerances(plan);
  if (plan.contains("pipeline")) tell_pipeline(plan["pipeline"]);
}

}  // namespace

void add_dry(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand(
      "dry", "what a run over many ranks would hold, send and round, without running it");
  static ModelOptions model;
  static bool as_json = false;
  model.add_to(*verb);
  for (const char* of_data : {"--data", "--load", "--seed"}) {
    verb->remove_option(verb->get_option(of_data));
  }
  static CheckPieces check;
  check.add_to(*verb);
  add_json(*verb, as_json);
  verb->footer("Copies of tokens that travel to experts (ep) are counted as if choices were even.");
  verb->callback([&chosen, verb] {
    chosen = [verb] {
      const Planned p{model.planned(), recipe_from(model.recipe.empty() ? "bf16" : model.recipe),
                      parse_layout(model.layout), check};
      check_layout(p.l, p.c, most_planned_ranks);
      check.refuse_odd(*verb, p.l);
      const json plan = plan_of(p);
      as_json ? print_document("plumb-dry/1", plan) : tell(plan);
      return 0;
    };
  });
}

}  // namespace plumb::cli
