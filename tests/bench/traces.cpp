// Checking two traces of another program by the rule flat, from opening them to the verdict, against
// reading them: an exclusive or of all files of both, mapped anew each time, by as many threads, page
// cache warm. Beside them PyTorch's assert_close and numpy on the same tensors, shard by shard
// (torch_compare.py, with the interpreter that PLUMB_TORCH_PYTHON names). 8 ranks, BF16, half of the
// tensors sharded by rows and half by columns; PLUMB_TRACES_MIB says how large each trace is (256).
// In turn (round-robin), CPU time of the process, medians. Goals: 0.9 of the read; 50 times assert_close, 40 times numpy.
// read/assert_close: how many times as fast as assert_close the read is.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/clock.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/traces.hpp"
#include "trace/check.hpp"
#include "trace/store/mapped.hpp"
#include "trace/store/store.hpp"

namespace plumb {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t ranks = 8, tensors = 64;

double seconds_of(const std::function<void()>& work) {
  const double start = process_seconds();
  work();
  return process_seconds() - start;
}

std::size_t mebibytes() {
  const char* said = std::getenv("PLUMB_TRACES_MIB");
  return said == nullptr ? 256 : std::max(std::strtoul(said, nullptr, 10), 8UL);
}

// Two traces in a folder that goes with this; the second has other last bits.
class TwoTraces {
 public:
  TwoTraces() : folder_(fs::temp_directory_path() / ("plumb-traces-" + std::to_string(getpid()))) {
    write("reference", 0);
    write("candidate", 1);
    sync();  // else the system writes them to the disk while they are read
  }
  TwoTraces(const TwoTraces&) = delete;
  TwoTraces& operator=(const TwoTraces&) = delete;
  ~TwoTraces() { fs::remove_all(folder_); }

  fs::path reference() const { return folder_ / "reference"; }
  fs::path candidate() const { return folder_ / "candidate"; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.path().extension() == ".safetensors") all.push_back(entry.path());
    }
    return all;
  }

 private:
  void write(const std::string& name, std::uint16_t others) {
    const fs::path run = folder_ / name;
    fs::create_directories(rank_path(run, 0).parent_path());
    write_bytes(run / "manifest.json", manifest2(ranks).dump());
    const std::size_t cols = 4096, rows = (mebibytes() << 19) / tensors / cols;
    for (std::size_t r = 0; r < ranks; ++r) {
      std::vector<Told> mine;
      std::uint64_t state = r + 1;
      for (std::size_t t = 0; t < tensors; ++t) {
        std::string bytes(rows * cols / ranks * 2, 0);
        auto* codes = reinterpret_cast<std::uint16_t*>(bytes.data());
        for (std::size_t e = 0; e < bytes.size() / 2; ++e) {
          state = state * 6364136223846793005U + 1442695040888963407U;
          const auto drawn = static_cast<std::uint16_t>(state >> 48);
          codes[e] =
              static_cast<std::uint16_t>(0x3c00 + (drawn & 0x83ff)) ^ ((drawn >> 11) & others);
        }
        const std::size_t dim = t % 2;
        const std::vector<std::size_t> shape =
            dim == 0 ? std::vector{rows / ranks, cols} : std::vector{rows, cols / ranks};
        mine.push_back({{"x" + std::to_string(t), "BF16", shape, std::move(bytes)},
                        {{"order", t + 1},
                         {"shape", {rows, cols}},
                         {"placements", {{{"axis", "rank"}, {"kind", "shard"}, {"dim", dim}}}}}});
      }
      write_bytes(rank_path(run, r), rank_file(mine));
    }
  }

  fs::path folder_;
};

std::uint64_t exclusive_or(std::span<const char> bytes) {
  std::array<std::uint64_t, 16> lanes{};
  for (std::size_t i = 0; i + sizeof lanes <= bytes.size(); i += sizeof lanes) {
    std::array<std::uint64_t, 16> some;
    std::memcpy(&some, bytes.data() + i, sizeof some);
    for (std::size_t l = 0; l < lanes.size(); ++l) lanes[l] ^= some[l];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t v : lanes) all ^= v;
  return all;
}

void read_all(const std::vector<fs::path>& files, std::size_t threads) {
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t f = next++; f < files.size(); f = next++) {
      benchmark::DoNotOptimize(exclusive_or(MappedFile(files[f]).bytes()));
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < threads; ++t) others.emplace_back(run);
  run();
}

// Gigabytes of both traces a CPU second of a peer; and what it is.
struct Peer {
  double assert_close = 0, numpy = 0;
  std::string words;
};

Peer peer(const TwoTraces& traces) {
  const char* python = std::getenv("PLUMB_TORCH_PYTHON");
  const std::string command = "OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 " +
                              std::string(python == nullptr ? "/usr/bin/python3" : python) +
                              " " PLUMB_SOURCE_DIR "/tests/bench/torch_compare.py " +
                              traces.reference().string() + " " + traces.candidate().string();
  Peer seen;
  if (FILE* from = popen(command.c_str(), "r")) {
    char words[200] = "";
    if (std::fscanf(from, "%lf %lf %199[^\n]", &seen.assert_close, &seen.numpy, words) == 3)
      seen.words = words;
    if (pclose(from) != 0) seen = {};
  }
  return seen;
}

void check_of_traces(benchmark::State& state) {
  const TwoTraces traces;
  const std::vector<fs::path> files = traces.files();
  double bytes = 0;
  for (const fs::path& file : files) bytes += static_cast<double>(fs::file_size(file));
  CheckOptions options;
  options.rules = {"flat"};
  options.hands.threads = static_cast<std::size_t>(state.range(0));
  const auto check_all = [&] {
    const Trace r = read_trace(traces.reference()), c = read_trace(traces.candidate());
    if (check(r, c, options).exit_code() != 0) state.SkipWithError("the verdict is wrong");
  };
  std::vector<double> ratios, speeds, of_reading;
  read_all(files, options.hands.threads);  // warm
  for (auto _ : state) {
    const double read = seconds_of([&] { read_all(files, options.hands.threads); });
    const double ours = seconds_of(check_all);
    ratios.push_back(read / ours);
    speeds.push_back(1e-9 * bytes / ours);
    of_reading.push_back(1e-9 * bytes / read);
  }
  state.counters["speed/read"] = median(ratios);
  state.counters["GB a CPU second"] = median(speeds);
  if (options.hands.threads > 1) return;  // peers have one, too
  const Peer other = peer(traces);
  state.SetLabel(other.words.empty() ? "no PyTorch and numpy here" : other.words);
  if (other.words.empty()) return;
  state.counters["speed/assert_close"] = median(speeds) / other.assert_close;
  state.counters["speed/numpy"] = median(speeds) / other.numpy;
  state.counters["read/assert_close"] = median(of_reading) / other.assert_close;
}

BENCHMARK(check_of_traces)
    ->Arg(1)
    ->Arg(std::max(2U, std::thread::hardware_concurrency()))
    ->ArgName("threads")
    ->Iterations(7)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumb
