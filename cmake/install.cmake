# cmake/install.cmake: what other projects get of this one: the program with its manual, rooms as libraries for
# find_package(plumb) (plumbConfig.cmake.in says which) and for pkg-config, and libplumb.so with plumb.h for programs in
# C. Headers of rooms lie below include/plumb and are included as here.
include(install_c)
include(CMakePackageConfigHelpers)

# What is exported: rooms up to the planted bugs, the flags that all share, and what the machine has beside.
set(exported plumb_rules)
set_target_properties(plumb_rules PROPERTIES EXPORT_NAME rules)
target_include_directories(plumb_rules INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/plumb>)
foreach(name number bounds trace world kernels model injectors ${optional_libraries})
  if(TARGET plumb_${name})
    set_target_properties(plumb_${name} PROPERTIES EXPORT_NAME ${name})
    list(APPEND exported plumb_${name})
  endif()
endforeach()
install(TARGETS ${exported} EXPORT plumbTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plumb)
install(TARGETS plumb RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# Headers include these lists.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/model/joints DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plumb/model
  FILES_MATCHING PATTERN "*.inc")
install(FILES ${PROJECT_SOURCE_DIR}/probe/plug_in.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plumb/probe)
install(DIRECTORY ${PROJECT_BINARY_DIR}/cli/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_BINARY_DIR}/cli/plumb.bash RENAME plumb
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)

install(EXPORT plumbTargets NAMESPACE plumb:: DESTINATION ${package})
string(JOIN " " optional_packages ${optional_packages})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/plumbConfig.cmake.in
  ${PROJECT_BINARY_DIR}/plumbConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/plumbConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/plumbConfig.cmake ${PROJECT_BINARY_DIR}/plumbConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindMPFR.cmake ${CMAKE_CURRENT_LIST_DIR}/FindRE2.cmake DESTINATION ${package})

# For pkg-config: number, bounds and trace, wherever the folder is moved to.
string(JOIN " " flags ${machine_flags} -ffp-contract=off -fno-fast-math ${loop_flags})
configure_file(${CMAKE_CURRENT_LIST_DIR}/plumb.pc.in ${PROJECT_BINARY_DIR}/plumb.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/plumb.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The examples, each built and run from an installed tree; the first, and that in C, once more by pkg-config, where that
# is there. A library under sanitizers asks for a program under them: no test then in C.
find_program(PLUMB_PKG_CONFIG NAMES pkgconf pkg-config)
mark_as_advanced(PLUMB_PKG_CONFIG)
function(try_installed test example)
  add_test(NAME install.${test} COMMAND ${CMAKE_COMMAND}
    -DBUILD=${PROJECT_BINARY_DIR} -DNAME=${test} -DSOURCE=${PROJECT_SOURCE_DIR}/examples/${example}
    -DCOMPILER=${CMAKE_CXX_COMPILER} "-DFLAGS=${CMAKE_CXX_FLAGS}" -DTYPE=${CMAKE_BUILD_TYPE} ${ARGN}
    -P ${PROJECT_SOURCE_DIR}/cmake/try_installed.cmake)
  set_tests_properties(install.${test} PROPERTIES LABELS house)
endfunction()
foreach(example kernel_test check_traces new_operation new_bug)
  try_installed(${example} ${example})
endforeach()
if(PLUMB_PKG_CONFIG)
  set(by_pkg_config -DPKG_CONFIG=${PLUMB_PKG_CONFIG} -DPC_FOLDER=${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  try_installed(pkg_config kernel_test ${by_pkg_config} -DPC=plumb)
endif()
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  try_installed(kernel_in_c kernel_in_c)
  find_program(PLUMB_CC NAMES cc)
  mark_as_advanced(PLUMB_CC)
  if(PLUMB_PKG_CONFIG AND PLUMB_CC)
    try_installed(pkg_config_in_c kernel_in_c ${by_pkg_config} -DPC=plumb-c -DCC=${PLUMB_CC})
  endif()
endif()
