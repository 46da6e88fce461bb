#include "experiments/corpus/making.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "experiments/said.hpp"
#include "model/plan/verify.hpp"
#include "number/words.hpp"
#include "trace/store/disk.hpp"
#include "trace/store/format2.hpp"
#include "trace/store/json.hpp"
#include "trace/store/store.hpp"
#include "trace/store/unfinished.hpp"
#include "trace/store/write_format2.hpp"

namespace plumb::experiments {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string text_of(const json& document) { return document.dump(1) + "\n"; }

// As a producer without a promise tells it.
Trace told(Trace trace) {
  trace.about = said_by(*trace.graph);
  trace.graph.reset();
  return trace;
}

// Writes it unless it is there: a trace that has its name is whole.
void write_once(const Trace& trace, const fs::path& folder, int twin = 0) {
  if (fs::exists(folder)) return;
  write_format2(trace, folder, twin);
}

// Twins as their producer has them: one rank, without what the optimizer makes, which no twin judges.
Trace trace_of_twin(const Trace& reference, const Values& twin, const Merged& merged) {
  Trace trace;
  trace.manifest = reference.manifest;
  trace.about = said_by(*reference.graph);
  trace.ranks.resize(1);
  for (const auto& [id, tensor] : twin) {
    const auto format = merged.formats.find(id);
    const auto about = trace.about.find(id);
    if (format == merged.formats.end() || about == trace.about.end()) continue;
    if (about->second.phase == Phase::optimizer) continue;
    trace.ranks[0].shards[id] = {whole(tensor->rows, tensor->cols), *tensor, format->second};
  }
  return trace;
}

void write_beside(const CorpusAsked& asked, const Pair& pair, const Runs& runs,
                  const fs::path& folder) {
  write_once(told(runs.reference), folder / "reference");
  if (asked.perturbed) write_once(told(run_perturbed(runs.start, 1)), folder / "perturbed");
  if (asked.twins == 0) return;
  const Merged merged = merge_verified(runs.reference);
  TwinOptions options;
  options.twins = asked.twins;
  options.seed = pair.seed;
  const auto twins =
      make_twins(*runs.reference.graph, merged.values, *runs.healthy.trace.graph, options);
  for (std::size_t k = 0; k < twins.size(); ++k) {
    write_once(trace_of_twin(runs.reference, twins[k], merged),
               folder / ("twin" + std::to_string(k + 1)), static_cast<int>(k + 1));
  }
}

// What a process that is gone did not finish, in a folder that is ours.
void take_away_left(const fs::path& folder) {
  for (const fs::path& left : left_beside(folder)) take_away(left);
}

}  // namespace

std::uintmax_t bytes_of(const Trace& trace) {
  std::uintmax_t bytes = 0;
  for (const RankRecord& rank : trace.ranks) {
    for (const auto& [id, shard] : rank.shards) {
      bytes += shard.rows() * shard.cols() * (shard.format == bf16 ? 2 : 4);
    }
  }
  return bytes;
}

Corpus::Corpus(fs::path folder, CorpusAsked asked, std::string program)
    : folder_(std::move(folder)),
      asked_(std::move(asked)),
      program_(std::move(program)),
      plan_(plan_corpus(asked_)) {
  if (fs::exists(folder_ / "labels.json")) {
    read_labels();
  } else {
    refuse_something_else();
  }
}

void Corpus::refuse_something_else() const {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder_, error))) return check_new(folder_);
  const std::vector<fs::path> left = left_beside(folder_ / "labels.json");  // its first file
  const auto is_left = [&](const fs::directory_entry& entry) {
    return std::ranges::any_of(
        left, [&](const fs::path& path) { return entry.path().filename() == path.filename(); });
  };
  if (fs::is_directory(folder_) && std::ranges::all_of(fs::directory_iterator(folder_), is_left))
    return;
  throw Failure(folder_.string() + " holds something else than a corpus; name another folder");
}

void Corpus::read_labels() {
  const fs::path file = folder_ / "labels.json";
  const json all = read_json(file);
  const auto another = [&](const std::string& what, const std::string& has) {
    throw Failure(folder_.string() + " has a corpus " + what + " " + has +
                  "; ask for the same, or name another folder");
  };
  if (all.value("schema", json()) != schema_of_labels)
    another("of the schema", all.value("schema", json()).dump());
  if (all.value("program", json()) != program_)
    another("that was made by", all.value("program", json()).dump());
  if (all.value("asked", json()) != json_of(asked_))
    another("that was asked for by", all.value("asked", json()).dump());
  try {
    for (const json& label : all.at("cases")) labels_[label.at("case").get<std::string>()] = label;
  } catch (const json::exception&) {
    damaged(file, "has cases that are none");
  }
}

std::vector<fs::path> Corpus::traces_of(const Pair& pair) const {
  const fs::path beside = folder_ / "references" / pair.reference, cases = folder_ / "cases";
  std::vector<fs::path> all{beside / "reference"};
  if (asked_.perturbed) all.push_back(beside / "perturbed");
  for (int k = 1; k <= asked_.twins; ++k) all.push_back(beside / ("twin" + std::to_string(k)));
  for (const std::string& name : {pair.healthy, pair.buggy}) all.push_back(cases / name);
  return all;
}

bool Corpus::is_kept(const Pair& pair) const {
  return labels_.contains(pair.healthy) && labels_.contains(pair.buggy) &&
         std::ranges::all_of(traces_of(pair), [](const fs::path& trace) {
           return fs::exists(trace / "manifest.json");
         });
}

// A trace that has its name was whole.
void Corpus::refuse_what_was_taken_away() const {
  for (const Pair& pair : plan_.pairs) {
    for (const fs::path& trace : traces_of(pair)) {
      if (!fs::exists(trace / "manifest.json")) continue;
      const json manifest = read_json(trace / "manifest.json");
      for (const int step : steps_of_format2(manifest, trace / "manifest.json")) {
        const auto ranks = manifest.at("ranks").get<std::size_t>();
        for (std::size_t r = 0; r < ranks; ++r) {
          const fs::path file =
              trace / fmt::format("step_{:06}", step) / fmt::format("rank_{:05}.safetensors", r);
          if (fs::exists(file)) continue;
          throw Failure(file.string() + " is gone since the corpus was made; take " +
                        trace.string() + " away, and it is made again");
        }
      }
    }
  }
}

std::size_t Corpus::kept() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(plan_.pairs, [&](const Pair& pair) { return is_kept(pair); }));
}

json Corpus::label(const Pair& pair, const Runs& runs, const Trial& changes, bool buggy) const {
  const Bug& bug = *pair.bug;
  json j{{"case", buggy ? pair.buggy : pair.healthy},
         {"pair", pair.reference},
         {"bug", nullptr},
         {"family", pair.family},
         {"weights", asked_.weights},
         {"recipe", pair.recipe},
         {"layout", name_of(runs.start.run.layout)},
         {"seed", pair.seed},
         {"step", runs.start.run.step}};
  if (!buggy) return j;
  j["bug"] = bug.id;
  j["paper"] = nullptr;
  if (bug.paper.bug > 0) {
    j["paper"] = {{"bug", bug.paper.bug}, {"match", name_of(bug.paper.match)}};
  }
  j["bites_at"] = changes.bites_at;
  j["module"] = module_of(changes.bites_at);
  j["bites"] = changes.reached && changes.changed;
  j["effect"] = changes.effect;
  j["effect_at"] = changes.effect_at;
  return j;
}

void Corpus::keep_labels() const {
  json left_out = json::array(), cases = json::array();
  for (const LeftOut& each : plan_.left_out) {
    left_out.push_back({{"bug", each.bug}, {"family", each.family}, {"why", each.why}});
  }
  for (const auto& [name, label] : labels_) cases.push_back(label);
  write_whole(folder_ / "labels.json", text_of({{"schema", schema_of_labels},
                                                {"program", program_},
                                                {"asked", json_of(asked_)},
                                                {"pairs", plan_.pairs.size()},
                                                {"left_out", left_out},
                                                {"cases", cases}}));
}

void Corpus::write_cases() const {
  std::map<std::string, json> by_name;
  for (const Pair& pair : plan_.pairs) {
    const std::string beside = "references/" + pair.reference + "/";
    json twins = json::array();
    for (int k = 1; k <= asked_.twins; ++k) twins.push_back(beside + "twin" + std::to_string(k));
    for (const std::string& name : {pair.healthy, pair.buggy}) {
      json& one = by_name[name];
      one = {{"case", name},
             {"reference", beside + "reference"},
             {"candidate", "cases/" + name},
             {"twins", twins}};
      if (asked_.perturbed) one["perturbed"] = beside + "perturbed";
    }
  }
  json cases = json::array();
  std::string undecided;
  for (const auto& [name, one] : by_name) {
    cases.push_back(one);
    undecided += json{{"case", name}, {"verdict", "undecided"}}.dump() + "\n";
  }
  write_whole(folder_ / "undecided.jsonl", undecided);
  write_whole(folder_ / "cases.json", text_of({{"schema", schema_of_cases}, {"cases", cases}}));
}

void Corpus::make_one(const Pair& pair, const Effort& effort,
                      const std::function<void(std::uintmax_t)>& size_told) {
  const Start start = start_of(asked_, pair, effort);
  const Planted wrong = planted(*pair.bug, {}, start.run.config);
  const Runs runs = runs_of(start, wrong);
  const Merged healthy = merge_verified(runs.healthy.trace),
               broken = merge_verified(runs.broken.trace);
  const std::uintmax_t of_reference = bytes_of(runs.reference);
  const std::uintmax_t beside =
      1 + static_cast<std::uintmax_t>(asked_.twins) + (asked_.perturbed ? 1 : 0);
  size_told(beside * of_reference + bytes_of(runs.healthy.trace) + bytes_of(runs.broken.trace));
  const fs::path references = folder_ / "references" / pair.reference, cases = folder_ / "cases";
  make_folders(references);
  make_folders(cases);
  take_away_left(references / "reference");
  take_away_left(cases / pair.healthy);
  write_beside(asked_, pair, runs, references);
  const Trial changes = changes_of(runs.healthy, runs.broken, wrong, healthy, broken);
  const bool first_is_healthy = pair.healthy < pair.buggy;  // as drawn: times of files tell nothing
  for (const bool buggy : {!first_is_healthy, first_is_healthy}) {
    const Candidate& ran = buggy ? runs.broken : runs.healthy;
    write_once(told(ran.trace), cases / (buggy ? pair.buggy : pair.healthy));
  }
  for (const bool buggy : {false, true}) {
    labels_[buggy ? pair.buggy : pair.healthy] = label(pair, runs, changes, buggy);
  }
  keep_labels();
}

void Corpus::make(const Effort& effort, const std::function<void(std::uintmax_t)>& size_told) {
  bool is_told = false;
  const auto before_the_first = [&](std::uintmax_t of_a_pair) {
    if (is_told) return;
    is_told = true;
    const std::uintmax_t needs = of_a_pair * (plan_.pairs.size() - kept());
    size_told(needs);
    make_folders(folder_);
    take_away_left(folder_ / "labels.json");
    if (const auto free = fs::space(folder_).available; free < needs) {
      throw Failure("about " + how_many(needs / 1'000'000, "megabyte") + " are needed and " +
                    std::to_string(free / 1'000'000) + " are free in " + folder_.string() +
                    "; choose another place, --small, or fewer --bugs");
    }
    keep_labels();
    write_cases();
  };
  refuse_what_was_taken_away();
  const auto lacks = [&](const char* name) { return !fs::exists(folder_ / name); };
  if (!labels_.empty() && (lacks("cases.json") || lacks("undecided.jsonl"))) write_cases();
  for (const Pair& pair : plan_.pairs) {
    if (is_kept(pair)) continue;
    if (effort.out_of_time()) return;
    make_one(pair, effort, before_the_first);
    effort.progress(how_many(kept(), "pair") + " of " + std::to_string(plan_.pairs.size()));
  }
}

std::uintmax_t Corpus::bytes() const {
  std::uintmax_t all = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    if (entry.is_regular_file()) all += entry.file_size();
  }
  return all;
}

}  // namespace plumb::experiments
