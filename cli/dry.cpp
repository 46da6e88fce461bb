#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "bounds/examples/shaped.hpp"
#include "bounds/outcome.hpp"
#include "cli/verbs.hpp"
#include "model/mesh.hpp"
#include "model/traffic.hpp"

namespace plumb {
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

// Sums that ranks share: how far one lies from the true one, in parts of the result's size.
struct Shared {
  std::string what;
  int terms, parts;
  Format wire, output;
};

constexpr int most_terms = 1 << 18;  // longer sums are looked at up to here

std::vector<Shared> shared_sums(const Config& c, const Recipe& r, const Layout& l) {
  std::vector<Shared> all;
  const auto add = [&](const std::string& what, int terms, int parts, const Format& wire,
                       const Format& output) {
    if (parts > 1) all.push_back({what, std::min(terms, most_terms), parts, wire, output});
  };
  const std::string mlp = c.experts > 0 ? "mlp.experts" : "mlp";
  add("attn.proj/out", c.width, l.tp, r.wire, r.compute);
  add(mlp + ".fc2/out", c.hidden, l.tp, r.wire, r.compute);
  if (c.latent > 0) {
    add("attn.q/grad_in", c.width, l.tp, r.wire, r.compute);
    add("attn.kv_up/grad_in", c.kv_up_width(), l.tp, r.wire, r.compute);
  } else {
    add("attn.qkv/grad_in", c.qkv_width(), l.tp, r.wire, r.compute);
  }
  add(mlp + ".fc1/grad_in", c.fc1_width(c.hidden), l.tp, r.wire, r.compute);
  add("head/grad_in", c.vocabulary, l.tp, r.wire, r.compute);
  add("weights' gradients", c.tokens(), l.cp, fp32, fp32);
  add("sums of micro-batches", c.micro_batches, l.dp, fp32, fp32);
  return all;
}

struct Spread {
  double deviation = 0, bound = 0;  // largest of some outputs, over the RMS of the results
};

// As bounds/ derives it for standard normal numbers of the recipe's format.
Spread spread_of(const Shared& sum, int parts, const Format& inputs) {
  Example e = shaped_example("gemm", fmt::format("8x{}x8", sum.terms), inputs);
  e.how = {parts, sum.wire, sum.output};
  const std::vector<Matrix<double>> values = value_of(e);
  std::vector<const Matrix<double>*> in;
  for (const Matrix<double>& input : e.inputs) in.push_back(&input);
  const auto largest = [&](Mode mode) {
    const auto tolerance =
        find_operation("gemm")->tolerance({in, e.attributes, e.how, mode, 1e-9, values});
    if (!tolerance) throw Failure("gemm refuses this tolerance: " + tolerance.error().detail);
    return std::ranges::max(tolerance->bound[0].values);
  };
  double square = 0;
  for (const double x : values[0].values) square += x * x / static_cast<double>(values[0].size());
  return {largest(Mode::moments) / std::sqrt(square),
          largest(Mode::deterministic) / std::sqrt(square)};
}

// What is planned, and the ranks that are looked at: one of the first, a middle and the last stage.
struct Planned {
  Config c;
  Recipe r;
  Layout l;
  std::vector<int> ranks() const {
    std::vector<int> at{0};
    if (l.pp > 2) at.push_back(l.pp / 2);
    if (l.pp > 1) at.push_back(l.pp - 1);
    for (int& stage : at) stage *= l.dp * l.cp * l.tp;
    return at;
  }
};

// A row for each shape, all layers and experts in one.
std::vector<json> placements(const Planned& p) {
  std::vector<json> rows;
  for (const Parameter& each : parameters(p.c)) {
    const std::string kind = kind_of("m0/" + each.name);
    if (each.name.starts_with("layers.") && !each.name.starts_with("layers.0.")) continue;
    if (each.expert > 0) continue;
    const bool by_rows = each.sharding == Sharding::rows;
    const bool by_columns = each.sharding == Sharding::columns;
    rows.push_back({{"tensor", kind},
                    {"whole", size_of(each.rows, each.cols)},
                    {"on a rank", size_of(by_rows ? each.rows / p.l.tp : each.rows,
                                          by_columns ? each.cols / p.l.tp : each.cols)},
                    {"sliced", by_rows      ? "rows"
                               : by_columns ? "columns"
                                            : "no"}});
  }
  const int tokens = p.c.tokens() / p.l.cp;
  rows.push_back({{"tensor", "residual stream of a micro-batch"},
                  {"whole", size_of(p.c.tokens(), p.c.width)},
                  {"on a rank", size_of(p.l.sp ? tokens / p.l.tp : tokens, p.c.width)},
                  {"sliced", p.l.sp || p.l.cp > 1 ? "tokens" : "no"}});
  return rows;
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
  for (const int rank : p.ranks()) {
    const Holdings h = holdings(p.c, p.r, p.l, rank);
    json sent = json::array();
    std::map<std::tuple<std::string, std::string, std::string, std::string>, json> rows;
    for (const Travel& t : traffic(p.c, p.r, p.l, rank)) {
      json& row = rows[{t.what, t.axis, t.how, std::string(t.format.name)}];
      if (row.is_null()) row = json::object();
      row["calls"] = row.value("calls", 0.0) + t.calls;
      row["bytes"] = row.value("bytes", 0.0) + t.elements * bytes_of(t.format);
    }
    for (auto& [key, row] : rows) {
      std::tie(row["what"], row["axis"], row["how"], row["format"]) = key;
      sent.push_back(row);
    }
    all["looked_at"].push_back(
        {{"rank", rank},
         {"stage", coordinates(p.l, rank).pp},
         {"parameters_bytes", h.parameters * bytes_of(p.r.compute)},
         {"gradients_bytes", h.gradients * 4},
         {"optimizer_bytes", h.masters * 4 + h.moments * bytes_of(p.r.moments)},
         {"sent", sent}});
  }
  all["placements"] = placements(p);
  all["tolerances"] = json::array();
  for (const Shared& sum : shared_sums(p.c, p.r, p.l)) {
    const Spread one = spread_of(sum, 1, p.r.compute),
                 here = spread_of(sum, sum.parts, p.r.compute);
    all["tolerances"].push_back({{"what", sum.what},
                                 {"terms", sum.terms},
                                 {"parts", sum.parts},
                                 {"wire", sum.wire.name},
                                 {"deviation_of_one", one.deviation},
                                 {"deviation", here.deviation},
                                 {"bound_of_one", one.bound},
                                 {"bound", here.bound}});
  }
  return all;
}

void tell_ranks(const json& plan) {
  for (const json& at : plan["looked_at"]) {
    fmt::print("\nrank {}, stage {}: parameters {}, gradients {}, optimizer {}\n",
               at["rank"].get<int>(), at["stage"].get<int>(), amount(at["parameters_bytes"]),
               amount(at["gradients_bytes"]), amount(at["optimizer_bytes"]));
    if (at["sent"].empty()) continue;
    fmt::print("  {:<32} {:<13} {:<8} {:<6} {:>10} {:>10}\n", "it sends in a step", "along", "by",
               "in", "calls", "bytes");
    for (const json& row : at["sent"]) {
      fmt::print("  {:<32} {:<13} {:<8} {:<6} {:>10} {:>10}\n", row["what"].get<std::string>(),
                 row["axis"].get<std::string>(), row["how"].get<std::string>(),
                 row["format"].get<std::string>(), row["calls"].get<double>(),
                 amount(row["bytes"]));
    }
  }
}

void tell(const json& plan) {
  fmt::print("{} in {} over {}: {} ranks\n{:.4g} parameters, {:.4g} tokens a step\n",
             plan["family"].get<std::string>(), plan["recipe"].get<std::string>(),
             plan["layout"].get<std::string>(), plan["ranks"].get<int>(),
             plan["parameters"].get<double>(), plan["tokens"].get<double>());
  tell_ranks(plan);
  fmt::print("\n{:<34} {:>14} {:>14}  sliced\n", "placements", "whole", "on a rank");
  for (const json& row : plan["placements"]) {
    fmt::print("{:<34} {:>14} {:>14}  {}\n", row["tensor"].get<std::string>(),
               row["whole"].get<std::string>(), row["on a rank"].get<std::string>(),
               row["sliced"].get<std::string>());
  }
  if (plan["tolerances"].empty()) return;
  fmt::print("\n{:<22} {:>7} {:>6} {:<5} {:>10} {:>10} {:>7} {:>11}\n", "sums that ranks share",
             "terms", "ranks", "wire", "one rank", "here", "growth", "worst case");
  for (const json& row : plan["tolerances"]) {
    const double one = row["deviation_of_one"], here = row["deviation"];
    fmt::print("{:<22} {:>7} {:>6} {:<5} {:>10.2e} {:>10.2e} {:>6.2f}x {:>11.2e}\n",
               row["what"].get<std::string>(), row["terms"].get<int>(), row["parts"].get<int>(),
               row["wire"].get<std::string>(), one, here, here / one, row["bound"].get<double>());
  }
  fmt::print(
      "(standard deviation and bound of one result, over the size of the results; of at most {} "
      "terms)\n",
      most_terms);
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
  verb->add_flag("--json", as_json, "as JSON");
  verb->footer(
      "Copies of tokens that go to experts are counted as if choices were even; what routers send "
      "beside them is left out.");
  verb->callback([&chosen] {
    chosen = [] {
      const Planned p{model.planned(), recipe_from(model.recipe.empty() ? "bf16" : model.recipe),
                      parse_layout(model.layout)};
      check_layout(p.l, p.c, most_planned_ranks);
      const json plan = plan_of(p);
      as_json ? fmt::print("{}\n", plan.dump(1)) : tell(plan);
      return 0;
    };
  });
}

}  // namespace plumb
