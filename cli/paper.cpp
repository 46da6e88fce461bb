#include <fmt/format.h>

#include "cli/verbs.hpp"
#include "paper_repro/claim.hpp"

namespace plumb::cli {

void add_paper(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("paper", "the claims of the TTrace paper: published and ours");
  verb->callback([&chosen] {
    chosen = [] {
      fmt::print("{}", claim_table());
      return 0;
    };
  });
}

}  // namespace plumb::cli
