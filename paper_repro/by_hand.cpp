#include "paper_repro/by_hand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace plumb::paper_repro {
namespace {

struct Program {
  std::string_view question;
  std::string_view command;  // from the clone, {} is the folder of rows
  std::string_view needs;    // and what installs it
};

constexpr std::string_view benches = "it needs Google Benchmark, with which ./run bench builds it";

constexpr std::array programs{
    Program{
        "foreign-jobs",
        "build/torch/bin/python examples/torch/run.py build/plumb build/foreign-jobs "
        "--rows {}/foreign-jobs.csv",
        "it needs PyTorch and Megatron's core, which ./run test torch installs into build/torch"},
    Program{
        "foreign-tensors",
        "build/torch/bin/python examples/torch/run.py build/plumb build/foreign-tensors --healthy "
        "--tensors {}/foreign-tensors.csv",
        "it needs PyTorch and Megatron's core, which ./run test torch installs into build/torch"},
    Program{"blindness",
            "/usr/bin/python3 experiments/blindness/blindness.py --plumb build/plumb -o {}",
            "it needs numpy: apt-get install python3-numpy"},
    Program{
        "outsiders",
        "/usr/bin/python3 experiments/outsiders/outsiders.py --plumb build/plumb -o {}",
        "it needs numpy: apt-get install python3-numpy; called by build/torch/bin/python, which "
        "./run test torch installs, it adds PyTorch's kernels"},
    Program{"step-cost", "build/bench/bench_workflow --benchmark_format=csv >{}/step-cost.csv",
            benches},
    Program{"bubbles-run",
            "build/bench/bench_bubbles >{0}/bubbles-run.csv && mpirun -n 2 "
            "build/bench/bench_bubbles mpi >>{0}/bubbles-run.csv",
            benches},
};

}  // namespace

std::string by_hand(std::string_view question, const std::string& folder) {
  const auto* const found = std::ranges::find(programs, question, &Program::question);
  if (found == programs.end()) {
    throw std::invalid_argument("plumb experiment makes rows of " + std::string(question));
  }
  return fmt::format("rows of {} come from another program; call it in the clone: {} ({})",
                     question, fmt::format(fmt::runtime(found->command), folder), found->needs);
}

}  // namespace plumb::paper_repro
