#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>

#include "number/outcome.hpp"
#include "world/in_rank_order.hpp"
#include "world/world.hpp"

namespace plumb::world {
namespace {

constexpr std::size_t most_at_once = std::size_t(1) << 30;  // MPI counts in int

struct Shape {
  std::uint64_t rows, cols;
};

class MpiRank final : public Communicator {
 public:
  MpiRank(int colour, int rank) { MPI_Comm_split(MPI_COMM_WORLD, colour, rank, &group_); }
  MpiRank(const MpiRank&) = delete;
  MpiRank& operator=(const MpiRank&) = delete;
  ~MpiRank() override {
    for (Letter& letter : letters_) MPI_Waitall(2, letter.under_way, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&group_);
  }

  int rank() const override {
    int number = 0;
    MPI_Comm_rank(group_, &number);
    return number;
  }
  int size() const override {
    int n = 0;
    MPI_Comm_size(group_, &n);
    return n;
  }

  // MPI_Allreduce may add in any order: every rank gets all parts and adds them in rank order.
  void sum(std::span<float> x, const Format& wire) override {
    const int n = size();
    if (n == 1) return;
    round_in_place(x, wire);
    std::vector<float> parts(x.size() * static_cast<std::size_t>(n));
    MPI_Allgather(x.data(), count(x.size()), MPI_FLOAT, parts.data(), count(x.size()), MPI_FLOAT,
                  group_);
    add_in_rank_order(parts, x, wire);
  }

  void sum(double& x) override {
    std::vector<double> parts(static_cast<std::size_t>(size()));
    MPI_Allgather(&x, 1, MPI_DOUBLE, parts.data(), 1, MPI_DOUBLE, group_);
    x = 0;
    for (const double part : parts) x += part;
  }

  void max(std::span<float> x) override {
    MPI_Allreduce(MPI_IN_PLACE, x.data(), count(x.size()), MPI_FLOAT, MPI_MAX, group_);
  }

  Tensor gather_rows(const Tensor& x) override {
    const auto n = static_cast<std::size_t>(size());
    const int mine = count(x.size());
    std::vector<int> counts(n), starts(n, 0);
    MPI_Allgather(&mine, 1, MPI_INT, counts.data(), 1, MPI_INT, group_);
    for (std::size_t r = 1; r < n; ++r) starts[r] = starts[r - 1] + counts[r - 1];
    const auto all_values = static_cast<std::size_t>(starts.back() + counts.back());
    Tensor all(x.cols == 0 ? 0 : all_values / x.cols, x.cols);
    MPI_Allgatherv(x.values.data(), mine, MPI_FLOAT, all.values.data(), counts.data(),
                   starts.data(), MPI_FLOAT, group_);
    return all;
  }

  std::vector<Tensor> exchange(const std::vector<Tensor>& to) override {
    std::vector<Shape> mine, theirs(to.size());
    for (const Tensor& x : to) mine.push_back({x.rows, x.cols});
    MPI_Alltoall(mine.data(), 2, MPI_UINT64_T, theirs.data(), 2, MPI_UINT64_T, group_);
    Packed out(mine), in(theirs);
    for (std::size_t r = 0; r < to.size(); ++r) {
      std::copy(to[r].values.begin(), to[r].values.end(), out.values.begin() + out.starts[r]);
    }
    MPI_Alltoallv(out.values.data(), out.counts.data(), out.starts.data(), MPI_FLOAT,
                  in.values.data(), in.counts.data(), in.starts.data(), MPI_FLOAT, group_);
    std::vector<Tensor> got;
    for (std::size_t r = 0; r < to.size(); ++r) {
      Tensor& x = got.emplace_back(theirs[r].rows, theirs[r].cols);
      std::copy_n(in.values.begin() + in.starts[r], x.size(), x.values.begin());
    }
    return got;
  }

  void send(int to, int tag, const Tensor& x) override {
    letters_.remove_if([](Letter& letter) {
      int arrived = 0;
      MPI_Testall(2, letter.under_way, &arrived, MPI_STATUSES_IGNORE);
      return arrived != 0;
    });
    Letter& letter = letters_.emplace_back();
    letter.content = x;
    letter.shape = {x.rows, x.cols};
    MPI_Isend(&letter.shape, 2, MPI_UINT64_T, to, tag, group_, &letter.under_way[0]);
    MPI_Isend(letter.content.values.data(), count(x.size()), MPI_FLOAT, to, tag, group_,
              &letter.under_way[1]);
  }

  Tensor receive(int from, int tag) override {
    Shape shape{};
    MPI_Recv(&shape, 2, MPI_UINT64_T, from, tag, group_, MPI_STATUS_IGNORE);
    Tensor x(shape.rows, shape.cols);
    MPI_Recv(x.values.data(), count(x.size()), MPI_FLOAT, from, tag, group_, MPI_STATUS_IGNORE);
    return x;
  }

  // The shape goes first, so the numbers are on their way.
  bool has_arrived(int from, int tag) override {
    int here = 0;
    MPI_Iprobe(from, tag, group_, &here, MPI_STATUS_IGNORE);
    return here != 0;
  }

 private:
  // A message that is kept until it has arrived.
  struct Letter {
    Tensor content;
    Shape shape{};
    MPI_Request under_way[2]{};
  };
  // Tensors of these shapes one after another.
  struct Packed {
    std::vector<int> counts, starts;
    std::vector<float> values;
    explicit Packed(const std::vector<Shape>& shapes) {
      int start = 0;
      for (const Shape& s : shapes) {
        counts.push_back(count(s.rows * s.cols));
        starts.push_back(start);
        start += counts.back();
      }
      values.resize(static_cast<std::size_t>(start));
    }
  };

  static int count(std::size_t n) {
    if (n < most_at_once) return static_cast<int>(n);
    throw Failure("a tensor of " + std::to_string(n) + " values is too large for one MPI message");
  }

  MPI_Comm group_ = MPI_COMM_NULL;
  std::list<Letter> letters_;
};

class Mpi final : public World {
 public:
  Mpi() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~Mpi() override { leave(); }

  void leave() {
    int left = 0;
    MPI_Finalized(&left);
    if (left == 0) MPI_Finalize();
  }
  int size() const { return size_; }

  void run(int size, std::span<const Division> divisions, const Body& body) override {
    if (size != size_) {
      if (rank_ != 0) std::exit(2);  // one says it
      throw Failure("the layout has " + std::to_string(size) + " ranks, the MPI job " +
                    std::to_string(size_) + "; start it with: mpirun -n " + std::to_string(size));
    }
    Groups groups;
    for (const Division& colour : divisions) {
      groups.push_back(std::make_unique<MpiRank>(colour(rank_), rank_));
    }
    try {
      body(rank_, groups);
    } catch (const std::exception& error) {  // the others wait for this rank
      std::fprintf(stderr, "plumb: rank %d: %s\n", rank_, error.what());
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
  }
  int rank() const override { return rank_; }
  bool has_all() const override { return false; }

  std::vector<std::string> gather(const std::string& mine) override {
    std::uint64_t length = mine.size();
    if (rank_ != 0) {
      MPI_Send(&length, 1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD);
      in_pieces(length, [&](std::size_t at, int n) {
        MPI_Send(mine.data() + at, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
      });
      return {};
    }
    std::vector<std::string> all{mine};
    for (int r = 1; r < size_; ++r) {
      MPI_Recv(&length, 1, MPI_UINT64_T, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      std::string& theirs = all.emplace_back(length, '\0');
      in_pieces(length, [&](std::size_t at, int n) {
        MPI_Recv(theirs.data() + at, n, MPI_BYTE, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      });
    }
    return all;
  }

  std::vector<std::string> share(const std::string& mine) {
    std::vector<std::string> all = gather(mine);
    all.resize(static_cast<std::size_t>(size_));
    for (std::string& text : all) {
      std::uint64_t length = text.size();
      MPI_Bcast(&length, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
      text.resize(length);
      in_pieces(length, [&](std::size_t at, int n) {
        MPI_Bcast(text.data() + at, n, MPI_BYTE, 0, MPI_COMM_WORLD);
      });
    }
    return all;
  }

 private:
  template <class Move>
  static void in_pieces(std::size_t length, const Move& move) {
    for (std::size_t at = 0; at < length; at += most_at_once) {
      move(at, static_cast<int>(std::min(most_at_once, length - at)));
    }
  }

  int rank_ = 0, size_ = 1;
};

}  // namespace

namespace {

Mpi& job() {
  static Mpi world;
  return world;
}

}  // namespace

World& mpi() { return job(); }

int ranks_of_mpi() { return job().size(); }

void leave_mpi() { job().leave(); }

std::vector<std::string> mpi_share(const std::string& mine) { return job().share(mine); }

LibrarySum mpi_all_reduce(std::span<const float> mine) {
  const auto n = static_cast<int>(mine.size());
  job();
  LibrarySum sum{std::vector<float>(mine.size()), false};
  MPI_Allreduce(mine.data(), sum.values.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  const std::vector<float> got = sum.values;
  MPI_Bcast(sum.values.data(), n, MPI_FLOAT, 0, MPI_COMM_WORLD);
  int differs = std::memcmp(got.data(), sum.values.data(), got.size() * sizeof(float)) != 0;
  MPI_Allreduce(MPI_IN_PLACE, &differs, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  sum.differ = differs != 0;
  return sum;
}

}  // namespace plumb::world
