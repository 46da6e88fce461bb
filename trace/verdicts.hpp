// trace/verdicts.hpp: what a check says at a level of false alarms, by what it has seen.
//
// Several levels share one look at two runs, and one draw of twins. Where twins alone accuse, more of
// them look again (twins.md V4).
//
// COSTS    little beside what was seen; how twins scatter is estimated once a look, and a second look
//          draws 24 twins, both once for all levels
// TESTED   tests/trace/check_test.cpp
// SOURCES  twins.md V3 to V5
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/evidence.hpp"
#include "trace/settle.hpp"

namespace plumb::trace {

// A tensor that differs and that no rule judged, and how far it is off.
struct LeftOpen {
  Unjudged what;
  double relative = 0;
  bool unexplained() const { return what.kind == Unjudged::Kind::unexplained; }
};

class Verdicts {
 public:
  // The evidence has to outlive this.
  explicit Verdicts(Evidence& evidence);
  Verdict at(double level);

 private:
  Verdict by(const std::optional<TwinTests>& tests, double level, double sure);
  void look_again();
  TwinsJudgement twins_at(const TwinTests& tests, double level) const;
  void add_twins(const TwinsJudgement& seen, std::optional<Accounts>& accounts, Verdict& v,
                 std::map<std::string, Line>& lines);
  void leave_open(Accounts& accounts, Verdict& v, std::map<std::string, Line>& lines);
  bool is_accounted_for(const std::string& id, Accounts& accounts) const;
  void open_what_is_made_of_unseen(const Verdict& v, std::map<std::string, Line>& lines,
                                   Accounts& accounts, std::vector<LeftOpen>& open) const;
  std::vector<LeftOpen> take_open(const Verdict& v, std::map<std::string, Line>& lines) const;
  void explain_by_findings(const Verdict& v, std::vector<LeftOpen>& open) const;
  void open_what_follows_from_none(const Verdict& v, std::vector<LeftOpen>& open) const;
  Profile where_it_is(const Finding& f) const;
  void blame(Verdict& v, double sure) const;

  Evidence& evidence_;
  std::optional<TwinTests> first_tests_;  // absent without twins
  std::optional<Drawn> drawn_again_;
  std::optional<TwinTests> second_tests_;
};

}  // namespace plumb::trace
