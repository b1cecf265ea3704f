/* test_gguf.c: the GGUF container: every type, both versions, and every inconsistency that a file can have. */
#include "files/gguf.h"
#include "make_gguf.h"

/* -- a good file -- */
static const float three[3] = {1, 2.5f, -3};

/* Every type once, an array of strings among them, and two tensors. */
static made_gguf *whole(uint32_t version) {
    made_gguf *made = made_begin(version);
    made_string(made, "general.architecture", "llama");
    made_put(made, "u8", MADE_U8, 200, 1);
    made_put(made, "i8", MADE_I8, (uint8_t)-100, 1);
    made_put(made, "u16", MADE_U16, 65000, 2);
    made_put(made, "i16", MADE_I16, (uint16_t)-32768, 2);
    made_u32(made, "u32", 4000000000u);
    made_put(made, "i32", MADE_I32, (uint32_t)-2000000000, 4);
    made_f32(made, "f32", 0.1f);
    made_bool(made, "yes", 1);
    made_words(made, "words", 1000);
    made_put(made, "u64", MADE_U64, UINT64_MAX, 8);
    made_put(made, "i64", MADE_I64, (uint64_t)INT64_MIN, 8);
    made_put(made, "f64", MADE_F64, made_f64_bits(1e300), 8);
    made_i32s(made, "sections", (const int32_t[]){16, 24, -1}, 3);
    made_array(made, "nested", MADE_ARRAY, 2);
    for (int i = 0; i < 2; i++) {
        made_number(made->kvs, &made->kvs_bytes, MADE_U8, 4);
        made_number(made->kvs, &made->kvs_bytes, 3, 8);
        made_number(made->kvs, &made->kvs_bytes, 0x030201, 3);
    }
    made_array(made, "nothing", MADE_F64, 0);
    made_u32(made, "last", 7);
    made_tensor(made, "rope_freqs.weight", three, 3);
    made_info(made, "blocks", 2, (const uint64_t[]){256, 3}, 12, made->data_bytes); /* Q4_K: 144 bytes a block */
    made->data_bytes += (3 * 144 + 31) / 32 * 32;
    made_finish(made);
    return made;
}

static gyre_gguf *opened(const made_gguf *made, const void *bytes) {
    gyre_gguf *file = NULL;
    gyre_error err = {0, ""};
    if (gyre_gguf_open(&file, bytes, made->file_bytes, &err) != GYRE_OK) fail_msg("%s", err.text);
    return file;
}

static const gyre_gguf_value *value(const gyre_gguf *file, const char *key) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(file, key);
    if (!pair) fail_msg("no %s", key);
    return &pair->value;
}

static void check_integer(const gyre_gguf *file, const char *key, int64_t want) {
    int64_t got = 0;
    assert_true(gyre_gguf_integer(value(file, key), 0, &got));
    assert_true(got == want);
}

static void check_values(const gyre_gguf *file) {
    double x = 0;
    int64_t whole_number = 0;
    check_integer(file, "u8", 200);
    check_integer(file, "i8", -100);
    check_integer(file, "u16", 65000);
    check_integer(file, "i16", -32768);
    check_integer(file, "u32", 4000000000);
    check_integer(file, "i32", -2000000000);
    check_integer(file, "yes", 1);
    check_integer(file, "i64", INT64_MIN);
    check_integer(file, "last", 7);
    assert_true(gyre_gguf_number(value(file, "f32"), 0, &x) && x == (double)0.1f);
    assert_true(gyre_gguf_number(value(file, "f64"), 0, &x) && x == 1e300);
    assert_true(gyre_gguf_number(value(file, "u64"), 0, &x) && x == 0x1p64);
    assert_false(gyre_gguf_integer(value(file, "u64"), 0, &whole_number)); /* does not fit */
    assert_false(gyre_gguf_integer(value(file, "f32"), 0, &whole_number)); /* is not whole */
    assert_false(gyre_gguf_number(value(file, "general.architecture"), 0, &x));
    assert_true(gyre_gguf_equals(value(file, "general.architecture"), "llama"));
    assert_false(gyre_gguf_equals(value(file, "general.architecture"), "llam"));
    assert_false(gyre_gguf_equals(value(file, "u8"), ""));
}

static void check_arrays(const gyre_gguf *file) {
    int64_t x = 0;
    static const int64_t want[3] = {16, 24, -1};
    const gyre_gguf_value *sections = value(file, "sections"), *words = value(file, "words");
    assert_true(sections->type == GYRE_GGUF_ARRAY && sections->element == GYRE_GGUF_I32 && sections->count == 3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(gyre_gguf_integer(sections, i, &x));
        assert_true(x == want[i]);
    }
    assert_false(gyre_gguf_integer(sections, 3, &x));
    assert_true(words->element == GYRE_GGUF_STRING && words->count == 1000);
    assert_false(gyre_gguf_integer(words, 0, &x));
    assert_true(value(file, "nested")->element == GYRE_GGUF_ARRAY);
    assert_true(value(file, "nothing")->count == 0);
    assert_null(gyre_gguf_find_key(file, "nowhere"));
    assert_null(gyre_gguf_find_key(file, ""));
    assert_null(gyre_gguf_find_key(file, "las"));
}

static void check_tensors(const gyre_gguf *file, const made_gguf *made) {
    const gyre_gguf_tensor *t = gyre_gguf_find_tensor(file, "rope_freqs.weight"), *b = gyre_gguf_find_tensor(file, "blocks");
    assert_non_null(t);
    assert_true(t->rank == 1 && t->dims[0] == 3 && t->dims[1] == 1 && t->type == 0 && t->bytes == 12);
    assert_true(t->data == file->bytes + made->data_at && memcmp(t->data, three, 12) == 0);
    assert_non_null(b);
    assert_true(b->rank == 2 && b->bytes == 3 * 144 && b->data == t->data + 32);
    assert_null(gyre_gguf_find_tensor(file, "rope_freqs"));
    assert_true(file->data == made->data_at && file->tensor_infos == made->infos_at);
    assert_true(file->tensor_infos_end == made->infos_at + made->infos_bytes && file->alignment == 32);
}

static void reads_every_type_of_both_versions(void **state) {
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        made_gguf *made = whole(version);
        unsigned char *bytes = made_copy(made, made->file_bytes);
        gyre_gguf *file = opened(made, bytes);
        assert_int_equal(file->version, version);
        check_values(file);
        check_arrays(file);
        check_tensors(file, made);
        gyre_gguf_free(file);
        free(bytes);
        free(made);
    }
}

/* The spans of the pairs cover the bytes between the header and the tensor descriptions, in order. */
static void spans_cover_the_metadata(void **state) {
    (void)state;
    made_gguf *made = whole(3);
    gyre_gguf *file = opened(made, made->file);
    uint64_t at = GYRE_GGUF_HEADER_BYTES;
    for (int64_t i = 0; i < file->kv_count; i++) {
        assert_true(file->kvs[i].offset == at);
        at += file->kvs[i].bytes;
    }
    assert_int_equal(file->kv_count, 17);
    assert_true(at == file->tensor_infos);
    gyre_gguf_free(file);
    free(made);
}

static void honours_another_alignment(void **state) {
    (void)state;
    made_gguf *made = made_begin(3);
    made->alignment = 256;
    made_u32(made, "general.alignment", 256);
    made_tensor(made, "a", three, 3);
    made_tensor(made, "b", three, 3);
    made_finish(made);
    gyre_gguf *file = opened(made, made->file);
    assert_true(file->data == 256 && file->alignment == 256);
    assert_true(gyre_gguf_find_tensor(file, "b")->data == file->bytes + 512);
    gyre_gguf_free(file);
    free(made);
}

/* -- bad files -- */
static void check_refused(const void *bytes, size_t size, gyre_status status, uint64_t offset, const char *text) {
    gyre_gguf *file = NULL;
    gyre_error err = {12345, ""};
    assert_int_equal(gyre_gguf_open(&file, bytes, size, &err), status);
    assert_null(file);
    if (!strstr(err.text, text)) fail_msg("'%s' does not say '%s'", err.text, text);
    if (offset != UINT64_MAX && err.offset != offset) fail_msg("%s: byte %d", err.text, (int)err.offset);
    assert_int_equal(gyre_gguf_open(&file, bytes, size, NULL), status);
}

static void refuses_truncation_at_any_byte(void **state) {
    (void)state;
    made_gguf *made = whole(3);
    for (size_t size = 0; size < made->file_bytes - 16; size++) { /* the last tensor ends 16 bytes before its padding */
        unsigned char *bytes = made_copy(made, size);
        gyre_gguf *file = NULL;
        gyre_error err = {0, ""};
        assert_int_equal(gyre_gguf_open(&file, bytes, size, &err), GYRE_EFORMAT);
        assert_true(err.text[0] != '\0');
        free(bytes);
    }
    free(made);
}

/* Keys and descriptions of a file that ends within its tensors; the data of those that are whole. */
static void opens_heads(void **state) {
    (void)state;
    made_gguf *made = whole(3);
    gyre_gguf *all = NULL;
    assert_int_equal(gyre_gguf_open(&all, made->file, made->file_bytes, NULL), GYRE_OK);
    for (size_t size = 0; size < made->file_bytes - 16; size++) {
        unsigned char *bytes = made_copy(made, size);
        gyre_gguf *file = NULL;
        gyre_error err = {0, ""};
        const gyre_status status = gyre_gguf_open_head(&file, bytes, size, 0, &err);
        assert_int_equal(status, size < all->tensor_infos_end ? GYRE_EFORMAT : GYRE_OK);
        for (int64_t i = 0; file && i < file->tensors_count; i++) {
            const gyre_gguf_tensor *t = &file->tensors[i], *want = &all->tensors[i];
            const int fits = want->data && (uint64_t)(want->data - all->bytes) + want->bytes <= size;
            assert_int_equal(t->data != NULL, fits);
            if (fits) assert_true(t->data - file->bytes == want->data - all->bytes);
        }
        if (file) assert_int_equal(gyre_gguf_check_whole(file, &err), GYRE_EFORMAT);
        gyre_gguf_free(file);
        free(bytes);
    }
    assert_int_equal(gyre_gguf_check_whole(all, NULL), GYRE_OK);
    gyre_gguf_free(all);
    free(made);
}

static void refuses_other_versions(void **state) {
    (void)state;
    made_gguf *made = whole(3);
    made->file[4] = 1;
    check_refused(made->file, made->file_bytes, GYRE_EUNSUPPORTED, 4, "version 1");
    made->file[4] = 4;
    check_refused(made->file, made->file_bytes, GYRE_EUNSUPPORTED, 4, "version 4");
    made->file[4] = 0;
    check_refused(made->file, made->file_bytes, GYRE_EUNSUPPORTED, 4, "version 0");
    made->file[7] = 3; /* 00 00 00 03 */
    check_refused(made->file, made->file_bytes, GYRE_EUNSUPPORTED, 4, "big-endian");
    made->file[0] = 'g';
    check_refused(made->file, made->file_bytes, GYRE_EFORMAT, 0, "does not begin with GGUF");
    check_refused("GGU", 3, GYRE_EFORMAT, 0, "does not begin with GGUF");
    free(made);
}

typedef void make(made_gguf *made);
/* offset: where the error is; keys begin at 24. */
static void check_made(make *build, gyre_status status, uint64_t offset, const char *text) {
    made_gguf *made = made_begin(3);
    build(made);
    made_finish(made);
    check_refused(made->file, made->file_bytes, status, offset, text);
    free(made);
}

static void long_string(made_gguf *made) {
    made_key(made, "k", MADE_STRING);
    made_number(made->kvs, &made->kvs_bytes, (uint64_t)1 << 63, 8);
}
static void long_key(made_gguf *made) {
    made_number(made->kvs, &made->kvs_bytes, UINT64_MAX, 8);
    made_number(made->kvs, &made->kvs_bytes, 0, 8);
    made->keys++;
}
static void many_bytes(made_gguf *made) {
    made_array(made, "k", MADE_U8, (uint64_t)1 << 60);
}
static void many_doubles(made_gguf *made) {
    made_array(made, "k", MADE_F64, ((uint64_t)1 << 61) + 1); /* times 8 is 8 */
    made_number(made->kvs, &made->kvs_bytes, 0, 8);
}
static void many_words(made_gguf *made) {
    made_array(made, "k", MADE_STRING, UINT64_MAX);
}
static void deep(made_gguf *made) {
    made_array(made, "k", MADE_ARRAY, 1);
    for (int i = 0; i < 1000; i++) {
        made_number(made->kvs, &made->kvs_bytes, MADE_ARRAY, 4);
        made_number(made->kvs, &made->kvs_bytes, 1, 8);
    }
}
static void no_type(made_gguf *made) {
    made_put(made, "k", 13, 0, 8);
}
static void no_element_type(made_gguf *made) {
    made_array(made, "k", 99, 0);
}
static void no_bool(made_gguf *made) {
    made_bool(made, "k", 2);
}
static void twice(made_gguf *made) {
    made_u32(made, "k", 1);
    made_u32(made, "j", 1);
    made_u32(made, "k", 1);
}
static void alignment_of_three(made_gguf *made) {
    made_u32(made, "general.alignment", 3);
}
static void alignment_of_none(made_gguf *made) {
    made_u32(made, "general.alignment", 0);
}
static void alignment_in_words(made_gguf *made) {
    made_string(made, "general.alignment", "32");
}
static void keys_too_many(made_gguf *made) {
    made_u32(made, "k", 1);
    made->keys = (uint64_t)1 << 62;
}
static void tensors_too_many(made_gguf *made) {
    made->tensors = UINT64_MAX;
}
static void keys_missing(made_gguf *made) {
    made_u32(made, "a key that is long enough for all of four", 1);
    made->keys = 4;
}

static void empty_key(made_gguf *made) {
    made_u32(made, "", 1);
}

static void refuses_inconsistent_keys(void **state) {
    (void)state;
    check_made(long_string, GYRE_EFORMAT, 37, "9223372036854775808 characters, where 19 bytes are left");
    check_made(long_key, GYRE_EFORMAT, 24, "18446744073709551615 characters");
    check_made(many_bytes, GYRE_EFORMAT, 37, "1152921504606846976 elements of uint8");
    check_made(many_doubles, GYRE_EFORMAT, 37, "elements of float64");
    check_made(many_words, GYRE_EFORMAT, 37, "elements of string");
    check_made(deep, GYRE_EFORMAT, UINT64_MAX, "arrays more than 8 deep");
    check_made(no_type, GYRE_EFORMAT, 33, "its type, 13, does not exist");
    check_made(no_element_type, GYRE_EFORMAT, 37, "its type, 99, does not exist");
    check_made(no_bool, GYRE_EFORMAT, 37, "a bool of 2");
    check_made(twice, GYRE_EFORMAT, 24 + 2 * 17, "k: a second key of that name, after the one at byte 24");
    check_made(alignment_of_three, GYRE_EFORMAT, 24, "not a power of two");
    check_made(alignment_of_none, GYRE_EFORMAT, 24, "not a power of two");
    check_made(alignment_in_words, GYRE_EFORMAT, 24, "not a power of two");
    check_made(keys_too_many, GYRE_EFORMAT, 16, "number of keys: 4611686018427387904");
    check_made(tensors_too_many, GYRE_EFORMAT, 8, "number of tensors: 18446744073709551615");
    check_made(empty_key, GYRE_EFORMAT, 24, "key: empty");
    check_made(keys_missing, GYRE_EFORMAT, UINT64_MAX, "");
}

/* A file of zeros has space for millions of keys and tensors, and each would need memory. */
static void refuses_counts_above_the_limits(void **state) {
    (void)state;
    enum { MILLION = 1 << 20, BYTES = 26 * MILLION };
    size_t at;
    unsigned char *bytes = calloc(1, BYTES);
    assert_non_null(bytes);
    memcpy(bytes, "GGUF\3", 5);
    at = 16;
    made_number(bytes, &at, MILLION + 1, 8);
    check_refused(bytes, BYTES, GYRE_EFORMAT, 16, "number of keys: 1048577, at most 1048576");
    at = 8;
    made_number(bytes, &at, MILLION + 1, 8);
    check_refused(bytes, BYTES, GYRE_EFORMAT, 8, "number of tensors: 1048577, at most 1048576");
    free(bytes);
}

static void overflowing(made_gguf *made) {
    made_info(made, "t", 3, (const uint64_t[]){1u << 31, 1u << 31, 1u << 31}, 0, 0);
}
static void overflowing_bytes(made_gguf *made) {
    made_info(made, "t", 2, (const uint64_t[]){1u << 31, 1u << 31}, 0, 0);
}
static void empty_dimension(made_gguf *made) {
    made_info(made, "t", 2, (const uint64_t[]){4, 0}, 0, 0);
}
static void rank_of_five(made_gguf *made) {
    made_info(made, "t", 5, (const uint64_t[]){1, 1, 1, 1, 1}, 0, 0);
}
static void past_the_end(made_gguf *made) {
    made_tensor(made, "a", three, 3);
    made_info(made, "t", 1, (const uint64_t[]){9}, 0, 0);
}
static void begins_past_the_end(made_gguf *made) {
    made_tensor(made, "a", three, 3);
    made_info(made, "t", 1, (const uint64_t[]){1}, 0, UINT64_MAX - 31);
}
static void between_the_alignment(made_gguf *made) {
    made_tensor(made, "a", three, 3);
    made_info(made, "t", 1, (const uint64_t[]){1}, 0, 4);
}
static void half_a_block(made_gguf *made) {
    made_tensor(made, "a", three, 3);
    made_info(made, "t", 1, (const uint64_t[]){16}, 2, 0);
}
static void tensor_twice(made_gguf *made) {
    made_tensor(made, "a", three, 3);
    made_tensor(made, "a", three, 3);
}
static void unknown_past_the_end(made_gguf *made) {
    made_tensor(made, "a", three, 3);
    made_info(made, "t", 1, (const uint64_t[]){1}, 250, 64);
}

static void nameless(made_gguf *made) {
    made_tensor(made, "", three, 3);
}

static void refuses_inconsistent_tensors(void **state) {
    (void)state;
    check_made(overflowing, GYRE_EFORMAT, UINT64_MAX, "makes more elements than there can be");
    check_made(overflowing_bytes, GYRE_EFORMAT, 24, "more bytes than there can be");
    check_made(empty_dimension, GYRE_EFORMAT, 24 + 9 + 4 + 8, "dimension 1, 0, is empty");
    check_made(rank_of_five, GYRE_EFORMAT, 33, "5 dimensions, at most 4");
    check_made(past_the_end, GYRE_EFORMAT, 57, "t: 36 bytes at 0 of the data, of which the file has 32");
    check_made(begins_past_the_end, GYRE_EFORMAT, 57, "of the data, of which the file has 32");
    check_made(between_the_alignment, GYRE_EFORMAT, 57, "t: at 4 of the data, not a multiple of 32");
    check_made(half_a_block, GYRE_EFORMAT, 57, "rows of 16 elements, stored in blocks of 32");
    check_made(tensor_twice, GYRE_EFORMAT, 57, "a: a second tensor of that name");
    check_made(nameless, GYRE_EFORMAT, 24, "tensor name: empty");
    check_made(unknown_past_the_end, GYRE_EFORMAT, 57, "at 64 of the data");
}

/* A type of a later version: its size is unknown; its name and offset are reported. */
static void unknown_types_have_no_size(void **state) {
    (void)state;
    made_gguf *made = made_begin(3);
    made_tensor(made, "a", three, 3);
    made_info(made, "t", 1, (const uint64_t[]){1}, 250, 0);
    made_finish(made);
    gyre_gguf *file = opened(made, made->file);
    const gyre_gguf_tensor *t = gyre_gguf_find_tensor(file, "t");
    assert_true(t && t->bytes == 0 && t->data == NULL);
    gyre_gguf_free(file);
    free(made);
}

/* Names go into messages, and messages to terminals. */
static void control_characters_in_names_are_escaped(void **state) {
    (void)state;
    made_gguf *made = made_begin(3);
    made_put(made, "\x1b[31m\n", 13, 0, 1);
    made_finish(made);
    check_refused(made->file, made->file_bytes, GYRE_EFORMAT, UINT64_MAX, "?[31m?: its type");
    free(made);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_every_type_of_both_versions),
                                       cmocka_unit_test(spans_cover_the_metadata),
                                       cmocka_unit_test(honours_another_alignment),
                                       cmocka_unit_test(refuses_truncation_at_any_byte),
                                       cmocka_unit_test(opens_heads),
                                       cmocka_unit_test(refuses_other_versions),
                                       cmocka_unit_test(refuses_inconsistent_keys),
                                       cmocka_unit_test(refuses_counts_above_the_limits),
                                       cmocka_unit_test(refuses_inconsistent_tensors),
                                       cmocka_unit_test(unknown_types_have_no_size),
                                       cmocka_unit_test(control_characters_in_names_are_escaped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
