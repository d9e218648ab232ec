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

# What several of them are linked with, compiled once.
function(test_part name)
    add_library(${name} OBJECT ${ARGN})
    target_include_directories(${name}
        PRIVATE $<TARGET_PROPERTY:test_support,INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_libraries(${name} PRIVATE PkgConfig::CMOCKA PkgConfig::MONGOC)
endfunction()
