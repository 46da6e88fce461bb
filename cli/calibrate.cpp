#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "bounds/machine_card.hpp"
#include "cli/build.hpp"
#include "cli/collective.hpp"
#include "cli/columns.hpp"
#include "cli/json.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "probe/answers.hpp"
#include "probe/calibrate.hpp"
#include "probe/outside.hpp"
#include "trace/store/json.hpp"
#include "trace/store/unfinished.hpp"

namespace plumb::cli {
namespace {

namespace fs = std::filesystem;

struct CalibrateCommand {
  std::string subject, command, format = "fp32", card, collective, device;
  std::size_t longest = 1024, widest = 192, elements = 1024;
  unsigned seed = 1;
  bool stays = false, as_json = false;
};

const Format& format_of_operands(const std::string& name) {
  std::vector<std::string> known;
  for (const Format& format : all_formats) {
    if (format != fp64 && format.zeros != Zeros::none) known.emplace_back(format.name);
  }
  if (std::ranges::find(known, name) == known.end()) throw Failure(unknown("format", name, known));
  return *find_format(name);
}

Subject subject_from(const CalibrateCommand& asked, const CLI::App& verb) {
  if (asked.stays && asked.command.empty()) {
    throw Failure("--stays is of a --command; name one, or leave it out");
  }
  if (trace::steers_a_terminal(asked.device)) {
    throw Failure("--device names one in plain text; leave control characters out");
  }
  if (asked.collective.empty() && verb.count("--elements") > 0) {
    throw Failure("--elements is of a --collective; name one, or leave it out");
  }
  if (asked.subject.empty() == asked.command.empty()) {
    throw Failure("calibrate takes a backend, a FILE.so, or --command; name one of them");
  }
  if (!asked.command.empty()) {
    return subject_of_command(asked.command, format_of_operands(asked.format), asked.stays);
  }
  if (!asked.subject.ends_with(".so")) {
    return subject_of(find_backend(asked.subject), format_of_operands(asked.format));
  }
  if (verb.count("--format") > 0) {
    throw Failure("the plug-in says itself which format it multiplies; leave --format out");
  }
  return subject_in_library(asked.subject);
}

void tell(const HeldTables& held) {
  if (!held.refused.empty()) {
    fmt::print("{}: no bound: {}\n", held.operation, held.refused);
    return;
  }
  fmt::print("{} held against {} elements: {} outside, largest error / bound {:.2g}",
             held.operation, held.elements, held.outside, held.worst);
  if (held.equal) fmt::print("; {:.4g} % as in the order of the card", 100 * *held.equal);
  fmt::print("\n");
}

void tell(const Validation& v) {
  if (!v.refused.empty()) {
    fmt::print("no bound: {}\n", v.refused);
  } else {
    fmt::print(
        "held against {} elements that no probe used: {} outside, largest error / bound {:.2g}",
        v.elements, v.outside, v.worst);
    if (v.moments > 0) fmt::print(", RMS of error / foretold deviation {:.2f}", v.moments);
    fmt::print("\n");
  }
  if (v.arguments > 0) {
    fmt::print("{} other arguments of functions: {} beyond the ulps of the card\n", v.arguments,
               v.function_errors);
  }
  for (const HeldTables& held : v.tables) tell(held);
  if (v.equal > 0) {
    fmt::print("made again bit by bit from the card: {:.4g} % of the products\n", 100 * v.equal);
  }
}

void tell(const Calibration& found, const Subject& subject) {
  fmt::print("{}\n", found.card.title);
  std::vector<std::vector<std::string>> rows;
  for (const Fact& fact : found.card.facts) rows.push_back({"  " + fact.name, fact.value});
  fmt::print("{}", in_columns({{}, {}}, rows));
  if (found.card.collective) fmt::print("  collective: {}\n", words_of(*found.card.collective));
  for (const auto& [what, as] : found.observed) fmt::print("  measured: {}: {}\n", what, as);
  for (const auto& [fact, why] : found.unknown) fmt::print("  not known: {}: {}\n", fact, why);
  if (!found.trees.empty()) {
    const auto& [n, tree] = *found.trees.rbegin();
    fmt::print("a sum of {} products, in a product of {} x {} x {}, is {}\n", n, subject.tile, n,
               subject.tile, text_of(tree));
  }
  tell(found.validation);
}

nlohmann::json json_of(const Calibration& found, const Subject& subject) {
  nlohmann::json facts = nlohmann::json::array(), unknown = nlohmann::json::array(),
                 observed = nlohmann::json::array();
  for (const Fact& f : found.card.facts) {
    facts.push_back({{"name", f.name}, {"value", f.value}, {"source", f.source}});
  }
  for (const auto& [fact, why] : found.unknown) unknown.push_back({{"fact", fact}, {"why", why}});
  for (const auto& [what, as] : found.observed) observed.push_back({{"what", what}, {"as", as}});
  nlohmann::json trees = nlohmann::json::object();
  for (const auto& [n, tree] : found.trees) trees[std::to_string(n)] = text_of(tree);
  const Validation& v = found.validation;
  nlohmann::json validation{{"elements", v.elements}, {"outside", v.outside}, {"worst", v.worst}};
  if (v.moments > 0) validation["moments"] = v.moments;
  if (v.arguments > 0) {
    validation["arguments"] = v.arguments;
    validation["function_errors"] = v.function_errors;
  }
  if (v.equal > 0) validation["equal"] = v.equal;
  if (!v.refused.empty()) validation["refused"] = v.refused;
  for (const HeldTables& held : v.tables) {
    auto& of = validation[held.operation];
    of = {{"elements", held.elements}, {"outside", held.outside}, {"worst", held.worst}};
    if (held.equal) of["equal"] = *held.equal;
    if (!held.refused.empty()) of["refused"] = held.refused;
  }
  nlohmann::json all{{"subject", subject.name},   {"format", subject.input.name},
                     {"title", found.card.title}, {"facts", facts},
                     {"unknown", unknown},        {"repeats", found.repeats},
                     {"observed", observed},      {"trees", trees},
                     {"validation", validation}};
  if (found.card.collective) all["collective"] = words_of(*found.card.collective);
  return all;
}

CalibrateOptions options_of(const CalibrateCommand& asked, const Subject& subject) {
  CalibrateOptions options;
  options.longest = asked.longest;
  options.widest = asked.widest;
  options.seed = asked.seed;
  options.source = fmt::format("plumb calibrate {:.80} {} --longest {} --seed {} ({} on {})",
                               subject.name, subject.input.name, asked.longest, asked.seed,
                               build_commit(), asked.device.empty() ? device_name() : asked.device);
  options.progress = talk;
  return options;
}

// What a calibration's answers are of: its source, and what that leaves out.
std::string words_of(const CalibrateCommand& asked, const CalibrateOptions& options) {
  std::string from = asked.command + asked.subject;
  if (asked.subject.ends_with(".so")) {
    from += fmt::format(" of {}", fs::last_write_time(asked.subject).time_since_epoch().count());
  }
  return fmt::format("{}; --widest {}; {}", options.source, asked.widest, from);
}

// The calibration of the subject, and what is known of the job's collective before it is written.
Calibration calibrated(const CalibrateCommand& asked, const Subject& subject,
                       const std::optional<JobCollective>& job) {
  const CalibrateOptions options = options_of(asked, subject);
  const auto whole = [&](Calibration found) {
    if (job) enter(*job, options.source, found);
    return found;
  };
  if (asked.card.empty()) return whole(calibrate(subject, options));
  const std::string file = asked.card + ".answers";
  Answers answers(file, words_of(asked, options));
  if (answers.kept() > 0) {
    note(fmt::format("{} has {} from a calibration that was stopped, which goes on from there",
                     file, how_many(answers.kept(), "answer")));
  }
  Calibration found = whole(calibrate(answers.resumed(subject), options));
  if (found.card.facts.empty()) {
    note("no fact is known: " + asked.card + " is not written");
    return found;
  }
  write_whole(asked.card, text_of(found.card));
  answers.remove();
  return found;
}

int calibrate_as(const CalibrateCommand& asked, const CLI::App& verb) {
  const Subject subject = subject_from(asked, verb);
  std::optional<JobCollective> job;
  if (!asked.collective.empty()) job = collective_of_job(asked.elements, asked.seed);
  if (job && !job->first) return 0;  // one goes on
  const Calibration found = calibrated(asked, subject, job);
  if (asked.as_json) {
    print_document("plumb-calibrate/1", json_of(found, subject));
  } else {
    tell(found, subject);
  }
  if (!found.validation.holds()) return 1;
  return found.validation.refused.empty() ? 0 : 3;
}

}  // namespace

void add_calibrate(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand(
      "calibrate",
      "a card of your hardware: probe how it multiplies, and prove the card on new data");
  static CalibrateCommand asked;
  verb->add_option("SUBJECT", asked.subject, "a backend, or a FILE.so that offers probe/plug_in.h");
  verb->add_option("--command", asked.command,
                   "called as COMMAND IN OUT: reads a.0, b.0, a.1 ... of IN (safetensors), "
                   "writes the products c.0, c.1 ... to OUT");
  verb->add_flag("--stays", asked.stays,
                 "the command is started once, and told IN and OUT, a tab between, by lines of its "
                 "input; it answers each by a line when OUT is there");
  verb->add_option("--format", asked.format, "of the operands")->capture_default_str();
  verb->add_option("-o,--output", asked.card, "write the card here, a FILE.json")
      ->check(new_cards());
  verb->add_option("--longest", asked.longest, "probe sums of up to so many products")
      ->capture_default_str()
      ->check(whole_numbers(3, 4096));
  verb->add_option("--widest", asked.widest, "rows and columns of the largest product")
      ->capture_default_str()
      ->check(whole_numbers(1, 4096));
  verb->add_option("--collective", asked.collective,
                   "probe an all-reduce, too: mpirun -n 4 plumb calibrate ... --collective mpi")
      ->check(CLI::IsMember({"mpi"}));
  verb->add_option("--elements", asked.elements, "FP32 numbers of its message, at least")
      ->capture_default_str()
      ->check(whole_numbers(1, 1 << 20));
  verb->add_option("--seed", asked.seed, "of the products that are drawn")->capture_default_str();
  verb->add_option("--device", asked.device,
                   "where the subject computes, as the card will say: a GPU's name; left out, the "
                   "processor of this machine");
  add_json(*verb, asked.as_json);
  verb->footer(
      "Exit codes: 0 a card whose bounds held; 1 products outside of its bounds; 2 trouble; 3 too "
      "little is known for a bound.");
  verb->callback([&chosen, verb] { chosen = [verb] { return calibrate_as(asked, *verb); }; });
}

}  // namespace plumb::cli
