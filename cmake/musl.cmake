# musl.cmake: toolchain file for static programs with the musl C library, through Debian's musl-gcc.  They run here.
#   cmake --toolchain cmake/musl.cmake -DGYRE_MUSL_ROOT=DIR
# scripts/musl-root DIR builds the libraries of the tests there: cmocka, jansson, PCRE2.
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GYRE_MUSL_ROOT)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
# Neither headers nor libraries of this machine's glibc.
set(CMAKE_FIND_ROOT_PATH ${GYRE_MUSL_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} "${GYRE_MUSL_ROOT}/lib/pkgconfig")
