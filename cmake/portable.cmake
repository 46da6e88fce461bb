# cmake/portable.cmake: what number/ is in a build for any machine (PLUMB_NATIVE=OFF), next to this build. Products choose
# their instructions there when they run, and have the same bits: the test. `products_anywhere time` and `products_here
# time` say what such a build costs.
get_target_property(sources plumb_number SOURCES)
list(FILTER sources INCLUDE REGEX "\\.cpp$")
add_executable(products_here tests/portable/products.cpp)
target_link_libraries(products_here PRIVATE plumb::number)
add_executable(products_anywhere tests/portable/products.cpp ${sources})
target_compile_features(products_anywhere PRIVATE cxx_std_20)
target_include_directories(products_anywhere PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_options(products_anywhere PRIVATE -ffp-contract=off -fno-fast-math ${loop_flags} -Wno-psabi)
set_target_properties(products_here products_anywhere PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_test(NAME number.ProductsAnywhere COMMAND bash -c
  "cmp <($<TARGET_FILE:products_here>) <($<TARGET_FILE:products_anywhere>)")
set_tests_properties(number.ProductsAnywhere PROPERTIES LABELS number)
