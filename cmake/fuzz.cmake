# fuzz.cmake: libFuzzer programs, one for each fuzz/fuzz_*.c that has an entry, with everything of ours instrumented.
# fuzz/fuzzing.md says how to run them.
if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "GYRE_FUZZ needs clang: libFuzzer is a part of it")
endif()
if(NOT GYRE_MODEL)
    message(FATAL_ERROR "GYRE_FUZZ needs GYRE_MODEL: what is fuzzed are its readers")
endif()
# An instrumented loop is not vectorised, which a pragma of the kernels asks for: no defect here.
target_compile_options(gyre_flags INTERFACE -fsanitize=fuzzer-no-link -Wno-pass-failed)

# Clang takes more than six minutes for each of the vector kernels where sanitizers look into them.  ci/fuzz runs the scalar
# ones, which they do look into.
file(GLOB kernels ${PROJECT_SOURCE_DIR}/src/kernels/tier_avx*.c ${PROJECT_SOURCE_DIR}/src/kernels/tier_neon.c)
set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all -fno-sanitize=fuzzer-no-link)
# And for the scalar ones, with what looks for undefined behaviour; with what looks at addresses, five seconds.
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

# What reads tokenizers is inside: no text that comes of it may fail to come back.
add_executable(fuzz_tokenizer fuzz/fuzz_tokenizer.c)
target_include_directories(fuzz_tokenizer PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(fuzz_tokenizer PRIVATE gyre_flags gyre_model)
target_link_options(fuzz_tokenizer PRIVATE -fsanitize=fuzzer)
