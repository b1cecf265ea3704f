#!/bin/bash -eu
# Builds every target with the flags of OSS-Fuzz ($CC, $CFLAGS, $LIB_FUZZING_ENGINE) and puts it into $OUT with its corpus and
# its words.
cmake -S . -B build/oss-fuzz -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1 -DBUILD_SHARED_LIBS=OFF \
    -DGYRE_FUZZ=ON -DGYRE_TESTS=OFF -DGYRE_SLEEF=OFF -DGYRE_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" \
    -DCMAKE_BUILD_RPATH='$ORIGIN/lib'
cmake --build build/oss-fuzz --target fuzz_targets
scripts/fuzz-dictionary build/oss-fuzz
mkdir -p "$OUT/lib" "$OUT/corpus"
cp -r fuzz/corpus/tokenizer "$OUT/corpus/"
for target in build/oss-fuzz/fuzz_*; do
    [ -x "$target" ] && [ -f "$target" ] || continue
    name=$(basename "$target") corpus=fuzz/corpus/${target##*/fuzz_}
    cp "$target" "$OUT/"
    (cd "$corpus" && zip -q -r "$OUT/${name}_seed_corpus.zip" .)
    printf '[libfuzzer]\nclose_fd_mask = 3\n' >"$OUT/$name.options"
    for words in "fuzz/${name#fuzz_}.dict" "build/oss-fuzz/${name#fuzz_}.dict" "build/oss-fuzz/$(basename "${corpus%_*}").dict"; do
        [ ! -f "$words" ] || cp "$words" "$OUT/$name.dict"
    done
    case $name in fuzz_edit | fuzz_commands) cp build/oss-fuzz/config.dict "$OUT/$name.dict" ;; esac
    # The machine that runs the targets has not these libraries.
    ldd "$target" | sed -n 's/.*=> \(.*\(jansson\|pcre2\|yaml\)[^ ]*\) .*/\1/p' | xargs -r cp -t "$OUT/lib"
done
