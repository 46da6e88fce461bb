// experiments/corpus/making.hpp: a corpus on disk: traces of healthy and buggy runs in the public format,
// and their labels apart.
//
//   DIR/cases.json                     plumb-cases/1: which folders belong to which case; no labels
//   DIR/cases/0001/                    a candidate: a trace of version 2
//   DIR/references/0001/reference/     what two cases are held against; beside it twin1 ..., perturbed
//   DIR/undecided.jsonl                the verdicts of a checker that knows nothing, to begin with
//   DIR/labels.json                    plumb-corpus/1: which cases are buggy, and where
//
// CLAIM    What a trace says is the promise's and the configuration's word: of the two cases of a pair
//          the manifests are equal in every byte, and no file names a bug. A corpus that was stopped
//          goes on: a pair that has its labels is kept.
// REFUSES  (Failure) a folder with something else in it, or another corpus; a disk with too little room
// COSTS    a pair: six steps; on disk: said before the first pair is written
// TESTED   tests/experiments/corpus_test.cpp
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/corpus/plan.hpp"
#include "experiments/sees.hpp"

namespace plumb::experiments {

inline constexpr const char* schema_of_labels = "plumb-corpus/1";
inline constexpr const char* schema_of_cases = "plumb-cases/1";

class Corpus {
 public:
  // `program`: what makes it, as labels say it; a corpus is made by one. Writes nothing.
  Corpus(std::filesystem::path folder, CorpusAsked asked, std::string program);

  const CorpusPlan& plan() const { return plan_; }
  std::size_t kept() const;  // pairs that are there already

  // Makes those that are not. `size_told(bytes)`: about how much the corpus takes, by its first pair,
  // before that is written. Stops between pairs when effort.out_of_time says so.
  void make(const Effort& effort, const std::function<void(std::uintmax_t)>& size_told);
  bool complete() const { return kept() == plan_.pairs.size(); }
  std::uintmax_t bytes() const;  // on disk

 private:
  void read_labels();
  void refuse_something_else() const;
  void make_one(const Pair& pair, const Effort& effort,
                const std::function<void(std::uintmax_t)>& size_told);
  void keep_labels() const;
  void write_cases() const;
  std::vector<std::filesystem::path> traces_of(const Pair& pair) const;
  bool is_kept(const Pair& pair) const;
  void refuse_what_was_taken_away() const;
  nlohmann::json label(const Pair& pair, const Runs& runs, const Trial& changes, bool buggy) const;

  std::filesystem::path folder_;
  CorpusAsked asked_;
  std::string program_;
  CorpusPlan plan_;
  std::map<std::string, nlohmann::json> labels_;  // by case
};

// Bytes of a trace on disk, but for what is said of its tensors.
std::uintmax_t bytes_of(const Trace& trace);

}  // namespace plumb::experiments
