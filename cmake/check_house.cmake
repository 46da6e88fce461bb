# cmake [-DRULE=...] -P cmake/check_house.cmake: does each file keep the rules of the house, or that one rule?
#
# A rule is a file, check_<rule>.cmake, and a test, house.<rule>.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/picture.cmake)
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)

set(wrong 0)
macro(complain text)
  message("${file}: ${text}")
  math(EXPR wrong "${wrong} + 1")
endmacro()

# The text of a file, safe in lists and as an argument of macros: no brackets, no semicolons, no backslashes.
function(read_text path result)
  file(READ ${path} text)
  string(REPLACE "[" "@<" text "${text}")
  string(REPLACE "]" ">@" text "${text}")
  string(REPLACE ";" "," text "${text}")
  string(REPLACE "\\" " " text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Sets `files`: the sources of a room, from the root.
macro(sources_of room)
  file(GLOB_RECURSE files RELATIVE ${root}
    ${root}/${room}/*.hpp ${root}/${room}/*.cpp ${root}/${room}/*.cu ${root}/${room}/*.inc ${root}/${room}/*.h)
endmacro()

# Sets `documents`: every page, but those that a build makes.
macro(all_documents)
  file(GLOB_RECURSE documents RELATIVE ${root} ${root}/*.md)
  list(FILTER documents EXCLUDE REGEX "^(build|_)")
endmacro()

if(NOT DEFINED RULE)
  set(RULE ${house_rules})
endif()
foreach(rule IN LISTS RULE)
  if(NOT rule IN_LIST house_rules)
    message(FATAL_ERROR "there is no rule '${rule}'; there are: ${house_rules}")
  endif()
  include(${CMAKE_CURRENT_LIST_DIR}/check_${rule}.cmake)
endforeach()
if(wrong)
  message(FATAL_ERROR "${wrong} line(s) against the rules of the house")
endif()
