# python.cmake: the extension gyre._gyre, and what a wheel holds beside it: the gyre command.  pyproject.toml builds it so.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
file(GLOB_RECURSE python_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/src/*.c)
add_library(gyre_python MODULE ${python_sources})
target_include_directories(gyre_python SYSTEM PRIVATE ${Python_INCLUDE_DIRS})
# The C interface of XLA's custom calls comes with jaxlib.  Without it, gyre.jax calls back into Python.
set(GYRE_XLA_INCLUDE "" CACHE PATH "Folder that holds xla/ffi/api/c_api.h, as jax.ffi.include_dir() tells it; empty = ask Python")
if(NOT GYRE_XLA_INCLUDE)
    execute_process(COMMAND ${Python_EXECUTABLE} -c "import jax.ffi; print(jax.ffi.include_dir())"
        OUTPUT_VARIABLE python_xla_include OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
else()
    set(python_xla_include ${GYRE_XLA_INCLUDE})
endif()
if(python_xla_include AND EXISTS ${python_xla_include}/xla/ffi/api/c_api.h)
    target_include_directories(gyre_python SYSTEM PRIVATE ${python_xla_include})
    target_compile_definitions(gyre_python PRIVATE GYRE_HAVE_XLA)
elseif(GYRE_XLA_INCLUDE)
    message(FATAL_ERROR "GYRE_XLA_INCLUDE: no xla/ffi/api/c_api.h in ${GYRE_XLA_INCLUDE}")
endif()
target_include_directories(gyre_python PRIVATE ${PROJECT_SOURCE_DIR}/python/src)
# Slots of types hold functions as void *, which ISO C leaves open and POSIX allows.
set_source_files_properties(${python_sources} PROPERTIES COMPILE_OPTIONS -Wno-pedantic)
target_link_libraries(gyre_python PRIVATE gyre_flags gyre_model)
set_target_properties(gyre_python PROPERTIES
    LINKER_LANGUAGE C PREFIX "" OUTPUT_NAME _gyre C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/gyre) # scripts/test-python puts the modules beside it
if(BUILD_SHARED_LIBS) # which are in the build tree only: no wheel holds them
    set_target_properties(gyre_python PROPERTIES INSTALL_RPATH "$ORIGIN/../..")
endif()
# One extension serves CPython 3.11 and later.  A free-threaded CPython has no stable ABI and gets one of its own.
execute_process(COMMAND ${Python_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
    OUTPUT_VARIABLE python_free_threaded OUTPUT_STRIP_TRAILING_WHITESPACE)
if(python_free_threaded STREQUAL "1")
    set_target_properties(gyre_python PROPERTIES SUFFIX ".${Python_SOABI}.so")
else()
    target_compile_definitions(gyre_python PRIVATE Py_LIMITED_API=0x030B0000)
    set_target_properties(gyre_python PROPERTIES SUFFIX ".abi3.so")
endif()
install(TARGETS gyre_python LIBRARY DESTINATION gyre COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS gyre_command RUNTIME DESTINATION gyre/bin COMPONENT python EXCLUDE_FROM_ALL)
# Where the command looks, as seen from its folder.  Without those that only `gyre lab` reads: they are 16 MB.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/ DESTINATION gyre/share/gyre/models COMPONENT python EXCLUDE_FROM_ALL
        PATTERN "rope-tuned-*" EXCLUDE)
install(FILES ${GYRE_EXPLORER_PAGE} DESTINATION gyre/share/gyre COMPONENT python RENAME explorer.html
        EXCLUDE_FROM_ALL OPTIONAL)
