# rope.cmake: libgyre_rope, the rotation alone: no SLEEF, no threads, a tenth of libgyre's code.  It defines functions that
# libgyre defines too: a program links one of the two.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/rope.files)
file(STRINGS src/rope.files rope_sources REGEX "^[^#]")
gyre_library(gyre_rope DIRS ${rope_sources} HEADERS gyre.h gyre_types.h gyre_fields.h gyre_attention.h gyre_cache.h SYSTEM m)
target_compile_definitions(gyre_rope_objects PRIVATE GYRE_ROPE_ALONE)
# For size.  The vector kernels would be three times slower: -O2 comes behind -Os in their flags.
target_compile_options(gyre_rope_objects PRIVATE $<$<CONFIG:Release>:-Os> -ffunction-sections -fdata-sections)
foreach(tier IN ITEMS avx2 neon wasm)
    set_property(SOURCE src/kernels/places/place_${tier}.c APPEND PROPERTY COMPILE_OPTIONS
        $<$<AND:$<CONFIG:Release>,$<STREQUAL:$<TARGET_PROPERTY:NAME>,gyre_rope_objects>>:-O2>)
endforeach()
