# explorer.cmake: explorer.wasm, the module that the explorer runs: the libraries, the subcommands that read models, and the
# numbers of the views, in one reactor.  scripts/build-explorer configures it with jansson and PCRE2 built for WebAssembly.
file(GLOB explorer_sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/explorer/wasm/*.c ${PROJECT_SOURCE_DIR}/explorer/wasm/platform/*.c)
file(GLOB explorer_tools CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/report/*.c)
foreach(room IN ITEMS cli common measuring options team explain timeline diff extend eval show)
    file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/${room}/*.c)
    list(APPEND explorer_tools ${found})
endforeach()
gyre_sources(explorer_libraries util core encodings kernels call attention cache trained contextual adaptive files reading tokenizer model eval)
# platform/absent.c has these.
list(FILTER explorer_tools EXCLUDE REGEX "/(cli_lock|cli_signals|temporary_folder|gnuplot|team_mpi)\\.c$")
list(FILTER explorer_libraries EXCLUDE REGEX "/replace_folder\\.c$")

add_executable(explorer ${explorer_sources} ${explorer_tools} ${explorer_libraries})
target_include_directories(explorer PRIVATE
    explorer/wasm/platform/include include src ${PROJECT_SOURCE_DIR} ${GYRE_WASI_PREFIX}/include)
# Every browser since 2021 has the 128-bit instructions.
target_compile_options(explorer PRIVATE -msimd128)
# The page stays below 3.5 MB (tests/explorer/test_explorer_views.py): all but rotation, products, kernels of a browser with
# these instructions and what they share is compiled for size.  Kernels unroll their loops themselves.
set(explorer_small ${explorer_libraries})
list(FILTER explorer_small INCLUDE REGEX "/src/(reading|files|tokenizer|call|cache|trained|contextual|adaptive|encodings|eval|model|attention|util|core/config)/|/src/core/[a-z_]+\\.c")
list(FILTER explorer_small EXCLUDE REGEX "/model/ops/")
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/kernels/tier_wasm.c APPEND PROPERTY COMPILE_OPTIONS -O2)
set_property(SOURCE ${explorer_small} ${explorer_tools}
    ${PROJECT_SOURCE_DIR}/src/kernels/tier_scalar.c ${PROJECT_SOURCE_DIR}/src/kernels/places/place_scalar.c APPEND PROPERTY COMPILE_OPTIONS -Oz)
target_compile_definitions(explorer PRIVATE
    _WASI_EMULATED_MMAN _WASI_EMULATED_SIGNAL _WASI_EMULATED_GETPID _WASI_EMULATED_PROCESS_CLOCKS PCRE2_STATIC GYRE_GGUF_HEADS)
set_source_files_properties(${PROJECT_SOURCE_DIR}/tools/common/bundled_models.c PROPERTIES COMPILE_DEFINITIONS
    "GYRE_MODELS_LINK=\"none\";GYRE_MODELS_FROM_BIN=\"none\"")
target_link_options(explorer PRIVATE -mexec-model=reactor -Wl,--export=_initialize -Wl,--gc-sections -Wl,--strip-all)
target_link_libraries(explorer PRIVATE gyre_flags ${GYRE_WASI_PREFIX}/lib/libjansson.a ${GYRE_WASI_PREFIX}/lib/libpcre2-8.a
    wasi-emulated-mman wasi-emulated-signal wasi-emulated-getpid wasi-emulated-process-clocks m)
