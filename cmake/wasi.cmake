# wasi.cmake: builds for WebAssembly with a system interface (WASI), by clang and Debian's wasi-libc; node runs it
# (tests/support/run_wasi.mjs).
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang)
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_EXECUTABLE_SUFFIX_C .wasm)
# The stack of 64 KiB that the linker gives holds no tile of attention; below the data, running out of it is a trap.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-z,stack-size=1048576 -Wl,--stack-first")
# What pkg-config finds is for this machine.
set(ENV{PKG_CONFIG_LIBDIR} "/nonexistent")
