#include <fmt/format.h>

#include <map>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

struct Seen {
  double near = 0, draws = 0, tensors = 0;
  double share() const { return near / tensors; }
};

Answer judge(const Evidence& evidence) {
  std::map<std::pair<std::string, std::string>, Seen> cells;
  for (const Row& row : evidence.rows("twin-spread")) {
    if (row["layout"].find("tp") == std::string::npos) continue;
    Seen& seen = cells[{row["weights"] + " " + row["family"], row["recipe"]}];
    const double tensors = row.number("tensors");
    seen.tensors += tensors;
    seen.near += tensors * row.number("share_in_0.8_1.25");
    seen.draws += tensors * row.number("draw_against_other_draws");
  }
  if (cells.empty()) throw NotMeasured{"rows of twin-spread over tp"};
  std::vector<std::vector<std::string>> rows;
  std::size_t met = 0;
  for (const auto& [which, seen] : cells) {
    met += seen.share() >= 0.97 ? 1 : 0;
    rows.push_back({which.first, which.second, fmt::format("{:.1f} %", 100 * seen.share()),
                    fmt::format("{:.1f} %", 100 * seen.draws / seen.tensors)});
  }
  return {met == cells.size() ? Agreement::yes : Agreement::partly,
          fmt::format("97 % of tensors foretold in {} of {} cells", met, cells.size()),
          {},
          table({"weights, family", "recipe", "foretold within [0.8, 1.25]",
                 "a draw by the other draws"},
                rows)};
}

}  // namespace

extern const Claim b17_twins_foretell_in_every_recipe{
    .id = "B17",
    .says = "Twins foretell 97 % of the tensors of a healthy run, in every recipe",
    .where = "goes beyond E6",
    .source = Source::ourselves,
    .published = "none",
    .reading = "Layouts with tp; a healthy run is one draw and scatters itself: last column.",
    .rows = {{"twin-spread", "gpt random bf16 .* 1$"}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro
