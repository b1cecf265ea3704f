# fuzz.cmake: libFuzzer programs, one for each fuzz/fuzz_*.c with an entry point.  All of Gyre is instrumented.
# fuzz/fuzzing.md says how to run them.
if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "GYRE_FUZZ needs clang: libFuzzer is a part of it")
endif()
if(NOT GYRE_MODEL)
    message(FATAL_ERROR "GYRE_FUZZ needs GYRE_MODEL: its readers are what is fuzzed")
endif()
# Instrumented loops are not vectorised although a pragma in the kernels asks for it; that is no defect here.
target_compile_options(gyre_flags INTERFACE -fsanitize=fuzzer-no-link -Wno-pass-failed)

# With sanitizers, clang takes more than six minutes for each of the vector kernels, so those are left uninstrumented.
# ci/fuzz runs the scalar kernels, which are instrumented.
file(GLOB kernels ${PROJECT_SOURCE_DIR}/src/kernels/tier_avx*.c ${PROJECT_SOURCE_DIR}/src/kernels/tier_neon.c)
set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all -fno-sanitize=fuzzer-no-link)
# The scalar kernels would take as long with UndefinedBehaviorSanitizer.  With AddressSanitizer alone they take five seconds.
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/kernels/tier_scalar.c APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined)

foreach(name fuzz_config fuzz_gguf)
    add_executable(${name} fuzz/${name}.c fuzz/fuzz_reading.c)
    target_link_libraries(${name} PRIVATE gyre_flags gyre_model)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()
foreach(name fuzz_safetensors fuzz_gguf_tensors)
    add_executable(${name} fuzz/${name}.c fuzz/fuzz_tensor_store.c)
    target_include_directories(${name} PRIVATE src)
    target_link_libraries(${name} PRIVATE gyre_flags gyre_model)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()
add_executable(fuzz_cache fuzz/fuzz_cache.c)
target_link_libraries(fuzz_cache PRIVATE gyre_flags gyre)
target_link_options(fuzz_cache PRIVATE -fsanitize=fuzzer)

# Uses the tokenizer by its private header: every text must come back unchanged.
add_executable(fuzz_tokenizer fuzz/fuzz_tokenizer.c)
target_include_directories(fuzz_tokenizer PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(fuzz_tokenizer PRIVATE gyre_flags gyre_model)
target_link_options(fuzz_tokenizer PRIVATE -fsanitize=fuzzer)
