#include <fmt/format.h>

#include "cli/colour.hpp"
#include "cli/verbs.hpp"
#include "experiments/trial.hpp"
#include "model/data/text.hpp"
#include "model/plan/verify.hpp"
#include "trace/report/report.hpp"

namespace plumb::cli {
namespace {

void heading(const std::string& text) { fmt::print("{}\n", painted(Colour::heading, text)); }

}  // namespace

void add_demo(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("demo", "the five-minute tour: a healthy run and a buggy one");
  static std::string report = "plumb-demo.md";
  verb->add_option("--report", report, "where the report goes")->capture_default_str();
  static bool force = false;
  verb->add_flag("--force", force, "let --report replace a file that is no report");
  verb->callback([&chosen] {
    chosen = [] {
      check_report(report, force);  // here, since a parser asks nothing of a default
      const Start start =
          start_of(config_of("gpt"), find_recipe("bf16"), parse_layout("dp2,tp2"), default_text());
      heading("1. The reference: one training step of a 4-layer GPT in BF16 on one device.");
      const ExecutedReference reference(start);
      const Merged& r = reference.merged();
      fmt::print("   {} tensors, loss {:.4f}\n", r.values.size(),
                 r.values.at("loss/out")->values[0]);

      CheckOptions options;
      options.progress = talk;
      const auto judged = [&](const Bug* bug) {
        const Candidate candidate = run_candidate(start, bug);
        const Verdict v =
            check(reference.to_judge(), candidate.trace, merge_verified(candidate.trace), options);
        talk("");
        return v;
      };
      heading("\n2. The same step on dp2,tp2: four ranks, other roundings, no bug.");
      const Verdict healthy = judged(nullptr);
      say("{}", text_report(healthy, 3));

      const Bug& bug = find_bug("one-masked-entry");
      heading(fmt::format("\n3. The same again with a planted bug: {}.", bug.title));
      fmt::print("   {}\n", bug.story);
      const Verdict broken = judged(&bug);
      say("{}", text_report(broken, 3));

      write_report({{0, broken}}, report, force);
      fmt::print("\nThe whole report of the buggy run lies in {}\n", report);
      fmt::print("Next: plumb bugs, then plumb catch ID\n");
      return healthy.exit_code() == 0 && broken.exit_code() == 1 ? 0 : 1;
    };
  });
}

}  // namespace plumb::cli
