#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "paper_repro/claim.hpp"
#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {
namespace {

// A weight where the authors print it first behind the bug, and in layer 0: in epsilon.
struct Printed {
  const char *first, *last;
  double at_first, at_last;
};
constexpr std::array printed{
    Printed{"layers.23.attn.qkv.weight", "layers.0.attn.qkv.weight", 16.9, 193.3},
    Printed{"layers.22.attn.proj.weight", "layers.0.attn.proj.weight", 3.4, 103.2},
    Printed{"layers.22.mlp.fc1.weight", "layers.0.mlp.fc1.weight", 3.6, 76.2},
    Printed{"layers.22.mlp.fc2.weight", "layers.0.mlp.fc2.weight", 3.1, 78.3}};

// Of layer 0 alone: a bias, the gain of a norm, and the embedding of words.
struct Alone {
  const char* name;
  double at;
};
constexpr std::array alone{Alone{"layers.0.attn.qkv.bias", 96.7},
                           Alone{"layers.0.norm1.weight", 181.4}, Alone{"embedding.weight", 26.4}};

double epsilons(const Rows& rows, const std::string& name) {
  const Rows found = where(rows, {{"name", name}});
  if (found.empty()) throw NotMeasured{"a row of " + name + " with bug 13"};
  return found.front().number("broken_error") / 0x1p-7;
}

std::string shown(double epsilon) { return fmt::format("{:.1f}", epsilon); }

Answer judge(const Evidence& evidence) {
  const Rows all = where(evidence.rows("case-studies"), {{"case", "bug-13"}});
  std::vector<std::vector<std::string>> lines;
  bool near = true, grows = true;
  double least = 1e300, most = 0, bias = 0, bias_allowed = 0;
  for (const std::string& seed : values_of(all, "seed")) {
    const Rows gradients = where(all, {{"seed", seed}, {"table", "gradients"}});
    const Rows main_grads = where(all, {{"seed", seed}, {"table", "main_grads"}});
    const bool first_seed = lines.empty();
    for (const Printed& p : printed) {
      const double first = epsilons(gradients, fmt::format("m0/{}/wgrad", p.first));
      const double last = epsilons(main_grads, fmt::format("{}/main_grad", p.last));
      const double ours = last / first, theirs = p.at_last / p.at_first;
      near = near && ours <= 2 * theirs && ours >= theirs / 2;
      grows = grows && ours > 1;
      least = std::min(least, ours);
      most = std::max(most, ours);
      if (!first_seed) continue;
      lines.push_back({fmt::format("{} to {}", p.first, p.last),
                       shown(first) + " to " + shown(last), fmt::format("{:.0f}", ours),
                       shown(p.at_first) + " to " + shown(p.at_last),
                       fmt::format("{:.0f}", theirs)});
    }
    for (const Alone& a : alone) {
      const double ours = epsilons(main_grads, fmt::format("{}/main_grad", a.name));
      if (std::string_view(a.name).ends_with("bias")) {
        bias = std::max(bias, ours);
        bias_allowed = a.at / 2;
      }
      if (first_seed) lines.push_back({a.name, shown(ours), "", shown(a.at), ""});
    }
  }
  if (lines.empty()) throw NotMeasured{"rows of bug 13"};
  const Agreement agrees = near && bias >= bias_allowed ? Agreement::yes
                           : grows                      ? Agreement::partly
                                                        : Agreement::no;
  return {agrees,
          fmt::format("weights of layer 0 are {:.0f} to {:.0f} times as far off as where the bug "
                      "enters; biases are not, by {:.1f} epsilon at most",
                      least, most, bias),
          {},
          table({"main gradient in layer 0, from the first printed gradient", "ours, epsilon",
                 "times", "published, epsilon", "times"},
                lines)};
}

}  // namespace

extern const Claim e8b_bug_13_grows_towards_the_input{
    .id = "E8b",
    .says =
        "What bug 13 breaks grows towards the input: weights of layer 0 are 11 to 30 times as far "
        "off as where the bug enters",
    .where = "the same report: main gradients up to 2.3, which is 296 epsilon",
    .source = Source::artefact,
    .published = "16.9 to 193 epsilon (qkv), 3.4 to 103 (proj), 3.6 to 76 (fc1), 3.1 to 78 (fc2)",
    .reading =
        "Agreement is: each of the four ratios within a factor of two of theirs in every seed, and "
        "the bias of layer 0's qkv at least half as far off as theirs; growth alone is partly. The "
        "296 epsilon are of a table of positions, which the model here does not have. Our card "
        "exchanges rows, which a bias, a sum over rows, does not notice where it happens.",
    .rows = {{"case-studies", "bug-13 1 "}},
    .picture = "",
    .judge = judge,
};

}  // namespace plumb::paper_repro
