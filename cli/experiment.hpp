// cli/experiment.hpp: rows of an experiment, made and kept with their provenance.
#pragma once

#include <string>

#include "cli/sees.hpp"

namespace plumb::cli {

struct ExperimentAsked {
  std::string name;
  std::string out = "results";        // folder of rows
  std::string cache = "plumb-cache";  // folder of trained states
  std::string only;                   // regular expression on keys; empty: all
  int effort = 1;
  bool json = false;
  double minutes = 1e6;
  bool over_mpi = false;  // dealt to the ranks of an MPI job
};

// Goes on where rows are there already, says how long it will take, prints how many there are.
// Returns the exit code. Throws Failure on an unknown name, or where --only matches nothing.
int make_rows(const ExperimentAsked& asked);

}  // namespace plumb::cli
