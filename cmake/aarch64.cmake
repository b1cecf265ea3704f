# aarch64.cmake: toolchain file for 64-bit ARM with Debian's cross compiler; programs run under qemu.
#   cmake --toolchain cmake/aarch64.cmake -DGYRE_ARM64_ROOT=DIR
# scripts/arm64-root DIR puts the ARM libraries of the tests there: cmocka, jansson, libyaml, PCRE2.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;/usr/aarch64-linux-gnu)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GYRE_ARM64_ROOT)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu ${GYRE_ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# pkg-config must not find this machine's libraries, and must not drop -I for a folder that is a system folder only here.
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${GYRE_ARM64_ROOT}")
set(ENV{PKG_CONFIG_LIBDIR} "${GYRE_ARM64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig")
