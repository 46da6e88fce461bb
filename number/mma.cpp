#include "number/mma.hpp"

#include <stdexcept>

namespace plumb {
namespace {

bool within(int x, int low, int high) { return low <= x && x <= high; }

bool sound(const Mma& m) {
  if (m.promoted_after < 0 || m.promoted_after % m.terms != 0) return false;
  if (m.block < 0 || m.block % m.terms != 0) return false;
  if (m.any_steps && !(m.kind == Mma::Kind::aligned && m.sum == fp32)) return false;
  if (m.kind == Mma::Kind::aligned) {
    return within(m.grid, 1, 40) && within(m.kept, 1, m.sum.precision - 1) && m.groups == 1 &&
           (m.sum == fp32 || m.sum == fp16) && (!m.zero || within(*m.zero, -256, m.sum.emin - 1));
  }
  if (!(m.sum == fp32) || m.nearest || m.zero || m.block > 0) return false;
  switch (m.kind) {
    case Mma::Kind::exact:
      return m.grid == 0 && m.kept == 23 && m.groups == 1;
    case Mma::Kind::paired:
      return m.grid == 0 && m.kept == 23 && m.groups == 1 && (m.terms == 2 || m.terms == 4);
    default:
      return within(m.grid, 1, 31) && within(m.kept, 24, 31) && within(m.groups, 1, 2) &&
             m.terms % m.groups == 0;
  }
}

}  // namespace

void Mma::check() const {
  if (within(terms, 1, most_terms) && sound(*this)) return;
  throw std::invalid_argument("no matrix unit has these numbers of terms and bits");
}

}  // namespace plumb
