# peers.cmake: bench/products, the matrix products of Gyre beside those of OpenBLAS and oneDNN (bench/README.md).  Nothing
# else uses these libraries.
if(NOT GYRE_MODEL)
    message(FATAL_ERROR "GYRE_BENCH_PEERS needs GYRE_MODEL: its matrix products are what is compared")
endif()
pkg_check_modules(OPENBLAS IMPORTED_TARGET openblas)
find_path(DNNL_INCLUDE_DIR dnnl.h)
find_library(DNNL_LIBRARY dnnl)
if(NOT OPENBLAS_FOUND)
    message(FATAL_ERROR "GYRE_BENCH_PEERS needs OpenBLAS: install libopenblas-dev, or switch GYRE_BENCH_PEERS off")
endif()
if(NOT DNNL_INCLUDE_DIR OR NOT DNNL_LIBRARY)
    message(FATAL_ERROR "GYRE_BENCH_PEERS needs oneDNN: install libdnnl-dev, or switch GYRE_BENCH_PEERS off")
endif()

# The command's objects have the limit of arithmetic.  In an archive, a program's own main takes precedence over theirs.
add_library(gyre_command_inside STATIC $<TARGET_OBJECTS:gyre_command_objects>)
add_executable(bench_products bench/products.c)
set_target_properties(bench_products PROPERTIES OUTPUT_NAME products RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
target_include_directories(bench_products PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${DNNL_INCLUDE_DIR})
target_link_libraries(bench_products PRIVATE
    gyre_flags gyre_command_inside gyre_train PkgConfig::JANSSON PkgConfig::OPENBLAS ${DNNL_LIBRARY} Threads::Threads
    ${GYRE_SLEEF_TARGET} m)
