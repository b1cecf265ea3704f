/* check_tokenizer.h: expected ids of a text, and tokenizer files made in memory. */
#ifndef GYRE_TESTS_CHECK_TOKENIZER_H
#define GYRE_TESTS_CHECK_TOKENIZER_H
#include "make_gguf.h"
#include "support.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer_info.h"

#include <stdlib.h>
#include <string.h>

#define MODEL(vocab, merges) "\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]}"
static inline void expect_ids(const gyre_tokenizer *t, const char *text, unsigned flags, const int32_t *want,
                              int64_t count) {
    gyre_text got;
    assert_ok(gyre_tokenize(t, text, strlen(text), flags, &got, NULL));
    if (got.count != count || memcmp(got.ids, want, (size_t)count * sizeof *want) != 0)
        for (int64_t i = 0; i < got.count; i++)
            print_error("%s: %d\n", text, got.ids[i]);
    assert_int_equal(got.count, count);
    assert_memory_equal(got.ids, want, (size_t)count * sizeof *want);
    assert_int_equal(got.bytes, strlen(text));
    gyre_text_free(&got);
}
#define EXPECT(t, text, flags, ...)                                                                                         \
    expect_ids(t, text, flags, (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static inline gyre_tokenizer *open_made(made_gguf *made, gyre_status want, gyre_error *err) {
    gyre_tokenizer *t = NULL;
    made_finish(made);
    unsigned char *copy = made_copy(made, made->file_bytes);
    assert_int_equal(gyre_tokenizer_from_gguf(&t, copy, made->file_bytes, "made.gguf", err), want);
    free(copy);
    free(made);
    return t;
}

static inline void made_strings(made_gguf *made, const char *key, const char *const *strings, size_t count) {
    made_array(made, key, MADE_STRING, count);
    for (size_t i = 0; i < count; i++)
        made_text(made->kvs, &made->kvs_bytes, strings[i]);
}

#endif
