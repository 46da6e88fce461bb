# cmake/install.cmake: what other projects get of this one: the program with its manual, and
# plumb::number, plumb::bounds and plumb::trace for find_package(plumb). Headers lie below
# include/plumb and are included as here.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

foreach(room number bounds trace)
  set_target_properties(plumb_${room} PROPERTIES EXPORT_NAME ${room})
endforeach()
set_target_properties(plumb_rules PROPERTIES EXPORT_NAME rules)
target_include_directories(plumb_rules INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/plumb>)

install(TARGETS plumb_rules plumb_number plumb_bounds plumb_trace EXPORT plumbTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plumb)
install(TARGETS plumb RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_BINARY_DIR}/cli/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_BINARY_DIR}/cli/plumb.bash RENAME plumb
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/plumb)
install(EXPORT plumbTargets NAMESPACE plumb:: DESTINATION ${package})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/plumbConfig.cmake.in
  ${PROJECT_BINARY_DIR}/plumbConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/plumbConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/plumbConfig.cmake ${PROJECT_BINARY_DIR}/plumbConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindMPFR.cmake ${CMAKE_CURRENT_LIST_DIR}/FindRE2.cmake DESTINATION ${package})

# The examples, each built and run from an installed tree.
foreach(example kernel_test check_traces)
  add_test(NAME install.${example} COMMAND ${CMAKE_COMMAND}
    -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}/examples/${example}
    -DCOMPILER=${CMAKE_CXX_COMPILER} "-DFLAGS=${CMAKE_CXX_FLAGS}" -DTYPE=${CMAKE_BUILD_TYPE}
    -P ${CMAKE_CURRENT_LIST_DIR}/try_installed.cmake)
  set_tests_properties(install.${example} PROPERTIES LABELS house)
endforeach()
