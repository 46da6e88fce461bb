# cmake -DBUILD=... -DSOURCE=... -DCOMPILER=... -DFLAGS=... -DTYPE=... -P try_installed.cmake
#
# Installs BUILD into a folder of its own, builds the project SOURCE against what lies there, and runs its tests.
get_filename_component(name ${SOURCE} NAME)
set(at ${BUILD}/installed/${name})
file(REMOVE_RECURSE ${at})
macro(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${said}")
  endif()
endmacro()
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${at}/prefix)
foreach(file bin/plumb share/man/man1/plumb.1 share/man/man1/plumb-check.1 share/bash-completion/completions/plumb)
  if(NOT EXISTS ${at}/prefix/${file})
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${at}/build -G Ninja -DCMAKE_PREFIX_PATH=${at}/prefix
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${FLAGS} -DCMAKE_BUILD_TYPE=${TYPE})
step(${CMAKE_COMMAND} --build ${at}/build)
step(${CMAKE_CTEST_COMMAND} --test-dir ${at}/build --no-tests=error --output-on-failure)
