#include <fmt/format.h>

#include <limits>

#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "experiments/training.hpp"
#include "trace/store/store.hpp"

namespace plumb {

void add_train(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("train", "run the mini Transformer and trace its last step");
  static ModelOptions model;
  static std::string out, bug, backend = "reference", where = "threads";
  static int steps = 1;
  static std::uint64_t perturb = 0;
  static double dose = 0;
  model.add_to(*verb);
  verb->add_option("--steps", steps,
                   "steps; all but the last are computed by the reference and not traced")
      ->capture_default_str()
      ->check(whole_numbers(1, 999999));
  auto* layout = verb->get_option("--layout");
  auto* of_bug =
      verb->add_option("--bug", bug, "plant this bug (list: plumb bugs); needs --layout");
  add_dose(*verb, dose)->needs(of_bug);
  verb->add_option("--backend", backend, "reference or eigen; needs --layout")
      ->capture_default_str()
      ->needs(layout);
  verb->add_option("--world", where,
                   "threads; mpi: one rank a process, started by mpirun; nccl: a GPU for each "
                   "rank; needs --layout")
      ->capture_default_str()
      ->check(CLI::IsMember({"threads", "mpi", "nccl"}))
      ->needs(layout);
  verb->add_option("--perturb", perturb,
                   "move the embedding of the one-device run by one ulp, with this seed")
      ->check(whole_numbers(1, std::numeric_limits<std::uint64_t>::max()))
      ->excludes(layout, of_bug);
  verb->add_option("-o,--output", out, "folder to write the trace to")
      ->required()
      ->check(new_traces());
  verb->footer(
      "With MPI: mpirun -n 4 plumb train --layout dp2,tp2 --world mpi -o TRACE writes, bit by bit, "
      "what threads do.\n"
      "Without --layout the promise is executed on one device: the reference.");
  verb->callback([&chosen] {
    chosen = [] {
      const Bug* planted = bug.empty() ? nullptr : &find_bug(bug);
      if (planted != nullptr && model.layout.empty()) {
        throw Failure("a bug is planted in a run over ranks; say --layout " +
                      std::string(planted->needs.layout));
      }
      find_backend(backend);
      World& world = where == "mpi" ? mpi() : where == "nccl" ? nccl() : threads();
      Start start = model.start("dp1,tp1");
      if (planted != nullptr) refuse_unmet(*planted, start.run, dose);
      const int all = steps;
      double last_loss = 0;
      start = trained(std::move(start), text_from(model.data), steps, [&](int step, double loss) {
        last_loss = loss;
        if (world.rank() == 0) talk(fmt::format("step {} of {}, loss {:.3f}", step, all, loss));
      });
      talk("");
      Trace trace;
      if (perturb != 0) {
        trace = run_perturbed(start, perturb);
      } else if (model.layout.empty()) {
        trace = run_reference(start);
      } else {
        trace = run_candidate(start, planted, {dose, 1}, backend, world).trace;
      }
      if (world.rank() != 0) return 0;
      write_trace(trace, out);
      if (steps > 1) fmt::print("loss {:.3f}, ", last_loss);
      fmt::print("trace of step {} in {}\n", start.run.step, out);
      return 0;
    };
  });
}

}  // namespace plumb
