# Included by check_house.cmake: in comments a label (TESTED, COSTS ...) stands at the start of its line, and a table
# keeps its columns: no entry goes on below its own label. A formatter that rejoins lines breaks both.

set(labels "CLAIM|HOLDS|TESTED|COSTS|SOURCES|REFUSES|LEMMAS|SLACK|ASSUMES|VALID|UNIT|ERRORS|NOT FOR")
set(heads "evaluate|tolerance|attributes|inputs|outputs|layout|moments")

foreach(room IN LISTS rooms ITEMS tests)
  sources_of(${room})
  foreach(file IN LISTS files)
    read_text(${root}/${file} text)
    string(REGEX MATCHALL "//[^\n]*" comments "${text}")
    string(REGEX MATCHALL "\n//[^\n]*" heads_of "\n${text}")
    set(before "")
    foreach(line IN LISTS comments)
      if(line MATCHES "[^/ ] +(${labels})(   *[^ ]| tests/)" OR line MATCHES "[^/ ] +TESTED$"
         OR line MATCHES "[^ /] (${heads})    *[^ ]")
        complain("a label in the middle of a line: ${line}")
      endif()
    endforeach()
    foreach(line IN LISTS heads_of)
      string(SUBSTRING "${line}" 1 -1 line)
      string(LENGTH "${before}" length)
      if(length GREATER_EQUAL 90 AND before MATCHES "^//  +[^ ].*[^ ]   *[^ ]" AND line MATCHES "^//  +[^ ]"
         AND NOT line MATCHES "^// +[^ ].*[^ ]   *[^ ]")
        string(REGEX REPLACE "^(// +).*" "\\1" indent_before "${before}")
        string(REGEX REPLACE "^(// +).*" "\\1" indent "${line}")
        if(indent STREQUAL indent_before)
          complain("a table lost its columns: ${line}")
        endif()
      endif()
      set(before "${line}")
    endforeach()
  endforeach()
endforeach()
