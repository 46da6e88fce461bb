#include <fmt/format.h>

#include "cli/stop.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "experiments/learn.hpp"
#include "model/spec/manifest.hpp"
#include "model/step/train_step.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/store/spreads_file.hpp"

namespace plumb::cli {

void add_spreads(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("spreads", "learn how healthy runs scatter, for check --spreads");
  static ModelOptions model;
  static std::string out;
  static int batches = 25, twins = 8;
  model.add_to(*verb);
  verb->add_option("--batches", batches, "batches of other data to learn from")
      ->capture_default_str()
      ->check(whole_numbers(2, 10000));
  verb->add_option("--twins", twins, "twins of each batch")
      ->capture_default_str()
      ->check(whole_numbers(4, 64));
  verb->add_option("-o,--output", out, "file to write")->required()->check(new_traces());
  verb->footer(
      "For checks of the same model, recipe and layout: two twins then judge as sharply as many.\n"
      "Learn again when the weights have moved on (check refuses spreads that no longer fit).");
  verb->callback([&chosen] {
    chosen = [] {
      if (model.layout.empty()) {
        throw Failure("spreads are those of the twins of a layout; say --layout tp2, or the like");
      }
      name_what_was_left(out);
      const Start start = model.start(model.layout);
      const Learnt learnt = learn(start, text_from(model.data), batches, twins, [](int batch) {
        talk(fmt::format("batch {} of {}, {} twins each", batch, batches, twins));
      });
      talk("");
      write_spreads({manifest_of(start.run), batches, twins, learnt}, out);
      fmt::print("spreads of {} in {}\n", how_many(learnt.tensors().size(), "tensor"), out);
      return 0;
    };
  });
}

}  // namespace plumb::cli
