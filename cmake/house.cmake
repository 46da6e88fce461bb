# cmake/house.cmake: one function per thing a room needs, so that a room's own file is a line or two.
#
#   house_room([PUBLIC ...] [PRIVATE ...] [APART <regex>] [PARSED_ONCE headers...])
#                                            the library plumb::<folder> of every source below the folder
#   house_program(<name> [the same])         the same, where the folder is a program
#   house_shared(<name> <abi>)               the same, where the folder is a shared library, lib<name>.so.<abi>
#   house_tests(<group> [ALSO rooms...])     <group>_tests: tests/<group>/**/*_test.cpp, tests/support/
#   house_plug_in(<name>)                    examples/plug_in/<name>.c, a library that tests give to calibrate
#   house_cuda_plug_ins(<name> NUMBERS formats... [PRIVATE ...])    the same of <name>.cu, for each format of numbers
#   house_mutants()                          mutants_tests: see ./run mutants (built on demand)
#   house_benches()                          one program per tests/bench/*.cpp, built by target `benches`
#
# A new source file needs no line in any list: the folders are read again at each build.
include(picture)

# Flags of every target. The first two are no matter of taste: a contracted a*b+c has other bits.
add_library(plumb_rules INTERFACE)
target_compile_features(plumb_rules INTERFACE cxx_std_20)
target_include_directories(plumb_rules INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
# Same bits, but loops with a root or a choice in them become vectors: nothing here reads errno, and
# only bounds/proof/certified.cpp the processor's floating-point flags.
set(loop_flags -fno-math-errno -fno-trapping-math)
target_compile_options(plumb_rules INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;-fno-fast-math;${loop_flags}>"
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wno-sign-conversion;-Wshadow>>"
  # A file's own names are no matter of the files that are compiled with it.
  "$<BUILD_INTERFACE:$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wno-shadow$<$<CXX_COMPILER_ID:GNU>:;-Wshadow=local>>>"
  # GCC 12 sees an overlap, or a text beyond memory, in many a "text" + std::to_string(n) (its bug 105651).
  "$<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict;-Wno-stringop-overflow;-Wno-array-bounds>>"
  # Where registers are shorter than sixteen lanes, these are returned in memory; no such function is called from
  # another file.
  "$<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>:-Wno-psabi>>"
  # nvcc writes host code of its own that is not pedantic: .cu files get the plain warnings.
  # CMake 3.25 does not know nvcc 13 and passes it no standard of its own.
  "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--fmad=false;-Xcompiler=-ffp-contract=off,-Wall>"
  "$<BUILD_INTERFACE:$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${PLUMB_WERROR}>>:-Werror>>")
set(machine_flags "")
set(instructions "any ${CMAKE_SYSTEM_PROCESSOR}, products those of the processor, all else slower")  # docs/measured.md
if(PLUMB_NATIVE)
  set(instructions "those of the machine that built it")
  # Wider vectors, same bits: without contraction and fast-math a compiler may neither fuse nor
  # reorder our sums. (Eigen asks for FMA by itself; whoever uses it must allow for any order.)
  set(machine_flags -march=native)
  # Where there are registers of 512 bits, compilers use half of each unless asked: products ran at
  # half of the machine's peak.
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND machine_flags -mprefer-vector-width=512)
  endif()
  target_compile_options(plumb_rules INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${machine_flags}>")
endif()
message(STATUS "PLUMB_NATIVE: instructions are ${instructions}")
# What numbers and speed depend on, as results say it.
string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
string(JOIN " " numeric_flags ${CMAKE_CXX_FLAGS_${type}} ${machine_flags} -ffp-contract=off
  ${loop_flags})

# The sources that need each library (see optional.cmake).
set(PLUMB_NEEDS_cuda "/cuda/|\\.cu$")
set(PLUMB_NEEDS_cublas "/kernels/cublas/")
set(PLUMB_NEEDS_onednn "/kernels/onednn/")
set(PLUMB_NEEDS_nccl "/nccl\\.cpp$")
set(PLUMB_NEEDS_mpi  "/mpi\\.cpp$")

# Sets `sources` to what this machine can build of the current folder, and `libraries` to what that
# needs. mpi.cpp, nccl.cpp, cuda/, cublas/ and onednn/ need their library (see optional.cmake); where it is
# absent, a file called without_<library>.cpp stands in, and only there.
function(house_sources)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp *.cu)
  list(FILTER sources EXCLUDE REGEX "/oracle/")  # a library by itself, house_units
  set(libraries "")
  foreach(file IN LISTS sources)
    foreach(library cuda cublas onednn nccl mpi)
      if(file MATCHES "/without_${library}\\.cpp$")
        if(PLUMB_HAS_${library})
          list(REMOVE_ITEM sources ${file})
        endif()
      elseif(file MATCHES "${PLUMB_NEEDS_${library}}")
        if(PLUMB_HAS_${library})
          list(APPEND libraries plumb_${library})
        else()
          list(REMOVE_ITEM sources ${file})
        endif()
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES libraries)
  get_property(embedded DIRECTORY PROPERTY PLUMB_EMBEDDED)
  list(APPEND sources ${embedded})
  set(sources "${sources}" PARENT_SCOPE)
  set(libraries "${libraries}" PARENT_SCOPE)
endfunction()

# Most of what a compiler does here is to read the same headers once more. So the presets release, checked and fuzz
# compile eight sources as one (CMAKE_UNITY_BUILD), tests too; those that match APART, where each file says `run` or
# `judge` of its own, stay alone, and the headers PARSED_ONCE are kept parsed for them. The preset dev compiles each
# source by itself.
macro(house_compiled target)
  if(arg_APART)
    list(FILTER sources INCLUDE REGEX "${arg_APART}")
    set_source_files_properties(${sources} DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}
      PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(arg_PARSED_ONCE)
    target_precompile_headers(${target} PRIVATE ${arg_PARSED_ONCE})
  endif()
endmacro()

function(house_room)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "APART" "PUBLIC;PRIVATE;PARSED_ONCE")
  get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  house_sources()
  list(TRANSFORM ${room}_sees PREPEND plumb:: OUTPUT_VARIABLE neighbours)
  if(sources)
    add_library(plumb_${room} STATIC ${sources})
    target_link_libraries(plumb_${room} PRIVATE ${arg_PRIVATE} ${libraries})
    if(room IN_LIST c_sees)  # part of a shared library, too, which exports what c/ says alone
      set_target_properties(plumb_${room} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
    endif()
    house_compiled(plumb_${room})
    set(scope PUBLIC)
  else()  # a room of headers alone, or one not built yet
    add_library(plumb_${room} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(plumb::${room} ALIAS plumb_${room})
  target_link_libraries(plumb_${room} ${scope} plumb_rules ${neighbours} ${arg_PUBLIC})
  # A file set, so that CMAKE_VERIFY_INTERFACE_HEADER_SETS can compile each header alone.
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS *.hpp)
  target_sources(plumb_${room} ${scope} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
endfunction()

function(house_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "APART" "PRIVATE;PARSED_ONCE")
  get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  house_sources()
  if(sources)
    list(TRANSFORM ${room}_sees PREPEND plumb:: OUTPUT_VARIABLE neighbours)
    add_executable(${name} ${sources})
    target_link_libraries(${name} PRIVATE plumb_rules ${neighbours} ${arg_PRIVATE} ${libraries})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    house_compiled(${name})
  endif()
endfunction()

# It exports the functions of its header <name>.h alone, whose ABI has the version `abi`.
function(house_shared name abi)
  get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  house_sources()
  list(TRANSFORM ${room}_sees PREPEND plumb:: OUTPUT_VARIABLE neighbours)
  add_library(plumb_${room} SHARED ${sources})
  add_library(plumb::${room} ALIAS plumb_${room})
  target_link_libraries(plumb_${room} PRIVATE plumb_rules ${neighbours})
  target_link_options(plumb_${room} PRIVATE -Wl,--as-needed
    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/${name}.map)
  set_target_properties(plumb_${room} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${abi}
    CXX_VISIBILITY_PRESET hidden LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}.map)
  target_sources(plumb_${room} PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_CURRENT_SOURCE_DIR}
    FILES ${CMAKE_CURRENT_SOURCE_DIR}/${name}.h)
endfunction()

# What takes long in tests is in the rooms; here it is compiling them. (With -O0 they run twice as long: the linker
# takes what a header defines from the first object that has it.)
set(test_flags $<$<CONFIG:Release>:-O1>)

# What all test programs share: tests/support/, gtest, and MPFR, since a test may ask for the truth.
function(house_test_support)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.cpp)
  file(WRITE ${PROJECT_BINARY_DIR}/tests/support.cpp "// gives the library one source, and the header below a home\n")
  add_library(tests_support STATIC ${sources} ${PROJECT_BINARY_DIR}/tests/support.cpp)
  target_link_libraries(tests_support PUBLIC plumb::bounds GTest::gtest GTest::gtest_main MPFR::MPFR Boost::headers)
  target_compile_definitions(tests_support PUBLIC
    PLUMB_PROGRAM="${PROJECT_BINARY_DIR}/plumb" PLUMB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_compile_options(tests_support PUBLIC "${test_flags}")
  # gtest.h is most of what a small test file compiles; parsed once for all.
  target_precompile_headers(tests_support PRIVATE <gtest/gtest.h>)
endfunction()

# Tests with these words in their names need a GPU (./run test gpu), and skip with a reason where there is
# none. Their label is ROOM-gpu, which ctest -L finds by either word.
set(gpu_suites "*Cuda*:*Cublas*:*Nccl*:*/cublas:*/cublas_*")

function(house_tests group)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ALSO")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${group}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  list(APPEND arg_ALSO ${group})
  list(FILTER arg_ALSO INCLUDE REGEX "^(number|bounds|world|trace|c|kernels|probe|model|injectors|experiments|paper_repro)$")
  list(TRANSFORM arg_ALSO PREPEND plumb::)
  add_executable(${group}_tests ${sources})
  target_link_libraries(${group}_tests PRIVATE tests_support ${arg_ALSO})
  target_precompile_headers(${group}_tests REUSE_FROM tests_support)
  set_target_properties(${group}_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(TARGET plumb AND group MATCHES "^(c|cli|readme)$")
    add_dependencies(${group}_tests plumb plumb_c)
  endif()
  # Asked for its tests when ctest starts, not at each link: a link then stays a link.
  gtest_discover_tests(${group}_tests TEST_PREFIX ${group}. DISCOVERY_MODE PRE_TEST TEST_FILTER "-${gpu_suites}"
                       DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${group})
  gtest_discover_tests(${group}_tests TEST_PREFIX ${group}. DISCOVERY_MODE PRE_TEST TEST_FILTER "${gpu_suites}"
                       TEST_LIST ${group}_gpu_tests DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${group}-gpu)
endfunction()

function(house_plug_in name)
  add_library(${name} MODULE ${PROJECT_SOURCE_DIR}/examples/plug_in/${name}.c)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE m)
  target_compile_options(${name} PRIVATE -std=c99 -Wall -Wextra -Wpedantic -ffp-contract=off)
  set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()

# The same of kernels of a GPU, <name>_<numbers>.so of examples/plug_in/<name>.cu for each format.
function(house_cuda_plug_ins name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "NUMBERS;PRIVATE")
  foreach(numbers IN LISTS arg_NUMBERS)
    string(TOUPPER NUMBERS_${numbers} numbers_are)
    set(target ${name}_${numbers})
    add_library(${target} MODULE ${PROJECT_SOURCE_DIR}/examples/plug_in/${name}.cu)
    target_link_libraries(${target} PRIVATE plumb_rules plumb_cuda ${arg_PRIVATE})
    target_compile_definitions(${target} PRIVATE ${numbers_are})
    set_target_properties(${target} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    add_dependencies(probe_tests ${target})
  endforeach()
  string(TOUPPER PLUMB_HAS_PLUG_IN_${name} has)
  target_compile_definitions(probe_tests PRIVATE ${has} PLUMB_CUDA_PLUG_INS="${PROJECT_BINARY_DIR}/tests")
endfunction()

# Instructions of an H100's matrix units, for experiments/oracle/device.py: always compiled where nvcc is.
function(house_units)
  add_library(units MODULE ${PROJECT_SOURCE_DIR}/experiments/oracle/units.cu)
  target_link_libraries(units PRIVATE plumb_rules plumb_cuda)
  set_target_properties(units PROPERTIES PREFIX "" CUDA_ARCHITECTURES 90a LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/experiments)
endfunction()

# The bounds and their tests once more, with terms that can be lost (bounds/proof/term.hpp).
function(house_mutants)
  get_target_property(sources plumb_bounds SOURCES)
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/bounds/*_test.cpp)
  set(emulations ${PROJECT_SOURCE_DIR}/kernels/mma/product.cpp ${PROJECT_SOURCE_DIR}/kernels/mma/amd.cpp
                 ${PROJECT_SOURCE_DIR}/kernels/mma/multiply.cpp ${PROJECT_SOURCE_DIR}/kernels/ordered/product.cpp)
  set(their_tests ${PROJECT_SOURCE_DIR}/tests/kernels/mma_test.cpp ${PROJECT_SOURCE_DIR}/tests/kernels/mma_any_test.cpp ${PROJECT_SOURCE_DIR}/tests/kernels/oracle_test.cpp ${PROJECT_SOURCE_DIR}/tests/kernels/cast_product_test.cpp ${PROJECT_SOURCE_DIR}/tests/kernels/ordered_test.cpp)
  add_library(mutants STATIC EXCLUDE_FROM_ALL ${sources} ${emulations})
  add_dependencies(mutants plumb_bounds)  # makes the embedded cards
  target_compile_definitions(mutants PUBLIC PLUMB_MUTANTS)
  target_compile_options(mutants PUBLIC -O1)  # the same bits, and a third less to build
  get_target_property(parsed_once plumb_bounds PRECOMPILE_HEADERS)
  target_precompile_headers(mutants PRIVATE ${parsed_once})
  target_link_libraries(mutants PUBLIC plumb_rules plumb::number fmt::fmt MPFR::MPFR Boost::headers
                        nlohmann_json::nlohmann_json)
  add_executable(mutants_tests EXCLUDE_FROM_ALL ${tests} ${their_tests})
  target_compile_definitions(mutants_tests PRIVATE PLUMB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(mutants_tests PRIVATE mutants GTest::gtest GTest::gtest_main)
  target_precompile_headers(mutants_tests PRIVATE <gtest/gtest.h>)
  target_compile_options(mutants_tests PRIVATE "${test_flags}")
  set_target_properties(mutants_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()

function(house_benches)
  add_custom_target(benches)
  find_library(PLUMB_ARB flint-arb)  # a peer, measured where it is installed
  mark_as_advanced(PLUMB_ARB)
  if(PLUMB_ARB)
    set(peers ${PLUMB_ARB} flint)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/bench/*.cpp)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(bench_${name} EXCLUDE_FROM_ALL ${source})
    target_compile_definitions(bench_${name} PRIVATE PLUMB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_link_libraries(bench_${name} PRIVATE plumb::paper_repro MPFR::MPFR ${peers} benchmark::benchmark benchmark::benchmark_main)
    set_target_properties(bench_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
    add_dependencies(benches bench_${name})
  endforeach()
endfunction()
