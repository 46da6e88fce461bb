#include <fmt/format.h>

#include <algorithm>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

Answer judge(const Evidence& evidence) {
  const Rows& all = evidence.rows("foreign-jobs");
  std::vector<std::vector<std::string>> rows;
  double most = 0;
  std::size_t equal = 0, runs = 0;
  for (const std::string& example : values_of(all, "example")) {
    const Rows of = where(all, {{"example", example}, {"run", "healthy"}});
    std::size_t same = 0;
    for (const Row& row : of) same += row.yes("losses_equal") ? 1 : 0;
    equal += same;
    runs += of.size();
    most = std::max(most, of.front().number("changed_lines"));
    rows.push_back(
        {example, of.front()["changed_lines"], fmt::format("{} of {}", same, of.size())});
  }
  return {
      most < 10 && equal == runs ? Agreement::yes : Agreement::no,
      fmt::format("{:.0f} lines at most in {} programs, twins included; losses equal bit by bit "
                  "in {} of {} runs",
                  most, rows.size(), equal, runs),
      {},
      table({"program", "new or changed lines", "losses as without tracing"}, rows)};
}

}  // namespace

extern const Claim e3_fewer_than_ten_lines{
    .id = "E3",
    .says = "A job is traced with fewer than ten changed lines",
    .where = "abstract",
    .source = Source::abstract,
    .published = "fewer than 10",
    .reading =
        "Lines that the patch of each program of examples/torch adds (DTensor, by hand, DDP, FSDP2, "
        "pipelines, transformers, Megatron's core), counted from the patch; and tracing changes no loss.",
    .rows = {{"foreign-jobs", "",
              "examples/torch/run.py: run.py PLUMB FOLDER --rows foreign-jobs.csv"}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro
