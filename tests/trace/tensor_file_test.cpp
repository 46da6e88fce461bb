// Are tensors of other programs read bit by bit, and hostile files refused in one sentence before
// anything large is allocated?
#include "trace/store/tensor_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "tests/support/rooms.hpp"
#include "tests/support/tensors.hpp"

namespace plumb::tensor_file_test {
namespace {

namespace fs = std::filesystem;

class TensorFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("plumb-tensor-file-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path written(const std::string& name, const std::string& bytes) const {
    write_bytes(folder_ / name, bytes);
    return folder_ / name;
  }
  // All numbers of the tensor of that name.
  std::vector<double> read(const fs::path& path, const std::string& name) const {
    TensorFile file(path);
    const StoredTensor& tensor = file.tensors().at(name);
    std::vector<double> numbers(tensor.size);
    file.read(tensor, 0, numbers);
    return numbers;
  }
  void expect_refused(const std::string& name, const std::string& bytes,
                      const std::string& because) const {
    const fs::path path = written(name, bytes);
    try {
      TensorFile file(path);
      std::vector<double> one(1);
      for (const auto& [id, tensor] : file.tensors()) file.read(tensor, 0, one);
      ADD_FAILURE() << "was taken; expected: " << because;
    } catch (const Failure& failure) {
      const std::string said = failure.what();
      EXPECT_NE(said.find(because), said.npos) << said;
      EXPECT_NE(said.find(path.string()), said.npos) << said;
      EXPECT_EQ(said.find('\n'), said.npos) << said;
    }
  }
  fs::path folder_;
};

TEST_F(TensorFiles, NumbersOfEachTypeAreReadAsTheyAre) {
  const fs::path path =
      written("all.safetensors",
              safetensors({{"f64", "F64", {2}, bytes_of<double>({0.5, -3})},
                           f32("f32", {1, 2}, {0.1F, -0.0F}),
                           {"f16", "F16", {3}, bytes_of<std::uint16_t>({0x3c00, 0x0001, 0x7c00})},
                           {"bf16", "BF16", {2}, bytes_of<std::uint16_t>({0x3f80, 0xc040})},
                           {"e4m3", "F8_E4M3", {3}, bytes_of<std::uint8_t>({0x38, 0x7e, 0x01})},
                           {"e5m2", "F8_E5M2", {3}, bytes_of<std::uint8_t>({0x3c, 0x7b, 0xfc})},
                           {"i64", "I64", {2}, bytes_of<std::int64_t>({-7, 1 << 24})},
                           {"bool", "BOOL", {2}, bytes_of<std::uint8_t>({0, 1})},
                           {"scalar", "F32", {}, bytes_of<float>({4})}}));
  using V = std::vector<double>;
  EXPECT_EQ(read(path, "f64"), (V{0.5, -3}));
  EXPECT_EQ(read(path, "f32"), (V{static_cast<double>(0.1F), -0.0}));
  EXPECT_TRUE(std::signbit(read(path, "f32")[1]));
  EXPECT_EQ(read(path, "f16"), (V{1, 0x1p-24, std::numeric_limits<double>::infinity()}));
  EXPECT_EQ(read(path, "bf16"), (V{1, -3}));
  EXPECT_EQ(read(path, "e4m3"), (V{1, 448, 0x1p-9}));
  EXPECT_EQ(read(path, "e5m2"), (V{1, 57344, -std::numeric_limits<double>::infinity()}));
  EXPECT_EQ(read(path, "i64"), (V{-7, 1 << 24}));
  EXPECT_EQ(read(path, "bool"), (V{0, 1}));
  EXPECT_EQ(read(path, "scalar"), (V{4}));
  EXPECT_EQ(TensorFile(path).tensors().at("bf16").format(), bf16);
  EXPECT_EQ(TensorFile(path).tensors().at("i64").format(), fp32);
}

TEST_F(TensorFiles, ThoseOfNumpyAreReadAsTheyAre) {
  using V = std::vector<double>;
  EXPECT_EQ(read(written("a.npy", npy("<f4", "1, 3", bytes_of<float>({1, 2, 0.1F}))), ""),
            (V{1, 2, static_cast<double>(0.1F)}));
  EXPECT_EQ(read(written("b.npy", npy("<f8", "2,", bytes_of<double>({1, 2.5}))), ""), (V{1, 2.5}));
  for (const char* bfloat16 : {"<V2", "|V2"}) {
    const fs::path path =
        written("c.npy", npy(bfloat16, "2,", bytes_of<std::uint16_t>({0x3f80, 0xc040})));
    EXPECT_EQ(read(path, ""), (V{1, -3}));
    EXPECT_EQ(TensorFile(path).tensors().at("").format(), bf16);
  }
  EXPECT_EQ(read(written("d.npy", npy("<i8", "", bytes_of<std::int64_t>({5}))), ""), (V{5}));
  EXPECT_EQ(read(written("e.npy", npy("<f2", "1,", bytes_of<std::uint16_t>({0x3c00}))), ""),
            (V{1}));
}

TEST_F(TensorFiles, APieceIsReadFromItsPlace) {
  TensorFile file(written("x.safetensors",
                          safetensors({f32("a", {2}, {8, 9}), f32("b", {2, 2}, {1, 2, 3, 4})})));
  std::vector<double> two(2);
  file.read(file.tensors().at("b"), 1, two);
  EXPECT_EQ(two, (std::vector<double>{2, 3}));
}

TEST_F(TensorFiles, NumbersThatFp32HasNotAreRefused) {
  const std::string because = "which FP32 does not have";
  expect_refused("a.safetensors", safetensors({{"x", "F64", {1}, bytes_of<double>({0.1})}}),
                 because);
  expect_refused("b.safetensors", safetensors({{"x", "F64", {1}, bytes_of<double>({1e300})}}),
                 because);
  expect_refused("c.safetensors",
                 safetensors({{"x", "I64", {1}, bytes_of<std::int64_t>({(1 << 24) + 1})}}),
                 because);
  expect_refused("d.safetensors",
                 safetensors({{"x", "U64", {1}, bytes_of<std::uint64_t>({~0ULL})}}), because);
}

TEST_F(TensorFiles, HostileSafetensorsAreRefused) {
  const std::string values(8, '\0');
  const auto entry = [](const std::string& type, const std::string& shape, const std::string& from,
                        const std::string& to) {
    return "{\"x\":{\"dtype\":\"" + type + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
           from + "," + to + "]}}";
  };
  const auto hostile = [&](const std::string& header, const std::string& because) {
    expect_refused("x.safetensors", with_header(header, values), because);
  };
  expect_refused("x.safetensors", "", "is cut short");
  expect_refused("x.safetensors", std::string(8, '\xff'), "announces a header of");
  expect_refused("x.safetensors", std::string("\x40\0\0\0\0\0\0\0{}", 10),
                 "announces a header of 64");
  hostile("[]", "is not a JSON object");
  hostile("{\"x\":3}", "'x' that needs a dtype");
  hostile(entry("F32", "2", "0", "9"),
          "'x' ends at byte 9 of its numbers, and the file has 8; write it again");
  hostile("{\"x\":\n {,}}", "is not a JSON object (line 2, column 3)");
  hostile("{\"x\":1e999}", "is not a JSON object of numbers that FP64 holds");
  hostile(entry("F32", "2", "8", "0"), "cannot lie at [8,0] of 8 bytes of numbers");
  hostile(entry("F32", "3", "0", "8"), "is said to be 3 numbers of F32, and has 8 bytes");
  hostile(entry("F32", "-2", "0", "8"), "has -2 in its shape, which is no size of a tensor");
  hostile(entry("F32", "2.0", "0", "8"), "has 2.0 in its shape");
  hostile(entry("F32", "1099511627776, 1099511627776", "0", "8"), "and has 8 bytes");
  hostile(entry("F32", "4294967296, 4294967296, 2", "0", "8"), "and has 8 bytes");  // wraps to 0
  hostile(entry("F32", "9999999999999", "0", "8"), "has 9999999999999 in its shape");
  hostile(entry("F32", "2", "0", "18446744073709551616"), "cannot lie at");
  hostile(entry("F32", "1", "0", "4"), "bytes that no tensor owns");
  hostile("{\"a\\u001b\":{}}", "control characters");
  hostile(std::string("{\0}", 3), "NUL");
}

TEST_F(TensorFiles, ATypeThatIsNotReadIsRefusedOnlyWhereItIsWanted) {
  TensorFile file(written("x.safetensors", safetensors({{"odd", "F4", {16}, std::string(8, '\0')},
                                                        f32("x", {1}, {3})})));
  EXPECT_NE(file.tensors().at("odd").unreadable.find("is of type F4"), std::string::npos);
  EXPECT_EQ(file.tensors().at("x").unreadable, "");
}

TEST_F(TensorFiles, HostileNpyAreRefused) {
  const std::string two = bytes_of<float>({1, 2});
  expect_refused("x.npy", "", "is no .npy file");
  expect_refused("x.npy", std::string("\x93NUMPY\x01\x00\xff\xff", 10),
                 "announces a header of 65535");
  expect_refused("x.npy", std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12),
                 "announces a header");
  expect_refused("x.npy", std::string("\x93NUMPY\x09\x00\x00\x00", 10), "version 9");
  expect_refused("x.npy", npy("<f4", "3,", two), "says that it is 3 numbers of 4 bytes, and has 8");
  expect_refused("x.npy", npy("<f4", "1,", two), "says that it is 1 numbers");
  expect_refused("x.npy", npy("<f4", "4294967296, 4294967296, 2", two), "says that it is");
  // 2 (2^63 + 1) is 2 where a product wraps around.
  expect_refused("x.npy", npy("<f4", "9223372036854775809, 2", two), "says that it is");
  expect_refused("x.npy", npy("<f4", "99999999999999999999999", two), "numpy.save does not write");
  expect_refused("x.npy", npy("<f4", "-1,", two), "numpy.save does not write");
  expect_refused("x.npy", npy("<f4", "2,", two, "Maybe"), "numpy.save does not write");
  expect_refused("x.npy", npy(">f4", "2,", two), "big-endian");
  expect_refused("x.npy", npy("<f4", "2, 1", two, "True"), "numpy.ascontiguousarray");
  expect_refused("x.npy", npy("|V1", "8,", two), "may be E4M3 or E5M2");
  expect_refused("x.npy", npy("<f1", "8,", two), "may be E4M3 or E5M2");
  expect_refused("x.npy", npy("|O", "2,", two), "holds numbers of type '|O'");
  expect_refused("x.npy", npy("<c8", "1,", two), "holds numbers of type '<c8'");
}

TEST_F(TensorFiles, APlaceWithoutAFileIsRefused) {
  EXPECT_THROW(TensorFile{folder_}, Failure);
  EXPECT_THROW(TensorFile(folder_ / "none.npy"), Failure);
  EXPECT_THROW(TensorFile("/dev/zero"), Failure);
}

}  // namespace
}  // namespace plumb::tensor_file_test
