# Included by check_house.cmake: an operation has its file and its line in the catalogue, and nobody compares its name:
# what it is, its card says (bounds/operation.hpp: Traits).

# An operation stands in the file of its name, or in that of its stem: rmsnorm_grad in rmsnorm.cpp.
file(GLOB files RELATIVE ${root} ${root}/bounds/operations/*.cpp)
file(STRINGS ${root}/bounds/operations.inc catalogue REGEX "^OPERATION")
foreach(file IN LISTS files)
  get_filename_component(stem ${file} NAME_WE)
  file(STRINGS ${root}/${file} cards REGEX "^extern const Operation ")
  foreach(card IN LISTS cards)
    string(REGEX REPLACE "^extern const Operation ([a-z0-9_]+).*" "\\1" id "${card}")
    if(NOT id STREQUAL stem AND NOT id MATCHES "^${stem}_")
      complain("${id} belongs into bounds/operations/${id}.cpp, or into the file of its stem")
    elseif(NOT "OPERATION(${id})" IN_LIST catalogue)
      complain("${id} has no line in bounds/operations.inc")
    endif()
  endforeach()
endforeach()

# Comparisons of a node's operation with a name, and of an operation's id outside of its room.
set(compares "[.>]op *[!=]= *\"|[.>]op\\.(starts_with|ends_with|r?find|substr|compare)\\(")
set(compares "${compares}|(^|[^a-z_.>])op *[!=]= *\"|(^|[^a-z_])op\\.(starts_with|ends_with|r?find)\\(|operation(->|\\.)id *[!=]= *\"")
foreach(room IN LISTS rooms)
  file(GLOB_RECURSE files RELATIVE ${root} ${root}/${room}/*.hpp ${root}/${room}/*.cpp)
  foreach(file IN LISTS files)
    file(STRINGS ${root}/${file} found REGEX "${compares}")
    foreach(line IN LISTS found)
      complain("asks for an operation by its name, its card has traits: ${line}")
    endforeach()
  endforeach()
endforeach()
