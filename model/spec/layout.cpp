#include "model/spec/layout.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>

#include "number/outcome.hpp"
#include "number/words.hpp"

namespace plumb::model {
namespace {

const std::vector<std::string> part_names{
    "dp",      "ep",      "tp", "cp",     "pp",   "vpp",   "zero",      "recompute",
    "offload", "overlap", "sp", "padded", "runs", "split", "predivide", "etp"};

[[noreturn]] void refuse(const std::string& part) {
  const std::string name = part.substr(0, part.find_first_of("0123456789:-"));
  if (part.find_first_of(" \t") != std::string::npos) {
    throw Failure("layout part '" + part + "' has a blank in it; write parts with commas alone");
  }
  if (std::ranges::find(part_names, name) == part_names.end()) {
    if (const std::string meant = probably_meant(name, part_names); !meant.empty()) {
      throw Failure("unknown layout part '" + part + "'; did you mean " + meant +
                    part.substr(name.size()) + "?");
    }
  }
  throw Failure(
      "layout part '" + part +
      "' is not understood; write for example dp2,tp2,sp: each of dpN, epN, tpN, cpN, "
      "cpN:allgather, cpN:ulysses or cpN:ring, ppN or ppN:3+1 (layers of each stage), vppN (N from "
      "1 to 4096), sp, zero1 to zero3, recompute, recompute:uniformN or "
      "recompute:selective, split, offload, offload:activations or offload:optimizer, "
      "overlap:SEED (from 1), padded, runsN, and predivideN (a power of two), and etp1 at most once");
}

// The whole number that `digits` is.
int number(const std::string& digits, const std::string& part, int least, int most) {
  int n = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  const bool whole = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  const bool too_large = read.ec == std::errc::result_out_of_range || (whole && n > most);
  if (too_large && digits.front() != '-') {
    throw Failure("layout part '" + part + "' is too large; it goes up to " + std::to_string(most));
  }
  if (!whole || n < least) refuse(part);
  return n;
}

std::vector<int> layers_of_stages(const std::string& text, const std::string& part) {
  std::vector<int> layers;
  std::istringstream sizes(text);
  for (std::string n; std::getline(sizes, n, '+');) layers.push_back(number(n, part, 1, 4096));
  if (layers.empty()) refuse(part);
  return layers;
}

void read_recompute(Layout& layout, const std::string& variant, const std::string& part) {
  if (variant == "selective") {
    layout.selective = true;
  } else if (variant.starts_with("uniform")) {
    layout.recompute = number(variant.substr(7), part, 1, 4096);
  } else if (variant.empty() || variant == "full") {
    layout.recompute = 1;
  } else {
    refuse(part);
  }
}

Context context_of(const std::string& variant, const std::string& part) {
  if (variant == "allgather") return Context::allgather;
  if (variant == "ring") return Context::ring;
  if (variant != "ulysses") refuse(part);
  return Context::ulysses;
}

// A part is name, number and variant: "pp2:3+1" is pp, 2, 3+1.
void read_part(Layout& layout, const std::string& part, std::set<std::string>& seen) {
  const std::string head = part.substr(0, part.find(':'));
  const std::string variant = head.size() == part.size() ? "" : part.substr(head.size() + 1);
  const std::string name = head.substr(0, head.find_first_of("0123456789-"));
  const std::string digits = head.substr(name.size());
  if (!seen.insert(name).second) refuse(part);
  const bool varies = name == "pp" || name == "cp" || name == "zero" || name == "recompute" ||
                      name == "offload" || name == "overlap";
  if (!varies && head != part) refuse(part);
  const auto degree = [&] { return number(digits, part, 1, 4096); };
  if (name == "dp") {
    layout.dp = degree();
  } else if (name == "tp") {
    layout.tp = degree();
  } else if (name == "pp") {
    layout.pp = degree();
    if (head != part) layout.stage_layers = layers_of_stages(variant, part);
  } else if (name == "cp") {
    layout.cp = degree();
    if (head != part) layout.context = context_of(variant, part);
  } else if (name == "ep") {
    layout.ep = degree();
  } else if (head == "etp1") {
    layout.whole_experts = true;
  } else if (name == "vpp") {
    layout.vpp = degree();
  } else if (name == "zero") {
    layout.zero = number(digits, part, 0, 3);
    if (head != part) layout.sharers = number(variant, part, 1, 4096);
  } else if (head == "sp") {
    layout.sp = true;
  } else if (head == "padded") {
    layout.padded = true;
  } else if (head == "split") {
    layout.split = true;
  } else if (name == "runs") {
    layout.runs = degree();
  } else if (name == "predivide") {
    layout.predivide = degree();
    if (!std::has_single_bit(static_cast<unsigned>(layout.predivide))) refuse(part);
  } else if (head == "offload" &&
             (variant.empty() ? head == part
                              : variant == "activations" || variant == "optimizer")) {
    layout.offload_activations = variant != "optimizer";
    layout.offload_optimizer = variant != "activations";
  } else if (head == "overlap") {
    layout.overlap = number(variant, part, 1, std::numeric_limits<int>::max());
  } else if (head == "recompute") {
    read_recompute(layout, variant, part);
  } else {
    refuse(part);
  }
}

void divides(int n, int size, const std::string& axis, const std::string& what) {
  if (size % n == 0) return;
  throw Failure(axis + std::to_string(n) + " does not divide the " + std::to_string(size) + " " +
                what + "; choose a degree that does");
}

// The number of ranks; degrees may be so large that it does not fit an int.
long long ranks_of(const Layout& l) {
  return 1LL * l.dp * l.tp * std::min(1LL * l.pp * l.cp, 1LL << 30);
}

void check_stages(const Layout& l, const Config& c) {
  if (l.vpp > 1 && l.pp == 1) {
    throw Failure("vpp" + std::to_string(l.vpp) + " splits the stages of a pipeline; add pp2");
  }
  if (l.stages() > c.layers) {
    throw Failure(std::to_string(l.stages()) + " stages need as many layers, the model has " +
                  std::to_string(c.layers) + "; choose fewer stages");
  }
  if (l.stage_layers.empty()) return;
  const auto said = static_cast<int>(l.stage_layers.size());
  const int sum = std::accumulate(l.stage_layers.begin(), l.stage_layers.end(), 0);
  if (said == l.stages() && sum == c.layers) return;
  throw Failure("the layout gives " + std::to_string(sum) + " layers to " + std::to_string(said) +
                " stages, the model has " + std::to_string(c.layers) + " layers and the layout " +
                std::to_string(l.stages()) + " stages; make them agree");
}

// There may be more tensor-parallel ranks than key/value heads: each head then has copies.
void check_key_heads(const Layout& l, const Config& c) {
  if (l.tp <= c.kv_heads) return divides(l.tp, c.kv_heads, "tp", "key/value heads");
  const std::string ranks = "tp" + std::to_string(l.tp);
  if (l.tp % c.kv_heads != 0 || c.qkv_width() % l.tp != 0) {
    throw Failure(ranks + " is no multiple of the " + std::to_string(c.kv_heads) +
                  " key/value heads, or does not divide the columns of queries, keys and values; "
                  "choose a degree that does");
  }
  if (l.cp == 1 && c.qk_norm == 0 && c.latent == 0) return;
  throw Failure(ranks + " copies the " + std::to_string(c.kv_heads) +
                " key/value heads, which is not done under cp, --qk-norm and --latent; leave them "
                "out, or choose a tp of at most that many");
}

}  // namespace

Layout parse_layout(const std::string& text) {
  Layout layout;
  std::set<std::string> seen;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) read_part(layout, part, seen);
  return layout;
}

std::string name_of(const Layout& l) {
  std::string name = "dp" + std::to_string(l.dp) + ",tp" + std::to_string(l.tp);
  if (l.sp) name += ",sp";
  if (l.cp > 1) name += ",cp" + std::to_string(l.cp);
  if (l.cp > 1 && l.context == Context::ulysses) name += ":ulysses";
  if (l.cp > 1 && l.context == Context::ring) name += ":ring";
  if (l.pp > 1) name += ",pp" + std::to_string(l.pp);
  for (std::size_t s = 0; s < l.stage_layers.size(); ++s) {
    name += (s == 0 ? ":" : "+") + std::to_string(l.stage_layers[s]);
  }
  if (l.vpp > 1) name += ",vpp" + std::to_string(l.vpp);
  if (l.ep > 1) name += ",ep" + std::to_string(l.ep);
  if (l.zero > 0) name += ",zero" + std::to_string(l.zero);
  if (l.zero > 0 && l.sharers > 0) name += ":" + std::to_string(l.sharers);
  if (l.selective) name += ",recompute:selective";
  if (l.recompute > 0) name += ",recompute:uniform" + std::to_string(l.recompute);
  if (l.offload_activations || l.offload_optimizer) name += ",offload";
  if (l.offload_activations != l.offload_optimizer) {
    name += l.offload_activations ? ":activations" : ":optimizer";
  }
  if (l.overlap > 0) name += ",overlap:" + std::to_string(l.overlap);
  if (l.padded) name += ",padded";
  if (l.split) name += ",split";
  if (l.runs > 1) name += ",runs" + std::to_string(l.runs);
  if (l.whole_experts) name += ",etp1";
  if (l.predivide > 1) name += ",predivide" + std::to_string(l.predivide);
  return name;
}

std::vector<std::string> idle_parts(const Layout& l) {
  std::vector<std::string> idle;
  if (l.sp && l.tp == 1) idle.emplace_back("sp slices tokens among tp ranks, and there is one");
  if (l.zero > 0 && l.sharers == 1) {
    idle.push_back("zero" + std::to_string(l.zero) + ":1 shares among one rank, which is no share");
  } else if (l.zero > 0 && l.dp * l.cp == 1) {
    idle.push_back("zero" + std::to_string(l.zero) +
                   " shares among dp and cp ranks, and there is one");
  }
  if (l.padded && l.zero == 0 && l.overlap == 0) {
    idle.emplace_back(
        "padded pads buckets of overlap:SEED and shares of zero1 to zero3, and there are none");
  }
  if (l.split && (l.tp == 1 || l.sp || l.recompute == 0)) {
    idle.emplace_back(
        "split slices the inputs of recompute among tp ranks that have them whole, and there are "
        "none");
  }
  if (l.predivide > 1 && l.dp == 1) {
    idle.emplace_back("predivide divides what dp ranks sum, and there is one");
  }
  if (l.world_size() == 1) idle.emplace_back("all degrees are 1, so that one rank does everything");
  return idle;
}

void check_layout(const Layout& l, const Config& c, int most) {
  if (ranks_of(l) > most) {
    throw Failure("the layout has " + std::to_string(ranks_of(l)) + " ranks, " +
                  (most == most_ranks
                       ? "and one process runs at most 64; choose smaller degrees, or look at "
                         "it with plumb dry"
                       : "and at most " + std::to_string(most) +
                             " are planned; choose "
                             "smaller degrees"));
  }
  divides(l.tp, c.heads, "tp", "heads");
  check_key_heads(l, c);
  divides(l.tp, c.hidden, "tp", c.experts > 0 ? "units of an expert" : "units of the MLP");
  divides(l.tp, c.shared, "tp", "units of the shared expert");
  if (c.vocabulary() % l.tp != 0) {
    throw Failure("tp" + std::to_string(l.tp) + " does not divide the " +
                  std::to_string(c.vocabulary()) +
                  " rows of the vocabulary; add some with --vocabulary-padding");
  }
  divides(l.dp, c.micro_batches, "dp", "micro-batches");
  divides(l.runs, c.micro_batches / l.dp, "runs", "micro-batches of a rank");
  if (l.ep > 1 && c.experts == 0) {
    throw Failure("ep" + std::to_string(l.ep) + " divides experts, and " + family_of(c) +
                  " has none; say --family " + family_of(c) + "-moe, or leave ep out");
  }
  if (l.whole_experts && (c.experts == 0 || l.tp == 1 || !l.sp)) {
    throw Failure(
        "etp1 keeps experts whole on tp ranks that each send them the tokens of their slice; say it "
        "with a family -moe, tp and sp");
  }
  divides(l.ep, c.experts, "ep", "experts");
  divides(l.ep, l.dp, "ep", "data-parallel ranks, which share the experts");
  if (l.sharers > 0) {
    const std::string zero = "zero" + std::to_string(l.zero) + ":";
    divides(l.sharers, l.dp, zero, "data-parallel ranks, which have shares of the state");
    divides(l.sharers, l.expert_copies(), zero, "data-parallel ranks that have the same experts");
  }
  if (l.cp > 1) divides(2 * l.cp, c.sequence, "twice cp: ", "tokens of a sequence");
  if (l.cp > 1 && l.context == Context::ulysses) {
    divides(l.tp * l.cp, c.kv_heads, "ulysses over tp x cp = ", "key/value heads");
  }
  if (l.sp) {
    for (const int m : {0, c.micro_batches - 1}) {
      divides(l.tp * l.cp, c.tokens(m), "sp over tp x cp = ", "tokens of a micro-batch");
    }
  }
  check_stages(l, c);
}

std::vector<Stage> stages_of(const Layout& l, const Config& c) {
  std::vector<Stage> stages;
  const int n = l.stages();
  for (int s = 0, first = 0; s < n; ++s) {
    const int even = c.layers / n + (s < c.layers % n ? 1 : 0);
    const int size = l.stage_layers.empty() ? even : l.stage_layers[static_cast<std::size_t>(s)];
    stages.push_back({first, first + size});
    first += size;
  }
  return stages;
}

}  // namespace plumb::model
