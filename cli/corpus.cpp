#include <fmt/format.h>

#include <chrono>
#include <limits>

#include "cli/build.hpp"
#include "cli/stop.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "experiments/corpus/making.hpp"
#include "model/run/trained_states.hpp"
#include "number/words.hpp"

namespace plumb::cli {
namespace {

constexpr std::uint64_t most_seeds = 999;

struct CorpusCommand {
  CorpusAsked asked;
  std::string out, cache = "plumb-cache";

  void add_to(CLI::App& verb);
  int run() const;
};

void CorpusCommand::add_to(CLI::App& verb) {
  verb.add_option("-o,--output", out, "folder of the corpus; one that was stopped goes on")
      ->required();
  verb.add_option("--bugs", asked.bugs, "only bugs whose ids match this regular expression");
  verb.add_option("--families", asked.families,
                  "only these of the families that a bug needs: gpt, llama, gpt-moe, llama-moe")
      ->delimiter(',');
  verb.add_option("--weights", asked.weights, "random or trained")
      ->capture_default_str()
      ->check(CLI::IsMember({"random", "trained"}));
  verb.add_option("--recipe", asked.recipe, "of all runs, in place of each bug's own");
  verb.add_option("--seeds", asked.seeds, "pairs of each bug and family")
      ->capture_default_str()
      ->check(whole_numbers(1, most_seeds));
  verb.add_option("--twins", asked.twins, "traces of so many twins beside each reference")
      ->capture_default_str()
      ->check(whole_numbers(0, 64));
  verb.add_flag("--perturbed", asked.perturbed, "a trace of a perturbed reference beside each");
  verb.add_flag("--small", asked.small,
                "models 64 wide, two micro-batches of four sequences of 32 tokens");
  verb.add_option("--draw", asked.draw, "seed of the order in which cases are numbered")
      ->capture_default_str()
      ->check(whole_numbers(0, std::numeric_limits<std::uint64_t>::max()));
  verb.add_option("--cache", cache, "folder of trained states")->capture_default_str();
}

// "3 of 5 pairs, about 2 min left": by the pairs that this process made.
class TimeLeft {
 public:
  TimeLeft(std::size_t before, std::size_t all) : before_(before), all_(all) {}
  std::string operator()(std::size_t now) const {
    const std::chrono::duration<double, std::ratio<60>> spent = Clock::now() - began_;
    const double each =
        spent.count() / static_cast<double>(std::max<std::size_t>(now - before_, 1));
    return fmt::format("{} of {} pairs, about {:.0f} min left", now, all_,
                       each * static_cast<double>(all_ - now));
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::size_t before_, all_;
  Clock::time_point began_ = Clock::now();
};

int CorpusCommand::run() const {
  Corpus corpus(out, asked, "plumb " + std::string(build_commit()));
  for (const LeftOut& each : corpus.plan().left_out) {
    note(fmt::format("{} of {} is left out: {}", each.bug, each.family, each.why));
  }
  const std::size_t before = corpus.kept();
  const TimeLeft time_left(before, corpus.plan().pairs.size());
  Effort effort;
  effort.out_of_time = [] { return false; };
  effort.progress = [&](const std::string& what) {
    talk(fmt::format("{} ({})", what, time_left(corpus.kept())));
  };
  effort.trained = [&](const Recipe& r, const Layout& l, const Config& c) {
    return trained_start(r, l, c, cache, talk);
  };
  corpus.make(effort, [](std::uintmax_t bytes) {
    note(fmt::format("about {:.3g} MB will be written", static_cast<double>(bytes) / 1e6));
  });
  talk("");
  fmt::print(
      "{}, {} new, {:.3g} MB in {}; what a checker may see is cases.json and the folders "
      "that it names\n",
      how_many(corpus.plan().pairs.size(), "pair"), corpus.kept() - before,
      static_cast<double>(corpus.bytes()) / 1e6, out);
  return 0;
}

}  // namespace

void add_corpus(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("corpus", "write healthy and buggy runs, for other checkers");
  static CorpusCommand command;
  command.add_to(*verb);
  verb->footer("Labels are in labels.json alone; plumb score holds verdicts against them.");
  verb->callback([&chosen] { chosen = [] { return command.run(); }; });
}

}  // namespace plumb::cli
