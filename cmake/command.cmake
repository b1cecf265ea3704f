# command.cmake: the gyre command.  It sees the public headers, src/util and src/report/report.h, and gyre bench products the
# matrix products of src/model/ops.  src/report is compiled into it.
file(GLOB_RECURSE command_sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/tools/*.c ${PROJECT_SOURCE_DIR}/src/report/*.c)
# Processes that mpirun starts share the work of a subcommand: tools/team.
if(NOT GYRE_MPI)
    list(FILTER command_sources EXCLUDE REGEX "/team_mpi\\.c$")
endif()
# The Python package measures no machine, and leaves out the subcommand that takes longest to compile.
if(NOT GYRE_BENCH)
    list(FILTER command_sources EXCLUDE REGEX "/tools/bench/")
endif()
add_library(gyre_command_objects OBJECT ${command_sources})
if(GYRE_BENCH)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/tools/gyre_main.c PROPERTIES COMPILE_DEFINITIONS GYRE_HAVE_BENCH)
endif()
if(GYRE_MPI)
    target_compile_definitions(gyre_command_objects PRIVATE GYRE_HAVE_MPI)
    target_link_libraries(gyre_command_objects PRIVATE MPI::MPI_C)
endif()
target_include_directories(gyre_command_objects PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(gyre_command_objects PRIVATE gyre_flags gyre_train PkgConfig::JANSSON)
# The command waits for the libraries, which keep -O3, as do the loops that gyre bench measures a processor by.  At -O1 the
# rest compiles in two thirds of the time.
set(command_without_bench ${command_sources})
list(FILTER command_without_bench EXCLUDE REGEX "/tools/bench/")
set_property(SOURCE ${command_without_bench} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
# A plain loop may fuse products and sums: it is what the library is measured against.
set_property(SOURCE ${PROJECT_SOURCE_DIR}/tools/bench/small/bench_plain_loop.c APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=fast
    $<$<CONFIG:Release>:-O3>)
# Where the bundled checkpoints are: of an installed command in share/ as seen from its own folder, of one that was only built
# in the source tree, behind a link beside it, which is not installed.  The command itself names neither its prefix nor its
# sources, so a new prefix compiles nothing again.
set(GYRE_MODELS_LINK bundled-models)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/models ${PROJECT_BINARY_DIR}/${GYRE_MODELS_LINK} SYMBOLIC)
file(RELATIVE_PATH models_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR}/gyre/models)
set_source_files_properties(${PROJECT_SOURCE_DIR}/tools/common/bundled_models.c PROPERTIES COMPILE_DEFINITIONS
    "GYRE_MODELS_LINK=\"${GYRE_MODELS_LINK}\";GYRE_MODELS_FROM_BIN=\"${models_from_bin}\"")

add_executable(gyre_command $<TARGET_OBJECTS:gyre_command_objects>)
target_link_libraries(gyre_command PRIVATE gyre_train PkgConfig::JANSSON Threads::Threads ${GYRE_SLEEF_TARGET} m
    $<$<BOOL:${GYRE_MPI}>:MPI::MPI_C>)
set_target_properties(gyre_command PROPERTIES
    LINKER_LANGUAGE C OUTPUT_NAME gyre RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
if(BUILD_SHARED_LIBS) # in the build tree the libraries lie beside it
    set_target_properties(gyre_command PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN")
endif()
install(TARGETS gyre_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The page of gyre explore, where make explorer built it or another page is named.
set(GYRE_EXPLORER_PAGE ${PROJECT_SOURCE_DIR}/build/explorer/explorer.html CACHE FILEPATH "explorer.html, which is installed if it is there")
install(FILES ${GYRE_EXPLORER_PAGE} DESTINATION ${CMAKE_INSTALL_DATADIR}/gyre RENAME explorer.html OPTIONAL)
install(DIRECTORY models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/gyre/models)
include(cmake/manual.cmake)
