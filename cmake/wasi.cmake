# wasi.cmake: toolchain file for WebAssembly with a system interface (WASI), with clang and Debian's wasi-libc; node runs the
# programs (tests/support/run_wasi.mjs).
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang)
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_EXECUTABLE_SUFFIX_C .wasm)
# The linker's default stack of 64 KiB is too small for a tile of attention.  The stack is placed below the data, so an
# overflow is a trap.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-z,stack-size=1048576 -Wl,--stack-first")
# pkg-config would find libraries of this machine.
set(ENV{PKG_CONFIG_LIBDIR} "/nonexistent")
