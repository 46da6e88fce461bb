#include "probe/outside.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>

#include "number/outcome.hpp"
#include "probe/command.hpp"
#include "probe/functions.hpp"
#include "probe/plug_in.h"
#include "trace/store/safetensors.hpp"
#include "trace/store/tensor_file.hpp"

namespace plumb::probe {
namespace {

namespace fs = std::filesystem;

const Format& known_format(const std::string& who, const char* name) {
  const Format* format = name == nullptr ? nullptr : find_format(name);
  if (format != nullptr && *format != fp64 && format->zeros != Zeros::none) return *format;
  throw Failure(
      fmt::format("{} multiplies numbers of '{}', which is no format of operands; e.g. "
                  "fp32, bf16, fp16, e4m3fn",
                  who, name == nullptr ? "" : name));
}

std::map<std::string, Shard> shards_of(const std::vector<Operands>& asked) {
  std::map<std::string, Shard> shards;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto& [a, b] = asked[i];
    shards[fmt::format("a.{}", i)] = {whole(a.rows, a.cols), a};
    shards[fmt::format("b.{}", i)] = {whole(b.rows, b.cols), b};
  }
  return shards;
}

Tensor result(TensorFile& file, const std::string& name, std::size_t rows, std::size_t cols) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) {
    throw Failure(
        fmt::format("the command wrote no tensor {}; each product or table has one", name));
  }
  const StoredTensor& stored = found->second;
  if (!stored.unreadable.empty()) throw Failure("the tensor " + name + " " + stored.unreadable);
  if (stored.shape != std::vector<std::size_t>{rows, cols}) {
    throw Failure(fmt::format("the command wrote {} as {}; the product is {} x {}", name,
                              plumb::trace::text_of(stored.shape), rows, cols));
  }
  Matrix<double> values(rows, cols);
  file.read(stored, 0, values.values);
  return converted<float>(values);
}

// The functions that the library has: it is asked for one result of each.
std::map<std::string, Function> functions_of(const plumb_plug_in* plug_in) {
  std::map<std::string, Function> all;
  if (plug_in->function == nullptr) return all;
  for (const std::string& name : names_of_functions()) {
    const auto call = [plug_in, name](const std::vector<float>& x, const std::vector<float>& y) {
      std::vector<float> out(x.size());
      if (plug_in->function(name.c_str(), x.data(), y.data(), out.data(), x.size())) out.clear();
      return out;
    };
    if (!call({1}, {1}).empty()) all[name] = call;
  }
  return all;
}

// Rows and columns of what is made of a table.
std::pair<std::size_t, std::size_t> shape_of(const std::string& table, const Tensor& x) {
  if (table == "softmax") return {x.rows, x.cols};
  return {table == "column_sum" ? x.cols : x.rows, 1};
}

// The sums and softmaxes that the library has: it is asked for one of each.
std::map<std::string, Tables> tables_of(const plumb_plug_in* plug_in) {
  std::map<std::string, Tables> all;
  if (plug_in->version < 2 || plug_in->table == nullptr) return all;
  for (const std::string name : {"column_sum", "row_sum", "softmax"}) {
    const auto call = [plug_in, name](const std::vector<Tensor>& asked) {
      std::vector<Tensor> made;
      for (const Tensor& x : asked) {
        const auto [rows, cols] = shape_of(name, x);
        Tensor out(rows, cols);
        if (plug_in->table(name.c_str(), x.values.data(), out.values.data(), x.rows, x.cols)) {
          return std::vector<Tensor>();
        }
        made.push_back(std::move(out));
      }
      return made;
    };
    if (!call({Tensor(1, 1, 1.0F)}).empty()) all[name] = call;
  }
  return all;
}

std::vector<Tensor> table_of(Command& command, const std::string& name,
                             const std::vector<Tensor>& asked) {
  std::map<std::string, Shard> shards;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    shards[fmt::format("x.{}.{}", name, i)] = {whole(asked[i].rows, asked[i].cols), asked[i]};
  }
  TensorFile file(command.run(shards));
  std::vector<Tensor> made;
  if (!file.tensors().contains(fmt::format("f.{}.0", name))) return made;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto [rows, cols] = shape_of(name, asked[i]);
    made.push_back(result(file, fmt::format("f.{}.{}", name, i), rows, cols));
  }
  return made;
}

std::vector<float> function_of(Command& command, const std::string& name,
                               const std::vector<float>& x, const std::vector<float>& y) {
  std::map<std::string, Shard> shards;
  const auto add = [&](const std::string& as, const std::vector<float>& values) {
    Tensor row(1, values.size());
    std::ranges::copy(values, row.values.begin());
    shards[as] = {whole(1, values.size()), row};
  };
  add("x." + name, x);
  if (!y.empty()) add("y." + name, y);
  TensorFile file(command.run(shards));
  if (!file.tensors().contains("f." + name)) return {};
  const Tensor row = result(file, "f." + name, 1, x.size());
  return {row.values.begin(), row.values.end()};
}

}  // namespace

Subject subject_in_library(const fs::path& file) {
  const std::string path = fs::absolute(file).string();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open
  if (library == nullptr)
    throw Failure(fmt::format("cannot open {}: {}", file.string(), dlerror()));
  using Describe = const plumb_plug_in* (*)();
  const auto describe = reinterpret_cast<Describe>(dlsym(library, "plumb_subject_of_library"));
  if (describe == nullptr) {
    throw Failure(file.string() + " has no plumb_subject_of_library(); see probe/plug_in.h");
  }
  const plumb_plug_in* plug_in = describe();
  if (plug_in == nullptr || plug_in->version < 1 || plug_in->version > PLUMB_PLUG_IN_VERSION ||
      !plug_in->gemm || !plug_in->name) {
    throw Failure(
        fmt::format("{} is not of version {} of probe/plug_in.h; build it with that header",
                    file.string(), PLUMB_PLUG_IN_VERSION));
  }
  const auto multiply = [plug_in](const std::vector<Operands>& asked) {
    std::vector<Tensor> all;
    for (const auto& [a, b] : asked) {
      Tensor c(a.rows, b.cols);
      if (plug_in->gemm(a.values.data(), b.values.data(), c.values.data(), a.rows, a.cols,
                        b.cols)) {
        throw Failure(fmt::format("the plug-in {} failed at a product of {} x {} x {}",
                                  plug_in->name, a.rows, a.cols, b.cols));
      }
      all.push_back(std::move(c));
    }
    return all;
  };
  Subject subject{plug_in->name, known_format(file.string(), plug_in->format), multiply};
  subject.functions = functions_of(plug_in);
  subject.tables = tables_of(plug_in);
  return subject;
}

Subject subject_of_command(const std::string& words, const Format& input, bool stays) {
  const auto command = std::make_shared<Command>(words, stays);
  const auto multiply = [command](const std::vector<Operands>& asked) {
    TensorFile file(command->run(shards_of(asked)));
    std::vector<Tensor> all;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      all.push_back(result(file, fmt::format("c.{}", i), asked[i].a.rows, asked[i].b.cols));
    }
    return all;
  };
  Subject subject{words, input, multiply};
  for (const std::string& name : names_of_functions()) {
    subject.functions[name] = [command, name](const std::vector<float>& x,
                                              const std::vector<float>& y) {
      return function_of(*command, name, x, y);
    };
  }
  for (const std::string name : {"column_sum", "row_sum", "softmax"}) {
    subject.tables[name] = [command, name](const std::vector<Tensor>& asked) {
      return table_of(*command, name, asked);
    };
  }
  return subject;
}

}  // namespace plumb::probe
