# What the test programs share: they see the library's inside, and support/.
# SPDX-License-Identifier: Apache-2.0
# cmocka 2 deprecates assert_in_range(), in whose place cmocka 1 has nothing.
target_compile_definitions(PkgConfig::CMOCKA INTERFACE CMOCKA_DISABLE_DEPRECATION_WARNINGS)
file(GLOB support_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.c)
add_library(test_support OBJECT ${support_sources})
target_link_libraries(test_support PUBLIC PkgConfig::CMOCKA)
target_include_directories(test_support PUBLIC ${PROJECT_SOURCE_DIR}/tests
    $<TARGET_PROPERTY:holdfast_objects,INTERFACE_INCLUDE_DIRECTORIES>)
function(test_program name)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE test_support holdfast_objects PkgConfig::CMOCKA)
endfunction()
