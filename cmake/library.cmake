# library.cmake: makes one library from folders under src/, with everything an installed library needs.
set(GYRE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/gyre)

# out = the given files of src/ and the .c files under its given folders.  Files named after an instruction set get its
# compile flags.
function(gyre_sources out)
    set(sources "")
    foreach(path IN LISTS ARGN)
        if(path MATCHES "\\.c$")
            set(found ${PROJECT_SOURCE_DIR}/src/${path})
        else()
            file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${path}/*.c)
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

# gyre_library(NAME DIRS folders or files HEADERS public headers NEEDS libraries of Gyre
#              SYSTEM other targets MODULES their pkg-config names)
#
# The objects are a target of their own, used by the library and by the tests.  Tests call private functions, which a shared
# library hides.
function(gyre_library name)
    cmake_parse_arguments(arg "" "" "DIRS;HEADERS;NEEDS;SYSTEM;MODULES" ${ARGN})
    gyre_sources(sources ${arg_DIRS})
    add_library(${name}_objects OBJECT ${sources})
    target_include_directories(${name}_objects PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${name}_objects PRIVATE gyre_flags ${arg_SYSTEM})
    if(BUILD_SHARED_LIBS)
        target_compile_options(${name}_objects PRIVATE -fno-semantic-interposition)
    else()
        set_target_properties(${name}_objects PROPERTIES C_VISIBILITY_PRESET hidden)
    endif()

    add_library(${name} $<TARGET_OBJECTS:${name}_objects>)
    add_library(gyre::${name} ALIAS ${name})
    target_include_directories(${name} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${name} PUBLIC ${arg_NEEDS} PRIVATE ${arg_SYSTEM})
    set_target_properties(${name} PROPERTIES
        LINKER_LANGUAGE C VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
    if(arg_NEEDS)
        set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN")
    endif()

    if(BUILD_SHARED_LIBS)
        gyre_symbols(${name} ${arg_HEADERS})
    endif()

    install(TARGETS ${name} EXPORT ${name}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT ${name} FILE ${name}-targets.cmake NAMESPACE gyre:: DESTINATION ${GYRE_PACKAGE_DIR})
    foreach(header IN LISTS arg_HEADERS)
        install(FILES include/gyre/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gyre)
    endforeach()
    gyre_pkgconfig(${name} "${arg_NEEDS}" "${arg_MODULES}")
endfunction()

# Exported symbols of a shared library: the functions of its public headers as GYRE_<version>, and the functions that Gyre's
# libraries call in each other as GYRE_PRIVATE_<version>.  Libraries of different versions then refuse to load together, and a
# program that uses a private function can be recognised.  libgyre_rope has its own nodes, GYRE_ROPE_..., so that it never
# takes the place of libgyre in a process that has both.
function(gyre_symbols name)
    set(public "")
    foreach(header IN LISTS ARGN)
        file(READ include/gyre/${header} text)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS include/gyre/${header})
        string(REGEX MATCHALL "\nGYRE_API [^;(]*[ *]gyre_[a-z0-9_]+\\(" declarations "${text}")
        foreach(declaration IN LISTS declarations)
            string(REGEX REPLACE ".*[ *](gyre_[a-z0-9_]+)\\($" "\\1;" symbol "${declaration}")
            string(APPEND public " ${symbol}")
        endforeach()
    endforeach()
    set(map ${PROJECT_BINARY_DIR}/${name}.map)
    set(version ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
    set(node GYRE)
    if(name STREQUAL "gyre_rope")
        set(node GYRE_ROPE)
    endif()
    file(CONFIGURE OUTPUT ${name}.map @ONLY CONTENT
"${node}_${version} { global:${public} local: *; };\n${node}_PRIVATE_${PROJECT_VERSION} { global: gyre_*; };\n")
    target_link_options(${name} PRIVATE -Wl,-z,defs -Wl,--version-script=${map})
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${map})
endfunction()

# NAME.pc.  A static library passes its dependencies on to the program that links it, a shared one does not.
function(gyre_pkgconfig name needs modules)
    set(PC_NAME ${name})
    # Relative to the .pc file, because cmake --install --prefix may choose another prefix than the configured one.
    file(RELATIVE_PATH PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
    set(system " -lm -pthread")
    if(name STREQUAL "gyre_rope") # no threads
        set(system " -lm")
    endif()
    if(BUILD_SHARED_LIBS)
        set(PC_LIBS "")
        set(PC_LIBS_PRIVATE "${system}")
    else()
        set(PC_LIBS "${system}")
        set(PC_LIBS_PRIVATE "")
        list(APPEND needs ${modules})
        set(modules "")
    endif()
    if(name STREQUAL "gyre" AND modules STREQUAL "" AND GYRE_SLEEF_MODULE AND NOT BUILD_SHARED_LIBS)
        set(PC_NOTE "# A program linked with -static needs libsleef.a, which some distributions lack (Debian's libsleef-dev does).\n\
# A libgyre built with -DGYRE_SLEEF=OFF, and libgyre_rope, need the C library alone.\n")
    else()
        set(PC_NOTE "")
    endif()
    list(JOIN needs ", " PC_REQUIRES)
    list(JOIN modules ", " PC_REQUIRES_PRIVATE)
    configure_file(cmake/gyre.pc.in ${name}.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
