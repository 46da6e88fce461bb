// trace/without_rows.hpp: a run's tensors as they would be, had single rows of tensors upstream been
// the reference's. A rare flip at a rounding boundary moves one row; what is made from that row, and
// sums over rows, moves as a whole.
//
// CLAIM    What the run's own operations did to a tensor stays in it: only the effect of the rows, by
//          the promised operations, is taken away.
// ASSUMES  The effect of a few roundings elsewhere on that of the rows is small beside it.
// COSTS    two evaluations of each node between the rows and the tensor, once
// TESTED   tests/trace/without_rows_test.cpp
// SOURCES  twins.md V3
#pragma once

#include <map>
#include <memory>
#include <string>

#include "trace/graph.hpp"
#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

class WithoutRows {
 public:
  // `rows`: of which tensor which row is to be the reference's. All is kept by the caller.
  WithoutRows(const Graph& graph, const Values& run, const Values& reference,
              const std::map<std::string, std::size_t>& rows);

  // Null: nothing upstream of it is in `rows`, it was not recorded, or it cannot be made, of finite
  // numbers, from what was. The tensors of `rows` are
  // what they are in the run but for that row.
  const Tensor* of(const std::string& id);

 private:
  std::shared_ptr<const Tensor> made(const std::string& id);
  std::shared_ptr<const Tensor> row_of_reference(const std::string& id, std::size_t row) const;
  std::shared_ptr<const Tensor> moved(const std::string& id, const Node& node);

  const Values &run_, &reference_;
  const std::map<std::string, std::size_t>& rows_;
  std::map<std::string, const Node*> makers_;
  Values known_;
};

}  // namespace plumb::trace
