// cli/collective.hpp: collectives in words, and that of the MPI job which this process is part of.
//
// TESTED   tests/cli/mpi_test.cpp
#pragma once

#include <string>

#include "bounds/machine.hpp"
#include "cli/sees.hpp"
#include "probe/collective.hpp"

namespace plumb::cli {

// "ring of 8 ranks, bf16"
std::string words_of(const Collective& collective);

// MPI_Allreduce of FP32 numbers, as all processes of the job probe it together. Afterwards MPI has
// ended: the first process goes on, the others have nothing left to do.
struct JobCollective {
  bool first = true;
  bool differ = false;  // did ranks get different bits?
  std::size_t ranks = 1, elements = 0;
  CollectiveFound found;
};
// `elements`: of a message, at least. Throws Failure if there is no MPI, or one rank alone.
JobCollective collective_of_job(std::size_t elements, unsigned seed);

// Puts it into the card, or among what is not known.
void enter(const JobCollective& job, const std::string& source, Calibration& found);

}  // namespace plumb::cli
