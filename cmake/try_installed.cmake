# cmake -DBUILD=... -DNAME=... -DSOURCE=... -DCOMPILER=... -DFLAGS=... -DTYPE=...
#       [-DPKG_CONFIG=... -DPC_FOLDER=... -DPC=... [-DCC=...]] -P try_installed.cmake
#
# Installs BUILD into a folder of its own, NAME, builds the project SOURCE against what lies there, and runs its tests.
# With PKG_CONFIG the project's one source is compiled with what that says of the folder, and run; with CC it is C99.
set(at ${BUILD}/installed/${NAME})
file(REMOVE_RECURSE ${at})
macro(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${said}")
  endif()
endmacro()
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${at}/prefix)
foreach(file bin/plumb include/plumb.h share/man/man1/plumb.1 share/man/man1/plumb-check.1 share/bash-completion/completions/plumb)
  if(NOT EXISTS ${at}/prefix/${file})
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
if(PKG_CONFIG)
  set(ENV{PKG_CONFIG_PATH} ${at}/prefix/${PC_FOLDER})
  step(${PKG_CONFIG} --variable=libdir ${PC})
  set(ENV{LD_LIBRARY_PATH} ${said})
  step(${PKG_CONFIG} --cflags --libs ${PC})
  separate_arguments(flags UNIX_COMMAND "${FLAGS} ${said}")
  get_filename_component(example ${SOURCE} NAME)
  if(CC)
    step(${CC} -std=c99 -Wall -Wextra -Wpedantic -Werror ${SOURCE}/${example}.c ${flags} -lm -o ${at}/${example})
  else()
    step(${COMPILER} ${SOURCE}/${example}.cpp ${flags} -o ${at}/${example})
  endif()
  step(${at}/${example})
else()
  step(${CMAKE_COMMAND} -S ${SOURCE} -B ${at}/build -G Ninja -DCMAKE_PREFIX_PATH=${at}/prefix
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${FLAGS} -DCMAKE_BUILD_TYPE=${TYPE})
  step(${CMAKE_COMMAND} --build ${at}/build)
  step(${CMAKE_CTEST_COMMAND} --test-dir ${at}/build --no-tests=error --output-on-failure)
endif()
