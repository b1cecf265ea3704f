# library.cmake: one library from folders under src/, with everything an installed library needs.
set(GYRE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/gyre)

# out = the .c files of folders under src/, each named after an instruction set marked to be compiled for it.
function(gyre_sources out)
    set(sources "")
    foreach(dir IN LISTS ARGN)
        file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${dir}/*.c)
        if(NOT found) # TEMPORARY
            file(WRITE ${PROJECT_BINARY_DIR}/empty_${dir}.c "typedef int empty;\n")
            set(found ${PROJECT_BINARY_DIR}/empty_${dir}.c)
        endif()
        list(APPEND sources ${found})
    endforeach()
    foreach(tier IN LISTS GYRE_TIERS)
        set(of_tier ${sources})
        list(FILTER of_tier INCLUDE REGEX "_${tier}\\.c$")
        set_source_files_properties(${of_tier} PROPERTIES COMPILE_OPTIONS "${GYRE_FLAGS_${tier}}")
    endforeach()
    set(${out} ${sources} PARENT_SCOPE)
endfunction()

# gyre_library(NAME DIRS folders HEADERS public headers NEEDS our libraries SYSTEM others' targets MODULES their pkg-config names)
#
# The objects are a target of their own: the library is made of them, and so are the tests, which look inside where a
# shared library hides its symbols.
function(gyre_library name)
    cmake_parse_arguments(arg "" "" "DIRS;HEADERS;NEEDS;SYSTEM;MODULES" ${ARGN})
    gyre_sources(sources ${arg_DIRS})
    add_library(${name}_objects OBJECT ${sources})
    target_include_directories(${name}_objects PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${name}_objects PRIVATE gyre_flags ${arg_SYSTEM})
    set_target_properties(${name}_objects PROPERTIES C_VISIBILITY_PRESET hidden)
    if(BUILD_SHARED_LIBS)
        set_target_properties(${name}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
    endif()

    add_library(${name} $<TARGET_OBJECTS:${name}_objects>)
    add_library(gyre::${name} ALIAS ${name})
    target_include_directories(${name} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${name} PUBLIC ${arg_NEEDS} PRIVATE ${arg_SYSTEM})
    set_target_properties(${name} PROPERTIES
        LINKER_LANGUAGE C VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
        INSTALL_RPATH "$ORIGIN")

    install(TARGETS ${name} EXPORT ${name}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT ${name} FILE ${name}-targets.cmake NAMESPACE gyre:: DESTINATION ${GYRE_PACKAGE_DIR})
    foreach(header IN LISTS arg_HEADERS)
        install(FILES include/gyre/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gyre)
    endforeach()
    gyre_pkgconfig(${name} "${arg_NEEDS}" "${arg_MODULES}")
endfunction()

# NAME.pc.  A static library hands its dependencies on to whoever links it, a shared one keeps them to itself.
function(gyre_pkgconfig name needs modules)
    set(PC_NAME ${name})
    # From the .pc file itself to the prefix: cmake --install --prefix may choose another than was configured.
    file(RELATIVE_PATH PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
    if(BUILD_SHARED_LIBS)
        set(PC_PRIVATE .private)
    else()
        set(PC_PRIVATE "")
        list(APPEND needs ${modules})
        set(modules "")
    endif()
    list(JOIN needs ", " PC_REQUIRES)
    list(JOIN modules ", " PC_REQUIRES_PRIVATE)
    configure_file(cmake/gyre.pc.in ${name}.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
