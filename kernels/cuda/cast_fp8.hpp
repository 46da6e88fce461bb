// kernels/cuda/cast_fp8.hpp: FP32 to FP8 bytes on a GPU.
//
// CLAIM    each byte is the encoding of round_to(x, format, nearest_even, saturate): beyond the
//          largest number, infinities included, the largest; NaN stays NaN.
// TESTED   tests/kernels/cuda/cast_fp8_test.cpp (skipped where there is no GPU)
#pragma once

#include <cstdint>
#include <span>

#include "kernels/sees.hpp"

namespace plumb::kernels {

// Was the program built with CUDA, and is there a device?
bool cuda_usable_here();

// Throws std::invalid_argument unless out is as long as in and the format is e4m3fn or e5m2;
//        Failure  if there is no device or the device fails.
void cast_to_e4m3fn_on_cuda(std::span<const float> in, std::span<std::uint8_t> out);
void cast_to_e5m2_on_cuda(std::span<const float> in, std::span<std::uint8_t> out);

}  // namespace plumb::kernels
