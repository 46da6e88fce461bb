// Ranks on threads, rank r with GPU r. Collectives go from GPU to GPU by NCCL. NCCL may add in any
// order, so every rank gets all parts and adds them in rank order. Point-to-point messages arrive
// by tags in any order and stay in the memory that threads share: NCCL has no tags.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <map>
#include <numeric>

#include "number/outcome.hpp"
#include "world/in_rank_order.hpp"
#include "world/world.hpp"

namespace plumb::world {
namespace {

void check(cudaError_t result) {
  if (result != cudaSuccess) throw Failure(std::string("CUDA: ") + cudaGetErrorString(result));
}
void check(ncclResult_t result) {
  if (result != ncclSuccess) throw Failure(std::string("NCCL: ") + ncclGetErrorString(result));
}

// Throws where a driver fails: that is no machine without GPUs.
int gpus_here() {
  int n = 0;
  const cudaError_t result = cudaGetDeviceCount(&n);
  if (result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver) return 0;
  check(result);
  return n;
}

// Memory on the thread's GPU.
class OnGpu {
 public:
  explicit OnGpu(std::size_t bytes) { check(cudaMalloc(&data_, std::max<std::size_t>(bytes, 1))); }
  OnGpu(const void* from, std::size_t bytes) : OnGpu(bytes) {
    check(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice));
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  ~OnGpu() { cudaFree(data_); }

  void copy_to(void* to, std::size_t bytes) const {
    check(cudaMemcpy(to, data_, bytes, cudaMemcpyDeviceToHost));
  }
  char* at(std::size_t byte) const { return static_cast<char*>(data_) + byte; }

 private:
  void* data_ = nullptr;
};

class NcclRank final : public Communicator {
 public:
  NcclRank(std::unique_ptr<Communicator> host, const ncclUniqueId& id) : host_(std::move(host)) {
    check(ncclCommInitRank(&group_, size(), id, rank()));
  }
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;
  ~NcclRank() override { ncclCommAbort(group_); }  // also where another rank never came

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  void sum(std::span<float> x, const Format& wire) override {
    if (size() == 1) return;
    round_in_place(x, wire);
    add_in_rank_order(of_all<float>(x), x, wire);
  }
  void sum(double& x) override {
    const std::vector<double> parts = of_all<double>({&x, 1});
    x = std::accumulate(parts.begin(), parts.end(), 0.0);
  }

  void max(std::span<float> x) override {
    meet();
    const OnGpu there(x.data(), x.size_bytes());
    check(ncclAllReduce(there.at(0), there.at(0), x.size(), ncclFloat, ncclMax, group_, nullptr));
    there.copy_to(x.data(), x.size_bytes());
  }

  Tensor gather_rows(const Tensor& x) override {
    const std::uint64_t mine = x.size();
    const std::vector<std::uint64_t> counts = of_all<std::uint64_t>({&mine, 1});
    const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    Tensor all(x.cols == 0 ? 0 : total / x.cols, x.cols);
    const OnGpu from(x.values.data(), 4 * x.size()), to(4 * all.size());
    std::size_t start = 0;
    check(ncclGroupStart());
    for (int r = 0; r < size(); ++r) {
      check(ncclBroadcast(from.at(0), to.at(4 * start), counts[r], ncclFloat, r, group_, nullptr));
      start += counts[r];
    }
    check(ncclGroupEnd());
    to.copy_to(all.values.data(), 4 * all.size());
    return all;
  }

  std::vector<Tensor> exchange(const std::vector<Tensor>& to) override {
    std::vector<std::uint64_t> mine;
    std::vector<float> packed;
    for (const Tensor& x : to) {
      mine.insert(mine.end(), {x.rows, x.cols});
      packed.insert(packed.end(), x.values.begin(), x.values.end());
    }
    const std::vector<std::uint64_t> shapes = of_all<std::uint64_t>(mine);
    std::vector<Tensor> got;
    std::size_t expected = 0;
    for (int r = 0; r < size(); ++r) {
      const std::uint64_t* shape = &shapes[static_cast<std::size_t>(r * size() + rank()) * 2];
      expected += got.emplace_back(shape[0], shape[1]).size();
    }
    const OnGpu out(packed.data(), 4 * packed.size()), in(4 * expected);
    std::size_t sent = 0, received = 0;
    check(ncclGroupStart());
    for (int r = 0; r < size(); ++r) {
      check(ncclSend(out.at(4 * sent), to[r].size(), ncclFloat, r, group_, nullptr));
      check(ncclRecv(in.at(4 * received), got[r].size(), ncclFloat, r, group_, nullptr));
      sent += to[r].size();
      received += got[r].size();
    }
    check(ncclGroupEnd());
    packed.resize(expected);
    in.copy_to(packed.data(), 4 * expected);
    const float* next = packed.data();
    for (Tensor& x : got) {
      std::copy_n(next, x.size(), x.values.begin());
      next += x.size();
    }
    return got;
  }

  void send(int to, int tag, const Tensor& x) override { host_->send(to, tag, x); }
  Tensor receive(int from, int tag) override { return host_->receive(from, tag); }
  bool has_arrived(int from, int tag) override { return host_->has_arrived(from, tag); }

 private:
  // Throws RankLost where a rank will not come: NCCL would wait for it for ever.
  void meet() {
    double nothing = 0;
    host_->sum(nothing);
  }
  // Gathers the numbers of every rank, one after another.
  template <class T>
  std::vector<T> of_all(std::span<const T> mine) {
    meet();
    std::vector<T> all(mine.size() * static_cast<std::size_t>(size()));
    const OnGpu from(mine.data(), mine.size_bytes()), to(all.size() * sizeof(T));
    check(ncclAllGather(from.at(0), to.at(0), mine.size_bytes(), ncclChar, group_, nullptr));
    to.copy_to(all.data(), all.size() * sizeof(T));
    return all;
  }

  std::unique_ptr<Communicator> host_;
  ncclComm_t group_ = nullptr;
};

class Nccl final : public World {
 public:
  void run(int size, std::span<const Division> divisions, const Body& body) override {
    if (size > gpus_here()) {
      throw Failure("the layout has " + std::to_string(size) + " ranks, and this machine " +
                    std::to_string(gpus_here()) +
                    " GPUs; NCCL needs one for each: use a smaller layout, or --world threads");
    }
    std::vector<std::map<int, ncclUniqueId>> ids(divisions.size());
    for (std::size_t d = 0; d < divisions.size(); ++d) {
      for (int rank = 0; rank < size; ++rank) {
        const auto [id, is_new] = ids[d].try_emplace(divisions[d](rank));
        if (is_new) check(ncclGetUniqueId(&id->second));
      }
    }
    threads().run(size, divisions, [&](int rank, Groups& hosts) {
      check(cudaSetDevice(rank));
      Groups groups;
      for (std::size_t d = 0; d < divisions.size(); ++d) {
        groups.push_back(
            std::make_unique<NcclRank>(std::move(hosts[d]), ids[d].at(divisions[d](rank))));
      }
      body(rank, groups);
    });
  }
  int rank() const override { return 0; }
  bool has_all() const override { return true; }
  std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
};

}  // namespace

std::string why_no_nccl() {
  return gpus_here() > 0 ? "" : "this machine has no GPU that CUDA can use";
}

World& nccl() {
  static Nccl world;
  return world;
}

}  // namespace plumb::world
