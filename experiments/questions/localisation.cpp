// Which module does each rule name, where a bug is planted: as runs are, and where what modules take
// in is rewritten, so that no error travels from one to the next (model/plan/rewriting.hpp)?
#include <algorithm>
#include <map>

#include "experiments/experiment.hpp"
#include "experiments/small.hpp"
#include "model/data/text.hpp"
#include "model/plan/plan.hpp"
#include "model/plan/rewriting.hpp"
#include "model/spec/manifest.hpp"

namespace plumb::experiments {
namespace {

constexpr int steps = 151;  // trained: the step after 150

// One way to name a module. The default rules say who is wrong by itself; a rule of sizes, and
// twins alone, name the first that they find.
struct Way {
  Rewriting rewriting;
  const char* rule;
};
constexpr Way ways[] = {
    {Rewriting::none, "perturbation"},      {Rewriting::none, "twins,replay"},
    {Rewriting::generated, "perturbation"}, {Rewriting::generated, "flat"},
    {Rewriting::generated, "twins"},        {Rewriting::reference, "perturbation"},
    {Rewriting::reference, "flat"},         {Rewriting::reference, "twins"},
};

bool says_who_is_wrong(const Way& way) { return way.rule == std::string("twins,replay"); }

// The findings of the rule itself: structure needs none.
std::vector<Finding> own(const Verdict& v) {
  std::vector<Finding> findings;
  for (const Finding& f : v.findings) {
    if (f.statistic != "structure") findings.push_back(f);
  }
  return findings;
}

// Where the named tensor lies, seen from where the bug bites.
class Places {
 public:
  explicit Places(const Training& run) {
    for (const Node& node : plan(run.config, run.recipe, run.layout, run.step).nodes) {
      for (const std::string& id : node.outputs) order_.emplace(id, order_.size());
    }
  }
  std::string of(const std::string& named, const std::string& bites_at) const {
    if (named.empty()) return "none";
    if (named == bites_at) return "exact";
    if (module_of(named) == module_of(bites_at)) return "module";
    return place(named) < place(bites_at) ? "earlier" : "later";
  }

 private:
  std::size_t place(const std::string& id) const {
    const auto found = order_.find(id);
    return found == order_.end() ? 0 : found->second;  // a leaf
  }
  std::map<std::string, std::size_t> order_;
};

std::string yes(bool x) { return x ? "1" : "0"; }

Table::Row row_of(const std::vector<std::string>& key, const Way& way, const Trial& t,
                  const Places& places) {
  const auto broken = own(t.broken), healthy = own(t.healthy);
  std::string named = broken.empty() ? "" : broken.front().id;
  if (says_who_is_wrong(way)) named = t.broken.blamed;
  Table::Row row = key;
  for (const std::string& text :
       {std::string(name_of(way.rewriting)), std::string(way.rule), yes(t.reached), yes(t.changed),
        t.bites_at, named.empty() ? "-" : named, places.of(named, t.bites_at),
        std::to_string(broken.size()), std::to_string(modules_of(broken).size()),
        yes(!healthy.empty()), std::to_string(healthy.size()),
        std::to_string(modules_of(healthy).size())}) {
    row.push_back(text);
  }
  return row;
}

std::vector<Table::Row> judge(const std::vector<std::string>& key, const Start& start,
                              const Bug& bug, Rewriting rewriting) {
  const Places places(start.run);
  std::vector<Way> asked;
  std::vector<CheckOptions> options;
  for (const Way& way : ways) {
    if (way.rewriting != rewriting) continue;
    asked.push_back(way);
    CheckOptions each;
    each.says_where = false;
    if (!says_who_is_wrong(way)) each.rules = {way.rule};
    options.push_back(each);
  }
  const std::vector<Trial> trials = run_trials(start, bug, {}, options, rewriting);
  std::vector<Table::Row> rows;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    rows.push_back(row_of(key, asked[i], trials[i], places));
  }
  return rows;
}

// A quarter of the tokens, and half as wide as the model of detection-rate.
Config small(const Bug& bug, int seed) {
  Config c = config_of(bug.needs.family(bug.needs.families.front()));
  c.width = 64;
  c.hidden = c.experts > 0 ? 64 : 128;
  c.sequence = 32;
  c.seed = static_cast<std::uint64_t>(seed);
  bug.needs.complete(c);
  return c;
}

// Returns the state after so many steps of such a model in bf16; the recipes cast it.
const Trace& trained_for(Config config, const Effort& effort) {
  config.seed = 7;
  config.micro_batches = 4;
  config.documents = 0;
  return trained_once(config, steps, effort);
}

void judge_all(Table& rows, const std::vector<std::string>& key, const Start& start,
               const Bug& bug) {
  std::vector<Table::Row> group;
  for (const Rewriting how : {Rewriting::none, Rewriting::generated, Rewriting::reference}) {
    for (Table::Row& row : judge(key, start, bug, how)) group.push_back(std::move(row));
  }
  rows.add_group(group);
}

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= 2 * effort.scale; ++seed) {
    for (const Bug* bug : all_bugs()) {
      const std::string family = bug->needs.family(bug->needs.families.front());
      for (const std::string weights : {"random", "trained"}) {
        if (effort.out_of_time()) return;
        const std::vector<std::string> key{std::string(bug->id), family, weights,
                                           std::string(bug->needs.recipe), std::to_string(seed)};
        std::vector<std::string> last = key;
        last.emplace_back("reference");
        last.emplace_back("twins");
        if (rows.settled(last)) continue;
        const Layout layout = parse_layout(std::string(bug->needs.layout));
        const Recipe recipe = find_recipe(std::string(bug->needs.recipe));
        const Config config = small(*bug, seed);
        const Trace* loaded = weights == "trained" ? &trained_for(config, effort) : nullptr;
        const Start start = start_of(config, recipe, layout, default_text(), loaded);
        judge_all(rows, key, start, *bug);
        effort.progress(key[0] + " " + key[1] + " " + weights + " seed " + key[4]);
      }
    }
  }
}

}  // namespace

extern const Experiment localisation{
    .name = "localisation",
    .question =
        "Which module does each rule name where a bug is planted, with and without "
        "rewriting what modules take in?",
    .columns = {"bug", "family", "weights", "recipe", "seed", "rewriting", "rule", "reached",
                "changed", "bites_at", "named", "place", "own_findings", "modules", "false_alarm",
                "own_false_findings", "false_modules"},
    .keys = 7,
    .run = run,
    .trained_states = "seed 7, 150 steps of 16 sequences of 32 bytes, bf16",
};

}  // namespace plumb::experiments
