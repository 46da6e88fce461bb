// bounds/examples/random.hpp: what a card needs to make a random call of itself.
#pragma once

#include "bounds/examples/example.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

// A call that a card fills. Parts, wire and output formats are drawn before; a card that has no use
// for them sets its own.
class RandomCall {
 public:
  RandomCall(Example& example, Draw& from);

  Example& e;
  Draw& draw;
  Format in;               // of the inputs that are given
  std::size_t rows, cols;  // at most 12, and at most 48 and even

  // Adds numbers of the draw's kind in the inputs' format.
  void give(std::size_t n, std::size_t m) { add(draw.matrix(n, m, in)); }
  void table() { give(rows, cols); }
  // Adds numbers of FP32 about `centre`, whatever the kind.
  void moderate(std::size_t n, std::size_t m, double size, double centre = 0) {
    add(draw.moderate(n, m, size, centre));
  }
  void add(Matrix<double> x) { e.inputs.push_back(std::move(x)); }
  // Adds logits (rows, n): moderate, but where the kind is spread or tiny.
  void logits(std::size_t n);
  double whole(std::size_t low, std::size_t high) {
    return static_cast<double>(draw.between(low, high));
  }
  void one_part() { e.how.parts = 1; }

  // In half of the calls two ranks share `sequence` tokens in zigzag, where these divide.
  void shard_tokens(std::size_t sequence);
  // In half of the sequences another document begins anew at every fourth token or so.
  bool documents(std::size_t sequence);
};

void one_table(RandomCall& c);
void two_tables(RandomCall& c);
// As above; cubes and squares of activations leave FP32's range where huge products do not.
void table_to_cube(RandomCall& c);
void tables_to_cube(RandomCall& c);

}  // namespace plumb::bounds
