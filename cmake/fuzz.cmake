# cmake/fuzz.cmake: what reads text or files from outside, given any bytes (tests/fuzz/).
#
#   fuzz.*   fuzz_tests: every reader on its committed corpus, in any build
#   fuzz     every reader under libFuzzer, which needs clang and its runtime: ./run fuzz

option(PLUMB_FUZZ "Make the fuzzers known (built on demand, by the target fuzz)" OFF)
file(GLOB readers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/readers/*.cpp)
list(APPEND readers ${PROJECT_SOURCE_DIR}/tests/fuzz/reader.cpp ${PROJECT_SOURCE_DIR}/tests/fuzz/heap.cpp)
set(read_by_fuzzers number bounds trace probe model experiments)

house_tests(fuzz ALSO ${read_by_fuzzers})
target_sources(fuzz_tests PRIVATE ${readers})

set(found FALSE)
if(PLUMB_FUZZ)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
  check_cxx_source_compiles("extern \"C\" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }" PLUMB_LIBFUZZER)
  unset(CMAKE_REQUIRED_FLAGS)
  set(found ${PLUMB_LIBFUZZER})
endif()
report(fuzz PLUMB_FUZZ ${found} "libFuzzer of ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
if(NOT PLUMB_HAS_fuzz)
  return()
endif()
add_executable(fuzz EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/fuzz/main.cpp ${readers})
list(TRANSFORM read_by_fuzzers PREPEND plumb:: OUTPUT_VARIABLE libraries)
target_link_libraries(fuzz PRIVATE ${libraries})
target_link_options(fuzz PRIVATE -fsanitize=fuzzer)
set_target_properties(fuzz PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
