// Are kernels of a GPU subjects like any? Their facts are those that examples/plug_in/cuda_kernels.cu
// has by its own text, or, of matrix units, what the card of the device says.
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cuda/cast_fp8.hpp"
#include "number/outcome.hpp"
#include "probe/calibrate.hpp"
#include "probe/outside.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::probe::cuda_test {
namespace {

bool find_usable(std::string_view name) {
  for (const Backend* backend : all_backends()) {
    if (backend->name == name) return backend->usable_here();
  }
  return false;
}

TEST(CublasBackend, IsASubjectWhoseCardHolds) {
  if (!find_usable("cublas"))
    GTEST_SKIP() << "cublas needs what is not here: a GPU, or its library";
  CalibrateOptions options;
  options.longest = 256;
  const Calibration found = calibrate(subject_of(find_backend("cublas"), bf16), options);
  EXPECT_TRUE(found.validation.holds());
  EXPECT_GT(found.validation.elements, 0U) << found.validation.refused;
}

// Some of the probes' numbers are BF16's, which go to the matrix units, and others are not.
TEST(CublasBackend, OfFp32NumbersIsTwoSubjectsAndNothingIsClaimed) {
  if (!find_usable("cublas"))
    GTEST_SKIP() << "cublas needs what is not here: a GPU, or its library";
  CalibrateOptions options;
  options.longest = 256;
  const Calibration found = calibrate(subject_of(find_backend("cublas"), fp32), options);
  EXPECT_EQ(found.validation.elements, 0U);
  EXPECT_TRUE(found.card.facts.empty());
}

#ifdef PLUMB_HAS_PLUG_IN_CUDA_KERNELS
Subject kernels_of(const std::string& numbers) {
  return subject_in_library(PLUMB_CUDA_PLUG_INS "/cuda_kernels_" + numbers + ".so");
}
std::string fact_of(const Calibration& found, const std::string& name) {
  const Fact* fact = found.card.fact(name);
  return fact == nullptr ? "" : fact->value;
}
CalibrateOptions short_sums() {
  CalibrateOptions options;
  options.longest = 256;
  return options;
}

TEST(CudaPlugIn, ChainsAndWarpsAreFound) {
  if (!cuda_usable_here()) GTEST_SKIP() << "no GPU here";
  const Calibration found = calibrate(kernels_of("fp32"), short_sums());
  EXPECT_EQ(fact_of(found, "order_gemm"), "sequential up to 256");
  EXPECT_EQ(fact_of(found, "rounding"), "nearest_even");
  EXPECT_EQ(fact_of(found, "fma"), "as_written");
  EXPECT_EQ(fact_of(found, "order_column_sum"), "sequential up to 256");
  EXPECT_EQ(fact_of(found, "order_softmax"), "lanes 32 strided up to 256");
  EXPECT_TRUE(found.validation.holds());
  EXPECT_EQ(found.validation.equal, 1);
}

// Of units that are described here the steps are found; of others nothing is claimed that bits deny.
TEST(CudaPlugIn, StepsOfMatrixUnitsAreFound) {
  if (!cuda_usable_here()) GTEST_SKIP() << "no GPU here";
  for (const std::string numbers : {"bf16", "fp16", "tf32"}) {
    const Calibration found = calibrate(kernels_of(numbers), short_sums());
    EXPECT_TRUE(found.validation.holds()) << numbers;
    EXPECT_GT(found.validation.elements, 0U) << numbers << ": " << found.validation.refused;
    if (fact_of(found, "mma_" + numbers).empty()) continue;
    EXPECT_EQ(found.validation.equal, 1) << numbers << ": " << fact_of(found, "mma_" + numbers);
  }
}

TEST(CudaPlugIn, FailsInOneSentenceWhereThereIsNoGpu) {
  if (cuda_usable_here()) GTEST_SKIP() << "there is a GPU: its kernels run";
  for (const std::string numbers : {"fp32", "bf16", "fp16", "tf32"}) {
    const Subject subject = kernels_of(numbers);
    EXPECT_EQ(subject.input.name, numbers);
    EXPECT_TRUE(subject.functions.empty() && subject.tables.empty());
    try {
      (void)subject.multiply({{Tensor(2, 3, 1.0F), Tensor(3, 4, 1.0F)}});
      FAIL();
    } catch (const Failure& failure) {
      EXPECT_STREQ(failure.what(), "the plug-in cuda_kernels failed at a product of 2 x 3 x 4");
    }
  }
}
#else
TEST(CudaPlugIn, IsBuiltWhereNvccIs) { GTEST_SKIP() << "built without CUDA: nvcc was not found"; }
#endif

#ifdef PLUMB_HAS_PLUG_IN_CUBLASLT
Subject cublaslt_of(const std::string& numbers, int algorithm) {
  setenv("PLUMB_ALGORITHM", std::to_string(algorithm).c_str(), 1);
  return subject_in_library(PLUMB_CUDA_PLUG_INS "/cublaslt_" + numbers + ".so");
}

// Whatever is found of the algorithms that there are for every shape.
TEST(CublasLtPlugIn, EachAlgorithmHasACardThatHolds) {
  if (!cuda_usable_here()) GTEST_SKIP() << "no GPU here";
  CalibrateOptions options;
  options.longest = 256;
  for (const std::string numbers : {"bf16", "fp16", "e4m3fn"}) {
    for (int algorithm = 0; algorithm < 3; ++algorithm) {
      try {
        const Calibration found = calibrate(cublaslt_of(numbers, algorithm), options);
        EXPECT_TRUE(found.validation.holds()) << numbers << " " << algorithm;
        EXPECT_EQ(found.validation.equal, 1) << numbers << " " << algorithm;
      } catch (const Failure&) {
        EXPECT_GT(algorithm, 0) << numbers << ": the first one is there for every shape";
      }
    }
  }
}

TEST(CublasLtPlugIn, FailsInOneSentenceWhereThereIsNoGpu) {
  if (cuda_usable_here()) GTEST_SKIP() << "there is a GPU: its products are made";
  for (const std::string numbers : {"bf16", "fp16", "e4m3fn"}) {
    const Subject subject = cublaslt_of(numbers, 2);
    EXPECT_EQ(subject.name, "cublaslt-2");
    EXPECT_EQ(subject.input.name, numbers);
    EXPECT_THROW((void)subject.multiply({{Tensor(2, 3, 1.0F), Tensor(3, 4, 1.0F)}}), Failure);
  }
}
#else
TEST(CublasLtPlugIn, IsBuiltWhereCublasLtIs) { GTEST_SKIP() << "built without cuBLASLt"; }
#endif

}  // namespace
}  // namespace plumb::probe::cuda_test
