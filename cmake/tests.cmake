# tests.cmake: every tests/test_*.c is one cmocka program, run by ctest under its own name.
if(NOT GYRE_MODEL)
    message(FATAL_ERROR "GYRE_TESTS needs GYRE_MODEL: the tests cover the whole of Gyre")
endif()
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

# All objects in one archive: tests look inside, also where the libraries are shared.  A test's own main goes before that of
# the command.
add_library(gyre_inside STATIC $<TARGET_OBJECTS:gyre_objects> $<TARGET_OBJECTS:gyre_model_objects>
            $<TARGET_OBJECTS:gyre_train_objects> $<TARGET_OBJECTS:gyre_report_objects>
            $<TARGET_OBJECTS:gyre_command_objects> tests/support.c)
target_include_directories(gyre_inside PUBLIC include src tools tests)
target_compile_definitions(gyre_inside PUBLIC
    GYRE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests" GYRE_COMMAND="$<TARGET_FILE:gyre_command>")
target_link_libraries(gyre_inside
    PUBLIC PkgConfig::CMOCKA PkgConfig::OPENBLAS PkgConfig::JANSSON Threads::Threads ${GYRE_SLEEF_TARGET} m PRIVATE gyre_flags)

file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/test_*.c)
foreach(test IN LISTS tests)
    get_filename_component(name ${test} NAME_WE)
    add_executable(${name} ${test})
    target_link_libraries(${name} PRIVATE gyre_flags gyre_inside)
    add_dependencies(${name} gyre_command)
    add_test(NAME ${name} COMMAND ${name})
    # Generous: it ends a test that hangs, it does not measure one.
    set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endforeach()
