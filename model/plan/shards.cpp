#include "model/plan/shards.hpp"

#include <algorithm>
#include <array>

#include "model/plan/travelling_rows.hpp"
#include "model/spec/ownership.hpp"
#include "model/state/state.hpp"

namespace plumb::model {
namespace {

bool ends_with_one_of(const std::string& text, std::initializer_list<const char*> ends) {
  return std::ranges::any_of(ends, [&](const char* end) { return text.ends_with(end); });
}

// "m3/layers.2.mlp.fc1/out" in its parts; micro_batch -1: of the step.
struct Name {
  int micro_batch = -1;
  std::string module, kind;
};

Name parsed(const std::string& id) {
  const std::string rest = without_micro_batch(without_rewriting(id));
  const std::size_t slash = rest.rfind('/');
  return {rest.size() == id.size() ? -1 : std::stoi(id.substr(1)), rest.substr(0, slash),
          rest.substr(slash + 1)};
}

// What products see of an activation or a gradient: the copy itself, or a scale of it.
bool of_operand(const std::string& kind) {
  return kind.starts_with("operand") || kind.starts_with("grad_operand");
}

// How ranks hold a tensor of a micro-batch that is no gradient of a parameter.
Sharding held_in_batch(const Name& name) {
  const auto& [m, module, kind] = name;
  const bool gradient = kind == "grad_operand" || kind.starts_with("grad_operand_");
  if (module == "data") return Sharding::tokens;
  if (module.ends_with("loss")) return kind == "lse" ? Sharding::tokens : Sharding::whole;
  if (module.ends_with(".router")) {
    return ends_with_one_of(kind, {"count", "_loss"}) ? Sharding::whole : Sharding::own_tokens;
  }
  if (module.find(".experts.") != std::string::npos) {
    const bool first = module.ends_with(".fc1");
    if (of_operand(kind)) return first == gradient ? Sharding::copy_columns : Sharding::copies;
    if (module.ends_with(".act")) return Sharding::copy_columns;
    return first == (kind == "out") ? Sharding::copy_columns : Sharding::copies;
  }
  if (module.ends_with(".dispatch")) return kind == "out" ? Sharding::copies : Sharding::own_tokens;
  if (module.ends_with(".combine")) return kind == "out" ? Sharding::own_tokens : Sharding::copies;
  if (ends_with_one_of(module,
                       {".attn.qkv", ".attn.q", ".attn.kv_up", ".fc1", "head", ".qkv.adapter_up",
                        ".fc1.adapter_up", ".qkv.adapted", ".fc1.adapted"})) {
    if (of_operand(kind)) return gradient ? Sharding::token_columns : Sharding::tokens;
    return kind == "grad_in" ? Sharding::own_tokens : Sharding::token_columns;
  }
  if (ends_with_one_of(module, {".attn.proj", ".fc2", ".proj.adapter_down", ".fc2.adapter_down",
                                ".proj.adapted", ".fc2.adapted"})) {
    if (of_operand(kind)) return gradient ? Sharding::tokens : Sharding::token_columns;
    return kind == "grad_in" ? Sharding::token_columns : Sharding::own_tokens;
  }
  if (module.ends_with(".rope") || (module.ends_with(".core") && kind == "grad_in")) {
    return Sharding::token_heads;
  }
  if (ends_with_one_of(module, {".act", ".core", ".qk_norm", ".sinks"})) {
    return Sharding::token_columns;
  }
  return of_operand(kind) ? Sharding::tokens : Sharding::own_tokens;
}

// From which stage of ZeRO on a rank has a share of its slice only; 4: never.
int shared_from(const std::string& kind) {
  if (kind == "param" || kind == "param@previous") return 3;
  if (kind == "main_grad" || kind == "unscaled_grad") return 2;
  return kind == "wgrad" || of_operand(kind) ? 4 : 1;
}

// Consecutive rows make one piece.
void add_rows(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns,
              Placement& lies) {
  auto& pieces = lies.pieces;
  const bool below = !pieces.empty() &&
                     pieces.back().global.row + pieces.back().global.rows == row &&
                     pieces.back().global.col == column && pieces.back().global.cols == columns;
  if (below) {
    pieces.back().global.rows += rows;
    pieces.back().local.rows += rows;
    return;
  }
  const std::size_t next = pieces.empty() ? 0 : pieces.back().local.row + pieces.back().local.rows;
  pieces.push_back({{row, column, rows, columns}, {next, 0, rows, columns}});
}

class Planner {
 public:
  Planner(const Training& run, const Graph& graph, const Values& values)
      : c_(run.config), l_(run.layout), graph_(graph), values_(values), stages_(stages_of(l_, c_)) {
    for (const Parameter& p : parameters(c_)) parameters_.emplace(p.name, p);
    for (const char* name : {"embedding.lookup", "head.weight", "head.loss.weight",
                             "head.mtp.weight", "mtp.embedding.weight"}) {
      tie(name);
    }
    for (const auto& [id, how, weight] : delayed_operands(c_, run.recipe)) histories_[id] = weight;
    for (const Node& node : graph.nodes) {
      if (!traits_of(node).shaped_by_parts) continue;
      scales_.emplace(node.outputs.front(), &node);
    }
  }

  Shards run() {
    Shards all(static_cast<std::size_t>(l_.world_size()));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      at_ = coordinates(l_, static_cast<int>(rank));
      shards_ = &all[rank];
      const std::vector<std::string> leaves = leaves_of(graph_);
      for (const std::string& id : leaves) {
        if (!is_rewritten(id)) add(id, false, false);
      }
      const std::set<std::string> taken(leaves.begin(), leaves.end());
      for (const Node& node : graph_.nodes) {
        for (const std::string& id : node.outputs) {
          const bool again = computed_again(node, id);
          add(id, true, again);
          if (taken.contains(rewritten_id(id))) add(rewritten_id(id), false, again);
        }
      }
    }
    return all;
  }

 private:
  // Matrices that are the embedding's under another name, where they are no parameters themselves.
  void tie(const std::string& name) {
    Parameter as = parameter_of(c_, "embedding.weight");
    as.name = name;
    parameters_.emplace(name, as);
  }

  bool computed_again(const Node& node, const std::string& id) const {
    const Name name = parsed(id);
    const int layer = layer_of(name.module);
    if (name.micro_batch < 0 || layer < 0 || node.phase != Phase::forward) return false;
    if (l_.recompute > 0 && layer < c_.layers) return true;
    return l_.selective && name.module.ends_with(".attn.core");
  }

  void add(const std::string& id, bool made, bool again) {
    const auto found = values_.find(id);
    if (found == values_.end()) return;
    const Name name = parsed(id);
    Placement lies{found->second->rows, found->second->cols, {}};
    if (!place(id, name, lies)) return;
    shards_->emplace(id, PromisedShard{lies, made});
    if (again) shards_->emplace(id + "@recompute", PromisedShard{std::move(lies), made});
  }

  // False where the rank has nothing to do with it. (It may have none of its elements all the same:
  // a share of a small tensor, an expert without tokens.)
  bool place(const std::string& id, const Name& name, Placement& lies) const {
    if (const auto weight = weight_of_history(name); !weight.empty()) {
      // A history goes on where something was cast; the embedding on both ends is cast on both.
      const bool goes_on = name.kind.ends_with("_history") && name.module != weight;
      const bool here = goes_on ? holds_module(c_, l_, at_, stages_, name.module)
                                : model::holds(c_, l_, at_, stages_, parameters_.at(weight));
      return here && all(lies);
    }
    const auto p = parameters_.find(name.module);  // (or what attention's sinks get)
    if (p != parameters_.end() && (name.micro_batch < 0 || name.kind == "wgrad")) {
      return of_parameter(p->second, name, lies);
    }
    return name.micro_batch < 0 ? of_step(name, lies) : of_batch(id, name, lies);
  }

  bool all(Placement& lies) const {
    lies = whole(lies.rows, lies.cols);
    return true;
  }

  // Delayed scaling: "NAME_scale" and "NAME_history" of what is cast under NAME.
  std::string weight_of_history(const Name& name) const {
    if (name.micro_batch >= 0) return "";
    std::string id = name.module + "/" + name.kind;
    for (const std::string end : {"@previous", "_history", "_scale"}) {
      if (id.ends_with(end)) id.resize(id.size() - end.size());
    }
    const auto found = histories_.find(id);
    return found == histories_.end() || id == name.module + "/" + name.kind ? "" : found->second;
  }

  bool of_parameter(const Parameter& p, const Name& name, Placement& lies) const {
    if (p.expert >= 0) {
      if (name.micro_batch >= 0 && !visits(name.micro_batch)) return false;
      if (!model::holds(c_, l_, at_, stages_, p)) return false;
    } else if (!in_batch(name) || !holds_under_this_name(p, name)) {
      return false;
    }
    if (name.kind.starts_with("operand") && name.kind.ends_with("_tensor_scale")) return all(lies);
    if (name.kind.starts_with("operand_scale") && lies.rows * lies.cols == 1) return all(lies);
    slice(held_as(l_, p), lies);
    if (l_.zero >= shared_from(name.kind)) share(p, lies);
    return true;
  }

  // The embedding on both ends has gradients of two names before they are one.
  bool holds_under_this_name(const Parameter& p, const Name& name) const {
    const bool begins = at_.pp == 0, ends = at_.pp == l_.pp - 1;
    if (p.name == "embedding.lookup") return begins;
    if (!on_both_ends(c_, p)) return model::holds_module(c_, l_, at_, stages_, p.name);
    return begins || (ends && name.kind != "wgrad");
  }

  bool of_step(const Name& name, Placement& lies) const {
    const bool everywhere =
        name.module == "clip" || name.module == "loss_scale" || name.module == "data";
    return (everywhere || holds_module(c_, l_, at_, stages_, name.module)) && all(lies);
  }

  bool of_batch(const std::string& id, const Name& name, Placement& lies) const {
    if (name.module != "data" && !holds_module(c_, l_, at_, stages_, name.module)) return false;
    const Sharding sharding = held_in_batch(name);
    const bool of_copies = sharding == Sharding::copies || sharding == Sharding::copy_columns;
    if (of_copies ? !visits(name.micro_batch) : !in_batch(name)) return false;
    const bool scale = name.kind.ends_with("_scale") && of_operand(name.kind);
    if (scale && (name.kind.ends_with("_tensor_scale") || !scales_.contains(id))) return all(lies);
    if (scale && in_pieces(*scales_.at(id), sharding)) {
      scales_of_pieces(*scales_.at(id), sharding, name, lies);
    } else if (of_copies) {
      copies(name, sharding == Sharding::copy_columns, lies);
    } else {
      slice(sharding, lies);
    }
    return true;
  }

  bool in_batch(const Name& name) const {
    return name.micro_batch < 0 || name.micro_batch % l_.dp == at_.dp;
  }
  // Copies of tokens travel to the ranks that have their experts.
  bool visits(int micro_batch) const {
    return micro_batch % l_.dp % l_.expert_copies() == at_.dp % l_.expert_copies();
  }

  std::size_t tp() const { return static_cast<std::size_t>(l_.tp); }
  std::size_t tp_rank() const { return static_cast<std::size_t>(at_.tp); }

  void slice(Sharding sharding, Placement& lies) const {
    const std::size_t n = tp(), mine = tp_rank();
    const std::size_t rows = lies.rows, cols = lies.cols;
    if (sharding == Sharding::whole) {
      all(lies);
    } else if (sharding == Sharding::rows) {
      lies = row_slice(rows, cols, rows * mine / n, rows * (mine + 1) / n);
    } else if (sharding == Sharding::columns) {
      lies = column_slice(rows, cols, cols * mine / n, cols * (mine + 1) / n);
    } else {
      tokens(sharding, lies);
    }
  }

  void tokens(Sharding sharding, Placement& lies) const {
    std::vector<std::size_t> rows = tokens_of_context(c_, l_, at_.cp, lies.rows);
    if (sharding == Sharding::own_tokens && l_.sp) {
      const std::size_t share = rows.size() / tp();
      rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(share * (tp_rank() + 1)), rows.end());
      rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(share * tp_rank()));
    }
    if (sharding == Sharding::token_heads) return heads(rows, lies);
    const bool sliced = sliced_columns(sharding);
    const std::size_t cols = sliced ? lies.cols / tp() : lies.cols;
    for (const std::size_t row : rows) add_rows(row, 1, sliced ? cols * tp_rank() : 0, cols, lies);
  }

  // Blocks of columns, one beside the other here.
  void heads(const std::vector<std::size_t>& rows, Placement& lies) const {
    std::size_t column = 0;
    for (const auto& [first, count] : columns_of_heads(c_, l_, at_.tp)) {
      Placement block{lies.rows, lies.cols, {}};
      for (const std::size_t row : rows) add_rows(row, 1, first, count, block);
      for (Piece& piece : block.pieces) piece.local.col = column;
      lies.pieces.insert(lies.pieces.end(), block.pieces.begin(), block.pieces.end());
      column += count;
    }
  }

  // The tensor that says which experts take each token.
  const Tensor* choices(const Name& name) const {
    const std::string mlp = name.module.substr(0, name.module.find(".mlp") + 4);
    const std::string router = "m" + std::to_string(name.micro_batch) + "/" + mlp + ".router/";
    const auto found = values_.find(router + (c_.capacity > 0 ? "kept" : "routing"));
    return found == values_.end() ? nullptr : found->second.get();
  }

  int group() const { return at_.dp / l_.expert_copies(); }

  void copies(const Name& name, bool sliced, Placement& lies) const {
    const Tensor* ids = choices(name);
    if (ids == nullptr) return;
    sliced = sliced && !l_.whole_experts;
    const std::size_t cols = sliced ? lies.cols / tp() : lies.cols;
    for (const std::size_t row : rows_of_copies(c_, l_, *ids, {at_.cp, at_.tp, group()})) {
      add_rows(row, 1, sliced ? cols * tp_rank() : 0, cols, lies);
    }
  }

  // Blocks of several rows are made of the rows that a rank has.
  static bool in_pieces(const Node& scales, Sharding sharding) {
    return sharding != Sharding::whole && scales.attributes.at("rows") > 1;
  }

  // Below one another: by group of experts, then in the order of the contexts.
  void scales_of_pieces(const Node& node, Sharding sharding, const Name& name,
                        Placement& lies) const {
    const bool sliced = sliced_columns(sharding);
    const std::size_t cols = sliced ? lies.cols / tp() : lies.cols;
    const std::size_t left = sliced ? cols * tp_rank() : 0;
    if (sharding == Sharding::tokens || sharding == Sharding::token_columns) {
      const std::size_t rows = lies.rows / static_cast<std::size_t>(l_.cp);
      return add_rows(rows * static_cast<std::size_t>(at_.cp), rows, left, cols, lies);
    }
    const Tensor* ids = choices(name);
    if (ids == nullptr) return;
    const auto block = static_cast<std::size_t>(node.attributes.at("rows"));
    std::size_t first = 0;
    for (int g = 0; g < l_.ep; ++g) {
      for (int context = 0; context < l_.cp; ++context) {
        const std::size_t rows =
            (rows_of_copies(c_, l_, *ids, {context, at_.tp, g}).size() + block - 1) / block;
        if (g == group() && context == at_.cp && rows > 0) add_rows(first, rows, left, cols, lies);
        first += rows;
      }
    }
  }

  // Of the elements of the slice, row by row, the contiguous share of this data-parallel rank.
  void share(const Parameter& p, Placement& lies) const {
    const Block slice = lies.pieces.front().global;
    const int ranks = l_.sharers_of(p.expert >= 0);
    const int rank = (p.expert < 0 ? at_.dp : at_.dp % l_.expert_copies()) % ranks;
    const auto [first, last] = bounds::slice(slice.rows * slice.cols, ranks, rank);
    lies.pieces.clear();
    for (std::size_t e = first; e < last;) {
      const std::size_t column = e % slice.cols;
      const std::size_t n = std::min(slice.cols - column, last - e);
      add_rows(slice.row + e / slice.cols, 1, slice.col + column, n, lies);
      e += n;
    }
  }

  const Config& c_;
  const Layout& l_;
  const Graph& graph_;
  const Values& values_;
  std::vector<Stage> stages_;
  std::map<std::string, Parameter> parameters_;
  std::map<std::string, std::string> histories_;  // id -> the weight that its layer has
  std::map<std::string, const Node*> scales_;     // of blocks
  Coordinates at_;
  std::map<std::string, PromisedShard>* shards_ = nullptr;
};

}  // namespace

Shards promised_shards(const Training& run, const Graph& graph, const Values& values) {
  return Planner(run, graph, values).run();
}

}  // namespace plumb::model
