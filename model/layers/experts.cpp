#include "model/layers/experts.hpp"

#include <optional>

#include "model/joints/experts.hpp"
#include "model/layers/context.hpp"
#include "model/layers/grouped.hpp"
#include "model/layers/linear.hpp"
#include "model/layers/norm.hpp"
#include "model/rank/arriving_rows.hpp"

namespace plumb::model {
namespace {

// The number of this rank's first token of the stream among those of its context.
std::size_t first_token(const Rank& rank) {
  if (rank.l.whole_experts) return 0;  // there are no others
  return rank.l.sp ? rank.first(static_cast<std::size_t>(rank.c.tokens(rank.where.micro_batch) /
                                                         rank.l.cp))
                   : 0;
}

std::size_t experts_here(const Rank& rank) {
  return static_cast<std::size_t>(rank.c.experts / rank.l.ep);
}

Tensor rows_between(const Tensor& x, std::size_t first, std::size_t last) {
  Tensor rows(last - first, x.cols);
  std::copy(x.row(first), x.row(last), rows.values.begin());
  return rows;
}

// While this object lives, the rank works on the micro-batch of another expert-parallel rank.
class OnBehalf {
 public:
  OnBehalf(Rank& rank, std::size_t of) : rank_(rank), micro_batch_(rank.where.micro_batch) {
    rank.where.micro_batch += (static_cast<int>(of) - rank.where.ep) * rank.l.expert_copies();
  }
  ~OnBehalf() { rank_.where.micro_batch = micro_batch_; }
  OnBehalf(const OnBehalf&) = delete;
  OnBehalf& operator=(const OnBehalf&) = delete;

 private:
  Rank& rank_;
  int micro_batch_;
};
// The same, on rows that have come from it.
class Visiting : OnBehalf {
 public:
  Visiting(Rank& rank, std::size_t from, const Visit& visit) : OnBehalf(rank, from) {
    rank.copies_here = visit.places;
    rank.copies_of_ranks = visit.of_ranks;
  }
};

// The end of the rows of the rank whose experts come before `expert`; the last rank's include
// dropped copies.
std::size_t end_of(const Copies& copies, std::size_t expert) {
  return expert + 1 < copies.begin.size() ? copies.begin[expert] : copies.rows();
}

// Sends rows of this rank's micro-batch to the ranks of their experts, and receives theirs: all at
// once or, where transfers overlap, while the experts here work on those that have come. The zeros of
// dropped copies go along to the last rank, so that its record is whole.
class ToExperts {
 public:
  // `of`: the module that waits are asked for.
  ToExperts(Rank& rank, std::string of, const Tensor& rows, const Copies& copies,
            const std::vector<Visit>& visits)
      : rank_(rank), of_(std::move(of)) {
    std::vector<Tensor> parts;
    const std::size_t n = experts_here(rank);
    for (std::size_t e = 0; e + 1 < copies.begin.size(); e += n) {
      parts.push_back(rows_between(rows, copies.begin[e], end_of(copies, e + n)));
    }
    if (rank.streams.on() && rank.where.ep_size > 1) {
      come_later(std::move(parts), visits);
    } else {
      came_ = rank.mesh.ep.exchange(parts);
    }
  }
  // Returns what came from an expert-parallel rank; waits for it. Once each.
  Tensor of_rank(std::size_t from) {
    if (!coming_) return std::move(came_[from]);
    const View<float> rows = coming_->of_rank(static_cast<int>(from), of_);
    Tensor own(rows.rows, rows.cols, to_be_written);
    std::copy_n(rows.data, own.size(), own.values.begin());
    return own;
  }

 private:
  void come_later(std::vector<Tensor> parts, const std::vector<Visit>& visits) {
    constexpr int tag = 4;
    std::vector<ArrivingRows::Rows> to;
    for (Tensor& part : parts) to.push_back(std::make_shared<const Tensor>(std::move(part)));
    std::vector<std::size_t> from;
    for (const Visit& visit : visits) from.push_back(visit.places.size());
    coming_.emplace(rank_, ArrivingRows::Route{rank_.mesh.ep, Wait::dispatched, tag}, std::move(to),
                    from, rank_.room_of_copies);
  }

  Rank& rank_;
  std::string of_;
  std::vector<Tensor> came_;
  std::optional<ArrivingRows> coming_;
};

// Sends them back.                                                            // (T k / cp, D)
Tensor from_experts(Rank& rank, const std::vector<Tensor>& parts) {
  Tensor all(0, static_cast<std::size_t>(rank.c.width));
  for (const Tensor& part : rank.mesh.ep.exchange(parts)) {
    all.values.insert(all.values.end(), part.values.begin(), part.values.end());
    all.rows += part.rows;
  }
  return all;
}

// The tokens that this rank sends to experts: of its context, or where experts are whole its own.
Tensor tokens_to_send(Rank& rank, const Tensor& own) {
  return rank.l.whole_experts ? own : all_tokens(rank, own);
}

// A slice of a context, if experts are whole.
template <class Rows>
Rows sent_by(const Rank& rank, int tp, const Rows& context, std::size_t n,
             Rows (*between)(const Rows&, std::size_t, std::size_t)) {
  if (!rank.l.whole_experts) return context;
  const std::size_t share = n / static_cast<std::size_t>(rank.where.tp_size);
  const auto t = static_cast<std::size_t>(tp);
  return between(context, share * t, share * (t + 1));
}

std::vector<std::size_t> numbers_between(const std::vector<std::size_t>& all, std::size_t first,
                                         std::size_t last) {
  return {all.begin() + static_cast<std::ptrdiff_t>(first),
          all.begin() + static_cast<std::ptrdiff_t>(last)};
}

// The places of the copies that this rank sends among the rows of all tokens.
std::vector<std::size_t> places_of(const Rank& rank, const Copies& own, const Copies& all) {
  const std::vector<std::size_t> context = rank.rows_of(rank.where.cp);
  const std::vector<std::size_t> tokens =
      sent_by(rank, rank.where.tp, context, context.size(), numbers_between);
  std::vector<std::size_t> places(own.rows());
  for (std::size_t i = 0; i < own.row.size(); ++i) {
    places[own.row[i]] = all.row[tokens[i / own.slots] * own.slots + i % own.slots];
  }
  return places;
}

// The rows of a micro-batch that come to the experts here, given the choices of all its tokens.
Visit visit_of(const Rank& rank, const Tensor& choices) {
  const auto experts = static_cast<std::size_t>(rank.c.experts);
  const std::size_t n = experts_here(rank), mine = n * static_cast<std::size_t>(rank.where.ep);
  std::vector<Copies> contexts;
  for (int c = 0; c < rank.where.cp_size; ++c) {
    const Tensor of_context = tokens_of(rank, c, choices);
    contexts.push_back(copies_of(
        sent_by(rank, rank.where.tp, of_context, of_context.rows, rows_between), experts));
  }
  Visit visit;
  for (std::size_t e = 0; e < experts; e += n) {
    for (const Copies& c : contexts) visit.of_ranks.push_back(end_of(c, e + n) - c.begin[e]);
  }
  const Copies& own = contexts[static_cast<std::size_t>(rank.where.cp)];
  const std::size_t first = own.begin[mine], last = end_of(own, mine + n);
  for (std::size_t e = 0; e <= n; ++e) visit.begin.push_back(own.begin[mine + e] - first);
  visit.places = places_of(rank, own, copies_of(choices, experts));
  visit.places = {visit.places.begin() + static_cast<std::ptrdiff_t>(first),
                  visit.places.begin() + static_cast<std::ptrdiff_t>(last)};
  return visit;
}

// The same for each expert-parallel rank whose micro-batch it is.
std::vector<Visit> visits_of(Rank& rank, const Tensor& choices) {
  const Tensor all = rank.mesh.ep.gather_rows(choices);
  std::vector<Visit> visits;
  for (std::size_t of = 0, first = 0; first < all.rows; ++of) {
    const OnBehalf its_tokens(rank, of);
    const auto end = first + static_cast<std::size_t>(rank.c.tokens(rank.where.micro_batch));
    visits.push_back(visit_of(rank, rows_between(all, first, end)));
    first = end;
  }
  return visits;
}

Grouped layer_of(const Rank& rank, const std::string& name, const char* which, const Visit& v) {
  return {name, which, experts_here(rank) * static_cast<std::size_t>(rank.where.ep), v.begin};
}

// Runs the experts here on the rows that they got.                                    // (N, D)
Tensor through_experts(Rank& rank, const std::string& name, Tensor rows, Visit& v) {
  const std::string of_experts = name + ".experts";
  rank.tap(name + ".dispatch/out", rows, Sharding::copies, rank.r.compute, rank.plain());
  v.rows = input_operand(rank, of_experts + ".fc1", std::move(rows), Sharding::copies);
  v.fc1 = grouped_columns(rank, layer_of(rank, name, "fc1", v), v.rows);
  Tensor act = activation(rank, of_experts + ".act", v.fc1, within_experts(rank));
  v.act = input_operand(rank, of_experts + ".fc2", std::move(act), within_experts(rank));
  return grouped_rows(rank, layer_of(rank, name, "fc2", v), v.act);
}

Tensor back_through_experts(Rank& rank, const std::string& name, const Tensor& dy, const Visit& v) {
  rank.tap(name + ".combine/grad_in", dy, Sharding::copies, rank.r.compute, rank.plain());
  const Tensor d_act = grouped_rows_backward(rank, layer_of(rank, name, "fc2", v), v.act, dy);
  const Tensor d_fc1 =
      activation_backward(rank, name + ".experts.act", v.fc1, d_act, within_experts(rank));
  return grouped_columns_backward(rank, layer_of(rank, name, "fc1", v), v.rows, d_fc1);
}

// Gradient of the probabilities of this rank's tokens.                                // (T, E)
Tensor gradient_of_weights(Rank& rank, const std::string& name, const Experts& s,
                           const Tensor& dy) {
  const auto experts = static_cast<std::size_t>(rank.c.experts);
  Tensor dp =
      weight_gradient(dy, s.fc2, s.routed.copies, s.routed.choices, experts, first_token(rank));
  for (std::size_t e = 0; e < experts; ++e) {
    const auto rank_of_expert = static_cast<int>(e / experts_here(rank));
    if (rank.joints.experts.weighs(rank.at(name), static_cast<int>(e), rank_of_expert)) continue;
    for (std::size_t t = 0; t < dp.rows; ++t) dp(t, e) = 0;
  }
  return dp;
}

}  // namespace

// Adds, for each choice of an expert that lives here, the part of its bias that its probability
// takes away.
static void add_rest_of_biases(Rank& rank, const std::string& name, const Routed& routed,
                               Tensor& y) {
  const std::size_t here = experts_here(rank) * static_cast<std::size_t>(rank.where.ep);
  for (std::size_t t = 0; t < y.rows; ++t) {
    for (std::size_t k = 0; k < routed.choices.cols; ++k) {
      const auto e = static_cast<std::size_t>(routed.choices(t, k));
      if (e < here || e >= here + experts_here(rank)) continue;
      const Tensor& bias = rank.bias(name + ".experts." + std::to_string(e) + ".fc2");
      for (std::size_t j = 0; j < y.cols; ++j) {
        y(t, j) += (1 - routed.own.p(t, e)) * bias.values[j];
      }
    }
  }
}

Tensor experts_layer(Rank& rank, const std::string& name, const Tensor& x, Experts& s) {
  s.routed = router_layer(rank, name + ".router", x);
  const Copies& copies = s.routed.copies;
  s.visits = visits_of(rank, s.routed.all_choices);
  Tensor rows = copy_tokens(tokens_to_send(rank, x), copies);
  rank.joints.experts.copied(rank.at(name + ".dispatch"), copies.begin.back(), rows);
  ToExperts coming(rank, name + ".dispatch", rows, copies, s.visits);
  std::vector<Tensor> parts(s.visits.size());
  for (std::size_t from = 0; from < parts.size(); ++from) {  // in one order: ranks share scales
    Tensor came = coming.of_rank(from);
    const Visiting visiting(rank, from, s.visits[from]);
    parts[from] = through_experts(rank, name, std::move(came), s.visits[from]);
  }
  s.fc2 = from_experts(rank, parts);
  Tensor y = weigh_rows(s.fc2, copies, s.routed.own.p, s.routed.choices, first_token(rank));
  if (rank.gpt() && !rank.joints.experts.gates_bias(rank.at(name))) {
    add_rest_of_biases(rank, name, s.routed, y);
  }
  rank.round(y);
  rank.tap(name + ".combine/out", y, Sharding::own_tokens, rank.r.compute, rank.plain());
  if (rank.c.shared == 0) return y;
  return sum_of_two(rank, name + ".sum/out", y, mlp_layer(rank, name + ".shared", x, s.shared));
}

Tensor experts_backward(Rank& rank, const std::string& name, const Experts& s, const Tensor& dy) {
  const Routed& routed = s.routed;
  const Copies& copies = routed.copies;
  Tensor d_rows = rank.l.whole_experts ? spread_gradient(dy, routed.own.p, routed.choices, copies)
                                       : spread_gradient(all_tokens(rank, dy), routed.p,
                                                         routed.context_choices, copies);
  rank.round(d_rows);
  rank.joints.experts.copied(rank.at(name + ".combine"), copies.begin.back(), d_rows);
  ToExperts coming(rank, name + ".combine", d_rows, copies, s.visits);
  std::vector<Tensor> parts(s.visits.size());
  for (std::size_t from = 0; from < parts.size(); ++from) {
    const Tensor came = coming.of_rank(from);
    const Visiting visiting(rank, from, s.visits[from]);
    parts[from] = back_through_experts(rank, name, came, s.visits[from]);
  }
  Tensor dx = add_rows(from_experts(rank, parts), copies, first_token(rank), dy.rows);
  rank.round(dx);
  rank.tap(name + ".dispatch/grad_in", dx, Sharding::own_tokens, rank.r.compute, rank.plain());
  const Tensor dp = gradient_of_weights(rank, name, s, dy);
  dx = sum_of_two(rank, name + ".dispatch.add/grad_out", dx,
                  router_backward(rank, name + ".router", routed, dp));
  if (rank.c.shared == 0) return dx;
  return sum_of_two(rank, name + ".sum/grad_in", dx,
                    mlp_backward(rank, name + ".shared", s.shared, dy));
}

}  // namespace plumb::model
