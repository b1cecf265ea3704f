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

# Checks of addresses inline, or those of UndefinedBehaviorSanitizer, would take clang minutes for each of the vector kernels.
# With calls in place of inline checks, and AddressSanitizer alone, they take twenty seconds.
file(GLOB kernels ${PROJECT_SOURCE_DIR}/src/kernels/tier_avx*.c ${PROJECT_SOURCE_DIR}/src/kernels/tier_neon.c
    ${PROJECT_SOURCE_DIR}/src/kernels/vnni/*.c
    ${PROJECT_SOURCE_DIR}/src/kernels/places/place_avx*.c ${PROJECT_SOURCE_DIR}/src/kernels/places/place_neon.c)
set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS
    -fno-sanitize=undefined -mllvm -asan-instrumentation-with-call-threshold=0
    -fno-profile-instr-generate -fno-coverage-mapping) # coverage is measured on the scalar tier
# The scalar kernels would take as long with UndefinedBehaviorSanitizer.  With AddressSanitizer alone they take five seconds.
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/kernels/tier_scalar.c ${PROJECT_SOURCE_DIR}/src/kernels/places/place_scalar.c
    APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined)

set(GYRE_FUZZ_ENGINE -fsanitize=fuzzer CACHE STRING "What links the engine: libFuzzer here; OSS-Fuzz names its own")

# One target: NAME.c, what it shares with others (fuzz/support), and what it links.
function(gyre_fuzz name)
    cmake_parse_arguments(arg "" "" "WITH;LINKS" ${ARGN})
    list(TRANSFORM arg_WITH PREPEND fuzz/support/)
    add_executable(${name} fuzz/${name}.c fuzz/support/fuzz_support.c ${arg_WITH})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR} fuzz/support tests/support)
    target_link_libraries(${name} PRIVATE gyre_flags ${arg_LINKS})
    target_link_options(${name} PRIVATE ${GYRE_FUZZ_ENGINE})
    set_property(GLOBAL APPEND PROPERTY GYRE_FUZZ_TARGETS ${name})
endfunction()

# Files.
gyre_fuzz(fuzz_config WITH fuzz_reading.c fuzz_reading_laws.c LINKS gyre_model m)
gyre_fuzz(fuzz_gguf WITH fuzz_reading.c fuzz_reading_laws.c LINKS gyre_model m)
gyre_fuzz(fuzz_safetensors WITH fuzz_tensor_store.c LINKS gyre_model)
gyre_fuzz(fuzz_angle_tables LINKS gyre_model m)
gyre_fuzz(fuzz_gguf_tensors WITH fuzz_tensor_store.c LINKS gyre_model)
gyre_fuzz(fuzz_tokenizer LINKS gyre_model)
gyre_fuzz(fuzz_cache LINKS gyre)
gyre_fuzz(fuzz_text LINKS gyre_model)
target_compile_definitions(fuzz_text PRIVATE GYRE_FUZZ_CORPUS="${PROJECT_SOURCE_DIR}/fuzz/corpus")
gyre_fuzz(fuzz_edit WITH fuzz_reading_laws.c LINKS gyre_model m)
gyre_fuzz(fuzz_network_files WITH fuzz_family.c fuzz_family_decoder.c fuzz_family_files.c fuzz_model_laws.c fuzz_own_files.c
          ../../tests/support/numbers.c LINKS gyre_model m)
gyre_fuzz(fuzz_vocabulary WITH fuzz_words.c fuzz_words_files.c fuzz_model_laws.c LINKS gyre_model m)
gyre_fuzz(fuzz_retrieval LINKS gyre_model)
if(GYRE_COMMAND)
    gyre_fuzz(fuzz_checkpoint LINKS gyre_train)
endif()

# Subcommands, and values of options.  An archive, so that the command's own main stays out.
if(GYRE_COMMAND)
    target_compile_definitions(gyre_command_objects PRIVATE FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION) # looks at fewer positions
    add_library(fuzz_command_objects STATIC $<TARGET_OBJECTS:gyre_command_objects>)
    foreach(name IN ITEMS fuzz_commands fuzz_arguments fuzz_lab)
        gyre_fuzz(${name} WITH fuzz_exit.c fuzz_gnuplot.c
                  LINKS fuzz_command_objects gyre_train PkgConfig::JANSSON Threads::Threads ${GYRE_SLEEF_TARGET} m)
        target_link_options(${name} PRIVATE -Wl,--wrap=exit -Wl,--wrap=gyre_report_gnuplot
                            -Wl,--wrap=gyre_report_script_draw)
    endforeach()
endif()

# The C interface against its definitions.
set(definitions fuzz_cached.c fuzz_views.c ../../tests/support/numbers.c)
list(APPEND with_schemes ${definitions} fuzz_positions.c fuzz_tables.c ../../tests/support/naive_schemes.c)
foreach(name IN ITEMS fuzz_attention fuzz_distances)
    gyre_fuzz(${name} WITH ${with_schemes} fuzz_attention_call.c fuzz_attention_check.c fuzz_attention_packed.c
              fuzz_frequencies.c fuzz_phases.c
              fuzz_pair_rotation.c LINKS gyre m)
endforeach()
gyre_fuzz(fuzz_adaptive WITH ${with_schemes} fuzz_adaptive_call.c fuzz_network.c LINKS gyre m)
gyre_fuzz(fuzz_batch WITH ../../tests/support/numbers.c LINKS gyre m)
gyre_fuzz(fuzz_ragged WITH ../../tests/support/numbers.c LINKS gyre m)
gyre_fuzz(fuzz_input WITH fuzz_views.c ../../tests/support/numbers.c LINKS gyre m)
gyre_fuzz(fuzz_angles WITH fuzz_frequencies.c fuzz_views.c ../../tests/support/numbers.c LINKS gyre m)
foreach(name IN ITEMS fuzz_rotate fuzz_cache_calls)
    gyre_fuzz(${name} WITH ${with_schemes} LINKS gyre m)
endforeach()
foreach(name IN ITEMS fuzz_contextual fuzz_trained)
    gyre_fuzz(${name} WITH ${definitions} LINKS gyre m)
endforeach()
# The fuzzer follows the branches of the library, not the loops of the definitions, whose counters took half of the time.
foreach(file IN ITEMS adaptive adaptive_call angles attention attention_call attention_check attention_packed batch cache_calls cached contextual distances
                      family_decoder frequencies input network phases positions ragged rotate tables trained turns views)
    file(GLOB source ${PROJECT_SOURCE_DIR}/fuzz/fuzz_${file}.c ${PROJECT_SOURCE_DIR}/fuzz/support/fuzz_${file}.c)
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=fuzzer-no-link -fno-sanitize=fuzzer)
endforeach()
set_property(SOURCE tests/support/naive_schemes.c tests/support/numbers.c APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=fuzzer-no-link -fno-sanitize=fuzzer)
# Every call, with what it is given spoiled.
gyre_fuzz(fuzz_extents LINKS gyre m)
# Messages of other ranks.
gyre_fuzz(fuzz_ring WITH ../../tests/support/numbers.c LINKS gyre m)

get_property(targets GLOBAL PROPERTY GYRE_FUZZ_TARGETS)
add_custom_target(fuzz_targets DEPENDS ${targets})
