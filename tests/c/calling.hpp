// tests/c/calling.hpp: calls of the C functions, made as a C program makes them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "c/plumb.h"

namespace plumb {

inline plumb_tensor tensor_of(const void* data, const char* format, std::vector<std::size_t> shape,
                              const char* name = nullptr) {
  plumb_tensor t{};
  t.name = name;
  t.data = data;
  t.format = format;
  t.dimensions = shape.size();
  std::copy(shape.begin(), shape.end(), t.shape);
  return t;
}
inline plumb_tensor tensor_of(const std::vector<float>& x, std::vector<std::size_t> shape,
                              const char* name = nullptr) {
  return tensor_of(x.data(), "fp32", std::move(shape), name);
}

// A call and what it points to.
struct Calling {
  explicit Calling(const char* operation, const char* machine = "ieee") {
    call.operation = operation;
    call.machine = machine;
  }
  Calling& in(const plumb_tensor& x) {
    inputs.push_back(x);
    return *this;
  }
  Calling& out(const plumb_tensor& y) {
    outputs.push_back(y);
    return *this;
  }
  Calling& set(const char* name, double value) {
    attributes.push_back({name, value});
    return *this;
  }
  const plumb_call* operator()() {
    call.inputs = inputs.data();
    call.input_count = inputs.size();
    call.outputs = outputs.data();
    call.output_count = outputs.size();
    call.attributes = attributes.data();
    call.attribute_count = attributes.size();
    return &call;
  }

  plumb_call call{};
  std::vector<plumb_tensor> inputs, outputs;
  std::vector<plumb_attribute> attributes;
};

// A result that frees what it owns.
class Found {
 public:
  explicit Found(Calling& calling) { code = plumb_judge(calling(), &r_); }
  Found(const Found&) = delete;
  Found& operator=(const Found&) = delete;
  ~Found() { plumb_free(&r_); }
  const plumb_result* operator->() const { return &r_; }

  int code;

 private:
  plumb_result r_{};
};

// Both functions say the same sentence, in the result and after it.
inline void expect_trouble(Calling& calling, const std::string& because) {
  for (const auto function : {plumb_judge, plumb_bound}) {
    if (function == plumb_bound && because.find("outputs[") != because.npos) continue;
    plumb_result r{};
    EXPECT_EQ(function(calling(), &r), PLUMB_TROUBLE) << because;
    EXPECT_EQ(r.code, PLUMB_TROUBLE);
    ASSERT_NE(r.explanation, nullptr) << because;
    const std::string said = r.explanation;
    EXPECT_NE(said.find(because), said.npos) << said << "\nexpected: " << because;
    EXPECT_EQ(said.find('\n'), said.npos) << said;
    EXPECT_EQ(said.find("--"), said.npos) << "speaks of options: " << said;
    EXPECT_EQ(said, plumb_last_error());
    EXPECT_EQ(r.outputs, nullptr);
    plumb_free(&r);
    plumb_free(&r);
    EXPECT_EQ(function(calling(), nullptr), PLUMB_TROUBLE);
  }
}

}  // namespace plumb
