#include "cli/mpi_job.hpp"
#include "cli/verbs.hpp"

namespace plumb::cli {

void add_check(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("check", "can rounding explain how two traces differ?");
  static std::string reference, candidate, world = "threads";
  static CheckCommand command;
  verb->add_option("REF", reference,
                   "trace of the reference, or a run of which every step is traced")
      ->required();
  verb->add_option("CAND", candidate, "trace of the candidate, or such a run (--resync)")
      ->required();
  command.add_to(*verb);
  add_placement(*verb, command.placement);
  verb->add_option("--world", world,
                   "mpi: the processes of a job share the work, as in mpirun -n 8 plumb check ...: "
                   "each reads some tensors; the first prints what one alone would")
      ->capture_default_str()
      ->check(CLI::IsMember({"threads", "mpi"}));
  verb->footer(verdict_codes);
  verb->callback([&chosen] {
    chosen = [] {
      if (world == "threads") return command.told(command.compare(reference, candidate));
      const MpiJob job;
      command.options.hands.job = &job;
      std::vector<StepVerdict> all;
      return job.run([&] { all = command.compare(reference, candidate); },
                     [&] { return command.told(all); });
    };
  });
}

}  // namespace plumb::cli
