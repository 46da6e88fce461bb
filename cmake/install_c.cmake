# cmake/install_c.cmake: what programs in C get: plumb.h and libplumb.so, for find_package(plumb COMPONENTS c) (where all is
# installed) and for pkg-config as plumb-c. PLUMB_ONLY_C installs nothing else.
include(GNUInstallDirs)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/plumb)
# A set of its own: whoever asks for plumb::c alone needs none of the others' packages.
set_target_properties(plumb_c PROPERTIES EXPORT_NAME c)
set_target_properties(plumb_trace_writer PROPERTIES EXPORT_NAME trace_writer)
target_include_directories(plumb_c INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS plumb_c plumb_trace_writer EXPORT plumbCTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT plumbCTargets NAMESPACE plumb:: DESTINATION ${package})

# From where a .pc lies to the prefix, wherever the folder is moved to.
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/plumb-c.pc.in ${PROJECT_BINARY_DIR}/plumb-c.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/plumb-c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
