// cli/dealt.hpp: the rows of an experiment, dealt to the ranks of an MPI job. Rank 0 writes them all.
//
// CLAIM    The file is, byte by byte, that of one process, also after the job was killed and went on.
// COSTS    What is dealt is fixed at the start: the keys that are left (experiments/dealing.hpp). A rank
//          that is done early waits.
// TESTED   tests/experiments/dealing_test.cpp, tests/cli/mpi_test.cpp
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/sees.hpp"
#include "experiments/table.hpp"
#include "world/world.hpp"

namespace plumb::cli {

class Dealt {
 public:
  // Called by each rank. `rows` of rank 0 are those that are there already, `work` all keys in the
  // order in which one process makes them, of which `rows` wants some. `shares`: Experiment::shares.
  Dealt(Communicator& ranks, Table& rows, const std::vector<Table::Row>& work,
        std::string (*shares)(const Table::Row& key));

  bool writes() const { return ranks_.rank() == 0; }
  // Is it for this rank to make? (Its cells with blanks between.) A key that was not dealt, since it
  // is looked up only when rows are made, is for whoever looks it up.
  bool mine(const std::string& key) const { return !others_.contains(key); }
  // Of rank 0: puts in what others have made by now.
  void collect();
  // Called by each rank when it has made its share: rank 0 waits for the others.
  void finish();

 private:
  void send(const std::string& text, int to);
  std::string receive(int from);

  Communicator& ranks_;
  Table& rows_;
  std::set<std::string> others_;
  std::set<int> at_work_;  // of rank 0: the others that have not finished
  bool collects_ = false;
};

}  // namespace plumb::cli
