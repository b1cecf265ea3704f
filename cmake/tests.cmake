# tests.cmake: every tests/*/test_*.c is one cmocka program, which ctest runs under its own name.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "wasm32")
    # There is no cmocka for WebAssembly: one plain program, run by node.
    add_executable(wasm_kernels tests/support/wasm_kernels.c tests/support/numbers.c $<TARGET_OBJECTS:gyre_objects>)
    target_include_directories(wasm_kernels PRIVATE include src tests/support)
    target_link_libraries(wasm_kernels PRIVATE gyre_flags m)
    add_test(NAME wasm_kernels
             COMMAND node --no-warnings ${PROJECT_SOURCE_DIR}/tests/support/run_wasi.mjs $<TARGET_FILE:wasm_kernels>)
    return()
endif()

find_package(PkgConfig REQUIRED)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

# All objects in one archive, because tests call private functions even if the libraries are shared.  A test's own main takes
# precedence over the command's.
add_library(gyre_inside STATIC $<TARGET_OBJECTS:gyre_objects> tests/support/naive_schemes.c tests/support/numbers.c
    tests/support/support.c)
target_include_directories(gyre_inside PUBLIC include src . tests/support)
target_compile_definitions(gyre_inside PUBLIC GYRE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(gyre_inside
    PUBLIC PkgConfig::CMOCKA PkgConfig::JANSSON Threads::Threads ${GYRE_SLEEF_TARGET} m PRIVATE gyre_flags)
if(GYRE_MODEL)
    target_sources(gyre_inside PRIVATE
        $<TARGET_OBJECTS:gyre_reading_objects> $<TARGET_OBJECTS:gyre_model_objects> $<TARGET_OBJECTS:gyre_train_objects>
        tests/support/make_synthetic_model.c)
    target_link_libraries(gyre_inside PUBLIC PkgConfig::PCRE2 ${GYRE_YAML_TARGET})
    if(GYRE_YAML_TARGET)
        target_compile_definitions(gyre_inside PUBLIC GYRE_HAVE_YAML)
    endif()
endif()
if(GYRE_COMMAND)
    target_sources(gyre_inside PRIVATE $<TARGET_OBJECTS:gyre_command_objects>)
    if(GYRE_MPI)
        target_link_libraries(gyre_inside PUBLIC MPI::MPI_C)
        target_compile_definitions(gyre_inside PUBLIC GYRE_HAVE_MPI)
    endif()
    target_compile_definitions(gyre_inside PUBLIC GYRE_COMMAND="$<TARGET_FILE:gyre_command>"
        GYRE_BUNDLED_MODELS="${PROJECT_SOURCE_DIR}/models")
endif()

# Makes calls of the command fail (tests/tools/test_failures.c): needs glibc's names of its allocator, and a malloc that is
# not a sanitizer's.
set(GYRE_TEST_FAILURES OFF)
if(GYRE_COMMAND AND CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT GYRE_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    include(CheckSymbolExists)
    check_symbol_exists(__GLIBC__ "features.h" GYRE_HAVE_GLIBC)
    if(GYRE_HAVE_GLIBC)
        set(GYRE_TEST_FAILURES ON)
        add_library(fail_calls MODULE tests/support/fail_calls.c)
        target_link_libraries(fail_calls PRIVATE ${CMAKE_DL_LIBS})
        target_compile_definitions(gyre_inside PUBLIC GYRE_FAIL_CALLS="$<TARGET_FILE:fail_calls>")
    endif()
endif()

# Tells ci/run tiers what to run.
add_executable(list_tiers tests/support/list_tiers.c)
target_link_libraries(list_tiers PRIVATE gyre_flags gyre_inside)

# out = what a test includes, directly or through a header in tests/support: core, model or command.
function(gyre_part_of_test out file)
    set(part core)
    file(STRINGS ${file} includes REGEX "^#include \"")
    foreach(include IN LISTS includes)
        string(REGEX REPLACE ".*\"(.*)\".*" "\\1" path "${include}")
        set(of_include core)
        if(path MATCHES "^(report/|tools/)|^run_command")
            set(of_include command)
        elseif(path MATCHES "^(gyre/gyre_(angles|reading|model|train)|files/|reading/|tokenizer/|model/|eval/|convert/|train/)")
            set(of_include model)
        elseif(EXISTS ${PROJECT_SOURCE_DIR}/tests/support/${path})
            gyre_part_of_test(of_include ${PROJECT_SOURCE_DIR}/tests/support/${path})
        endif()
        if(of_include STREQUAL "command" OR part STREQUAL "core")
            set(part ${of_include})
        endif()
    endforeach()
    set(${out} ${part} PARENT_SCOPE)
endfunction()

# GCC 12 for AArch64 stops with an internal error at a sum in a test (vect_transform_reduction).
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    add_compile_options(-fno-tree-loop-vectorize)
endif()

# Only the tests of what is built.  The target tests_core builds those of the core; ctest -L core runs them.
add_custom_target(tests_core)
set(optimised $<CONFIG:Release>)
if(GYRE_SANITIZE)
    set(optimised 1)
endif()
file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/test_*.c)
foreach(test IN LISTS tests)
    get_filename_component(name ${test} NAME_WE)
    gyre_part_of_test(part ${test})
    if((part STREQUAL "model" AND NOT GYRE_MODEL) OR (part STREQUAL "command" AND NOT GYRE_COMMAND))
        continue()
    endif()
    if(name STREQUAL "test_failures" AND NOT GYRE_TEST_FAILURES)
        continue()
    endif()
    add_executable(${name} ${test})
    target_link_libraries(${name} PRIVATE gyre_flags gyre_inside)
    # Tests wait for the code under test, which keeps -O3.  Their own code at -O1 compiles in less than half the time.  That
    # of the command computes little: at -O0 it takes a fifth.  Options of a source come after those of its target.
    set_source_files_properties(${test} PROPERTIES COMPILE_OPTIONS $<${optimised}:-O1>)
    if(part STREQUAL "command")
        set_source_files_properties(${test} PROPERTIES COMPILE_OPTIONS
            "$<${optimised}:-O0>;$<$<CONFIG:Release>:-U_FORTIFY_SOURCE>") # which needs optimisation
    endif()
    if(GYRE_COMMAND)
        add_dependencies(${name} gyre_command)
    endif()
    if(name MATCHES "^test_(failures|guard_models)$" AND TARGET fail_calls)
        add_dependencies(${name} fail_calls)
    endif()
    if(name STREQUAL "test_two_writers") # another run comes between two calls
        target_link_options(${name} PRIVATE -Wl,--wrap=rename)
    endif()
    if(name STREQUAL "test_frequencies") # counts powers
        target_link_options(${name} PRIVATE -Wl,--wrap=powl)
    endif()
    if(part STREQUAL "core")
        add_dependencies(tests_core ${name})
    endif()
    add_test(NAME ${name} COMMAND ${name})
    # Generous: the limit ends a test that hangs and does not measure speed.  Labels: the part, and the folder.
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${test})
    get_filename_component(folder ${folder} DIRECTORY)
    set(seconds 600)
    if(CMAKE_CROSSCOMPILING) # an emulator runs it
        set(seconds 1800)
    endif()
    set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds} LABELS "${part};${folder}")
endforeach()

# Where programs and libraries look for others, and how they are linked.
find_program(GYRE_READELF readelf)
if(GYRE_READELF AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
    add_test(NAME check_elf COMMAND ${PROJECT_SOURCE_DIR}/scripts/check-elf ${PROJECT_BINARY_DIR})
    set_tests_properties(check_elf PROPERTIES TIMEOUT 600 LABELS command)
endif()

# The longest first, so that no core waits for one of them in the end.  Where tests ran before, ctest goes by their seconds.
set(cost 100)
foreach(name IN ITEMS test_failures test_lab test_accuracy_bounds test_train test_accuracy)
    if(TEST ${name})
        set_tests_properties(${name} PROPERTIES COST ${cost})
    endif()
    math(EXPR cost "${cost} - 1")
endforeach()

# What the tests of the explorer compare with (tests/explorer/README.md); ci/run explorer builds it.
if(GYRE_COMMAND)
    add_executable(native_numbers EXCLUDE_FROM_ALL tests/explorer/native_numbers.c)
    target_link_libraries(native_numbers PRIVATE gyre_flags gyre_inside)
    add_dependencies(native_numbers gyre_command)
endif()

# The ring over MPI, on more ranks than processors if need be.
if(GYRE_MPI)
    foreach(program IN ITEMS ring_over_mpi ring_trouble torn_message)
        add_executable(${program} tests/mpi/${program}.c $<TARGET_OBJECTS:gyre_mpi_objects>)
        target_link_libraries(${program} PRIVATE gyre_flags gyre_inside MPI::MPI_C)
    endforeach()
    add_executable(ring_speed bench/ring_speed.c $<TARGET_OBJECTS:gyre_mpi_objects>)
    target_link_libraries(ring_speed PRIVATE gyre_flags gyre_inside MPI::MPI_C)
    foreach(ranks IN ITEMS 1 2 3 4 7)
        add_test(NAME ring_over_mpi_${ranks}
                 COMMAND ${PROJECT_SOURCE_DIR}/tests/mpi/run_ranks ${MPIEXEC_EXECUTABLE} ${ranks} $<TARGET_FILE:ring_over_mpi>)
        set_tests_properties(ring_over_mpi_${ranks} PROPERTIES TIMEOUT 600 LABELS "core;mpi")
    endforeach()
endif()

# Subcommands whose work several processes share.
if(GYRE_MPI AND GYRE_COMMAND)
    foreach(case IN ITEMS eval passkey search temperature train lab task killed stopped interrupt different)
        add_test(NAME shared_${case}
                 COMMAND ${PROJECT_SOURCE_DIR}/tests/mpi/shared_commands ${MPIEXEC_EXECUTABLE} $<TARGET_FILE:gyre_command> ${case})
        set_tests_properties(shared_${case} PROPERTIES TIMEOUT 900 LABELS "command;mpi" SKIP_RETURN_CODE 77)
    endforeach()
endif()
