# flags.cmake: how every file of Gyre is compiled.  gyre_flags is private: it does not reach users of the libraries.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release)
endif()

add_library(gyre_flags INTERFACE)
# A compiler that may fuse a * b + c gives different bits on every machine.  FMA is used only where it is written.
target_compile_options(gyre_flags INTERFACE
    -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 takes the result of strstr on a returned string for a pointer to the variable that held the string.
    target_compile_options(gyre_flags INTERFACE -Wno-dangling-pointer)
endif()
target_compile_definitions(gyre_flags INTERFACE _POSIX_C_SOURCE=200809L)
if(APPLE) # untested: its headers hide madvise behind _POSIX_C_SOURCE unless this is defined too
    target_compile_definitions(gyre_flags INTERFACE _DARWIN_C_SOURCE)
endif()
if(GYRE_WERROR)
    target_compile_options(gyre_flags INTERFACE -Werror)
endif()
if(GYRE_SANITIZE)
    target_compile_options(gyre_flags INTERFACE
        -fsanitize=${GYRE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${GYRE_SANITIZE})
endif()

# What a compiler and a linker have against faults of memory.  WebAssembly has none of it.  A program's own flags for sources
# that are fortified, such as a distribution's, are kept.
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "wasm32")
    include(CheckCCompilerFlag)
    include(CheckLinkerFlag)
    include(CheckPIESupported)
    set(CMAKE_POSITION_INDEPENDENT_CODE ON) # static libraries too: one may become part of a shared object, Python's
    if(NOT CMAKE_EXE_LINKER_FLAGS MATCHES "-static")
        check_pie_supported(LANGUAGES C)
    endif()
    foreach(flag IN ITEMS -fstack-protector-strong -fcf-protection)
        string(MAKE_C_IDENTIFIER "GYRE_HAVE${flag}" have)
        check_c_compiler_flag(${flag} ${have})
        if(${have})
            target_compile_options(gyre_flags INTERFACE ${flag})
        endif()
    endforeach()
    foreach(flag IN ITEMS relro now noexecstack)
        check_linker_flag(C -Wl,-z,${flag} GYRE_HAVE_LINK_${flag})
        if(GYRE_HAVE_LINK_${flag})
            add_link_options(-Wl,-z,${flag})
        endif()
    endforeach()
    if(NOT GYRE_SANITIZE AND NOT GYRE_FUZZ AND NOT CMAKE_C_FLAGS MATCHES "_FORTIFY_SOURCE") # needs optimisation
        target_compile_options(gyre_flags INTERFACE
            $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE$<SEMICOLON>-D_FORTIFY_SOURCE=2>)
    endif()
endif()
# A search path that an installation would replace ends with an empty element, and that is the current folder: CMake reserves space
# so.  Files therefore have their installed path from the beginning, except where a packager wants none in the end.
# scripts/check-elf reads them.
if(NOT CMAKE_SKIP_INSTALL_RPATH)
    set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
endif()
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# Files named after an instruction set are compiled for it; dispatch.c decides at run time which of them may run.  On other
# processors they are empty.  (NEON is part of AArch64 and needs no flag.)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(GYRE_TIERS avx2 avx512 avx512vnni avx512bf16)
    set(GYRE_FLAGS_avx2 -mavx2 -mfma -mf16c)
    set(GYRE_FLAGS_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c)
    set(GYRE_FLAGS_avx512vnni ${GYRE_FLAGS_avx512} -mavx512vnni)
    set(GYRE_FLAGS_avx512bf16 ${GYRE_FLAGS_avx512} -mavx512bf16)
    set(GYRE_FLAGS_amx ${GYRE_FLAGS_avx512bf16} -mamx-tile -mamx-bf16)
    check_c_compiler_flag("-mamx-tile -mamx-bf16" GYRE_HAVE_AMX) # gcc 11, clang 12; without them the tier is empty
    if(GYRE_HAVE_AMX)
        list(APPEND GYRE_TIERS amx)
    endif()
    if(GYRE_SANITIZE) # saves a minute of compiling: same code as avx512 except for one header
        list(APPEND GYRE_FLAGS_avx512bf16 -fno-sanitize=all)
    endif()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^wasm32$")
    set(GYRE_TIERS wasm)
    set(GYRE_FLAGS_wasm -msimd128)
else()
    set(GYRE_TIERS "")
endif()
# GCC 12 vectorises the scalar tile product so that it reads a row past the last one (PR 107451).
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set(GYRE_FLAGS_scalar -fno-tree-loop-vectorize)
    list(APPEND GYRE_TIERS scalar)
    # Calls instead of inline code for each of the kernels' many loads: the same checks, less than half the compile time.
    if(GYRE_SANITIZE MATCHES "address")
        foreach(tier IN LISTS GYRE_TIERS)
            list(APPEND GYRE_FLAGS_${tier} --param asan-instrumentation-with-call-threshold=50)
        endforeach()
    endif()
endif()
