/* test_tensor_store_files.c: every inconsistency of a model's files, and the location that the message names. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "files/tensors/tensor_store.h"
#include "kernels/kernels.h"
#include "make_tensor_store.h"

#include <sys/stat.h>

/* -- one .safetensors -- */
#define X(dtype, shape, offsets) "{ \"x\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define ONE(name, offsets)       "\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" offsets "}"

/* Each with 8 bytes of data. at: the offset of the tensor's name in the header, without the 8 bytes of its size. */
static void test_safetensors(void **state) {
    (void)state;
    static const struct {
        const char *header, *texts[2];
        int at;
    } cases[] = {
        {"{", {"header", ", line 1"}, 0},
        {"{\n\n\"x\":3,,}", {"header", ", line 3"}, 0},
        {"{\"x\":3}", {"x: no object", "byte 9)"}, 1},
        {"{\"x\":3, \"x\":3}", {"duplicate", ", line 1"}, 0},
        {X("\"F32\"", "[3]", "[0,8]"), {"x: 8 bytes do not fit 3 elements of F32", "byte 10)"}, 2},
        {X("\"F16\"", "[3]", "[0,8]"), {"x: 8 bytes do not fit 3 elements of F16", "byte 10)"}, 2},
        {X("\"F4\"", "[15]", "[0,8]"), {"x: 8 bytes do not fit 15 elements of F4", "byte 10)"}, 2},
        {X("\"F32\"", "[2]", "[0,16]"), {"x: bytes 0 to 16 are not within the 8 of data", "byte 10)"}, 2},
        {X("\"Q32\"", "[2]", "[0,8]"), {"x: dtype \"Q32\" is unknown", "byte 10)"}, 2},
        {X("\"F32\"", "[2,-1]", "[0,8]"), {"x: shape[1] is not a size", "byte 10)"}, 2},
        {X("\"F32\"", "[1,1,1,1,3]", "[0,8]"), {"x: 8 bytes do not fit 3 elements", "byte 10)"}, 2},
        {X("\"F32\"", "[2,3037000500,3037000500,1]", "[0,8]"), {"x: its shape overflows", "byte 10)"}, 2},
        {"{" ONE("p", "[0,4]") "," ONE("q", "[2,6]") "}", {"q: overlaps p", "byte 62)"}, 54},
        {"{" ONE("p", "[0,4]") "," ONE("q", "[5,9]") "}", {"q: bytes 5 to 9 are not within", "byte 62)"}, 54},
        {"{" ONE("p", "[4,8]") "}", {"p: a gap of 4 bytes before it", "byte 9)"}, 1},
        {"{" ONE("a\\u001b[2Jb", "[4,8]") "}", {"a?[2Jb: a gap", ""}, -1},
    };
    const double data = 0.0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const texts[3] = {cases[i].texts[0], cases[i].texts[1], in_folder("model.safetensors")};
        stored_safetensors("model.safetensors", cases[i].header, &data, sizeof data);
        stored_refused(folder, GYRE_EFORMAT, texts, cases[i].at > 0 ? cases[i].at + 8 : -1);
    }
    stored_clear();
}

/* What torch.save writes, under its own name and under that of a safetensors file. Reading it would run code. */
static void test_pickles(void **state) {
    (void)state;
    static const char pickle[] = "\x80\x04\x95\x1f\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
                      zip[] = "PK\3\4\0\0\0\0data.pkl";
    const char *const refused[3] = {"a pickle, whose reading runs code; save the model as safetensors",
                                    in_folder("model.safetensors"), NULL},
                      *const left_out[3] = {"model.safetensors: not in the folder", "pickles are not read", folder};
    write_file("model.safetensors", pickle, sizeof pickle - 1);
    stored_refused(folder, GYRE_EFORMAT, refused, -1);
    write_file("model.safetensors", zip, sizeof zip - 1);
    stored_refused(folder, GYRE_EFORMAT, refused, -1);
    stored_clear();
    write_file("pytorch_model.bin", pickle, sizeof pickle - 1);
    stored_refused(folder, GYRE_EIO, left_out, -1);
    stored_clear();
}

/* -- several and an index -- */
#define A          "\"a\":\"1.safetensors\""
#define B          "\"b\":\"2.safetensors\""
#define INDEX(map) "{\"weight_map\":\n{" map "}}"

static void test_index(void **state) {
    (void)state;
    static const struct {
        const char *index;
        gyre_status status;
        const char *texts[2];
        int at;
    } cases[] = {
        {"", GYRE_EFORMAT, {"empty", NULL}, -1},
        {"[", GYRE_EFORMAT, {"index: ", "line 1)"}, -1},
        {"{\n\"weight_map\":\n?}", GYRE_EFORMAT, {"index: ", "line 3)"}, -1},
        {"[]", GYRE_EFORMAT, {"weight_map: no object", "line 1)"}, -1},
        {"{\"weight\":{}}", GYRE_EFORMAT, {"weight_map: no object", "line 1)"}, -1},
        {"{\"x\":1,\n \"weight_map\":[]}", GYRE_EFORMAT, {"weight_map: no object", "line 2)"}, 9},
        {INDEX(""), GYRE_EFORMAT, {"weight_map: names no tensor", "line 1)"}, 1},
        {INDEX("\"a\":1"), GYRE_EFORMAT, {"weight_map.a: not the name of a file", "line 2)"}, 16},
        {INDEX("\"a\":\"\""), GYRE_EFORMAT, {"weight_map.a: \"\" is not the name of a file", "line 2)"}, 16},
        {INDEX("\"a\":\"..\""), GYRE_EFORMAT, {"weight_map.a: \"..\" is not", "line 2)"}, 16},
        {INDEX("\"a\":\".\""), GYRE_EFORMAT, {"weight_map.a: \".\" is not", "line 2)"}, 16},
        {INDEX("\"a\":\"../1.safetensors\""), GYRE_EFORMAT, {"weight_map.a: \"../1.safetensors\" is not", NULL}, 16},
        {INDEX("\"a\":\"/etc/passwd\""), GYRE_EFORMAT, {"weight_map.a: \"/etc/passwd\" is not", NULL}, 16},
        {INDEX("\"a\":\"..\\\\1.safetensors\""), GYRE_EFORMAT, {"weight_map.a: \"..\\1.safetensors\" is not", NULL}, 16},
        {INDEX(A ",\n" A), GYRE_EFORMAT, {"index: duplicate", "line 3)"}, -1},
        {INDEX(A ",\n\"b\":\"3.safetensors\""), GYRE_EIO, {"weight_map.b: ", "3.safetensors: No such file"}, 37},
        {INDEX(A ",\n\"b\":\"1.safetensors\""), GYRE_EFORMAT, {"weight_map.b: not in 1.safetensors", "line 3)"}, 37},
        {INDEX("\"b\":\"1.safetensors\",\n\"a\":\"2.safetensors\""),
         GYRE_EFORMAT,
         {"weight_map.a: said to be in 2.safetensors, and is in ", "line 3)"},
         37},
        {INDEX(A ",\n" B ",\n\"c\":\"2.safetensors\""), GYRE_EFORMAT, {"weight_map.c: not in 2.safetensors", "line 4)"}, 58},
        {INDEX("\"a\":\"3.tensors\""), GYRE_EIO, {"weight_map.a: ", "3.tensors: No such file"}, 16},
        {INDEX("\"a\":\"1.safetensors\",\"c\":\"both.safetensors\""),
         GYRE_EFORMAT,
         {"weight_map.a: said to be in 1.safetensors, and is in ", "both.safetensors ("},
         16},
        {INDEX("\"c\":\"both.safetensors\""),
         GYRE_EFORMAT,
         {"weight_map: does not name a, which is in ", "both.safeten"},
         1},
        {INDEX(A ",\"b\":\"bad.safetensors\""), GYRE_EFORMAT, {"b: a gap of 1 bytes", "bad.safetensors, byte 9)"}, 9},
    };
    const float x[2] = {1, 2};
    stored_safetensors("1.safetensors", "{" ONE("a", "[0,4]") "}", x, 4);
    stored_safetensors("2.safetensors", "{" ONE("b", "[0,4]") "}", x, 4);
    stored_safetensors("both.safetensors", "{" ONE("a", "[0,4]") "," ONE("c", "[4,8]") "}", x, 8);
    stored_safetensors("bad.safetensors", "{" ONE("b", "[1,5]") "}", x, 5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const named = strstr(cases[i].index, "bad.") ? "bad.safetensors" : "model.safetensors.index.json";
        const char *const texts[3] = {cases[i].texts[0], cases[i].texts[1], named};
        write_file("model.safetensors.index.json", cases[i].index, strlen(cases[i].index));
        stored_refused(folder, cases[i].status, texts, cases[i].at);
    }
    write_file("model.safetensors.index.json", INDEX(A "," B), sizeof INDEX(A "," B) - 1);
    gyre_tensor_store_free(stored_open(folder));
    stored_clear();
}

static void test_nothing(void **state) {
    (void)state;
    stored_refused(folder, GYRE_EIO, (const char *const[3]){"model.safetensors: not in", folder, NULL}, -1);
    stored_refused(in_folder("x"), GYRE_EIO, (const char *const[3]){"No such file", in_folder("x"), NULL}, -1);
    write_file("x", "", 0);
    stored_refused(in_folder("x"), GYRE_EFORMAT, (const char *const[3]){"empty", in_folder("x"), NULL}, -1);
    stored_clear();
    assert_int_equal(mkfifo(in_folder("x"), 0600), 0);
    stored_refused(in_folder("x"), GYRE_EIO, (const char *const[3]){"not a regular file", NULL, NULL}, -1);
    stored_clear();
}

/* -- GGUF -- */
static const uint64_t eight[1] = {8};
static const float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static void misaligned(made_gguf *made) {
    made_info(made, "x", 1, eight, 0, 4);
    made->data_bytes = 64;
}
static void past_the_end(made_gguf *made) {
    made_info(made, "x", 1, eight, 0, 32);
    made->data_bytes = 63;
}
static void far_past_the_end(made_gguf *made) {
    made_info(made, "x", 1, eight, 0, UINT64_MAX - 31);
    made->data_bytes = 64;
}
static void half_a_block(made_gguf *made) {
    made_info(made, "x", 2, (const uint64_t[]){128, 2}, 12, 0); /* 256 numbers, but no whole row */
    made->data_bytes = 144;
}
static void many_elements(made_gguf *made) {
    made_info(made, "x", 3, (const uint64_t[]){1u << 31, 1u << 31, 4}, 0, 0);
    made->data_bytes = 64;
}
static void many_bytes(made_gguf *made) {
    made_info(made, "x", 2, (const uint64_t[]){1u << 31, 1u << 31}, 0, 0);
    made->data_bytes = 64;
}
static void empty_dimension(made_gguf *made) {
    made_info(made, "x", 2, (const uint64_t[]){8, 0}, 0, 0);
}
static void twice(made_gguf *made) {
    made_tensor(made, "x", numbers, 8);
    made_tensor(made, "x", numbers, 8);
}
static void overlapping(made_gguf *made) {
    made_info(made, "y", 1, (const uint64_t[]){9}, 0, 0);
    made_info(made, "x", 1, eight, 0, 32);
    made->data_bytes = 64;
}
static void the_same(made_gguf *made) {
    made_info(made, "y", 1, eight, 0, 0);
    made_info(made, "x", 1, eight, 0, 0);
    made->data_bytes = 32;
}
static void rank_five(made_gguf *made) {
    made_info(made, "x", 5, (const uint64_t[]){1, 1, 1, 1, 8}, 0, 0);
    made->data_bytes = 32;
}
static void nul_in_name(made_gguf *made) {
    made_tensor(made, "xyz", numbers, 8);
    made->infos[8 + 1] = 0;
}
static void one_of_three(made_gguf *made) {
    made_put(made, "split.count", MADE_U16, 3, 2);
    made_tensor(made, "x", numbers, 8);
}

static void test_ggufs(void **state) {
    (void)state;
    /* at: relative to the end of the tensor descriptions, or, below 0, to the start of the data (-1 is 0). */
    static const struct {
        void (*make)(made_gguf *);
        gyre_status status;
        const char *text;
        int at;
    } cases[] = {
        {misaligned, GYRE_EFORMAT, "x: at 4 of the data, not a multiple of 32", 0},
        {past_the_end, GYRE_EFORMAT, "x: 32 bytes at 32 of the data, of which the file has 63", 0},
        {far_past_the_end, GYRE_EFORMAT, "x: 32 bytes at 18446744073709551584 of the data", 0},
        {half_a_block, GYRE_EFORMAT, "x: rows of 128 elements, stored in blocks of 256", 0},
        {many_elements, GYRE_EFORMAT, "x: dimension 2, 4, makes more elements than there can be", 29},
        {many_bytes, GYRE_EFORMAT, "x: more bytes than there can be", 0},
        {empty_dimension, GYRE_EFORMAT, "x: dimension 1, 0, is empty", 21},
        {twice, GYRE_EFORMAT, "x: a second tensor of that name", 33},
        {overlapping, GYRE_EFORMAT, "x: overlaps y", -33},
        {the_same, GYRE_EFORMAT, " overlaps ", -1},
        {rank_five, GYRE_EFORMAT, "x: 5 dimensions, at most 4", 9},
        {nul_in_name, GYRE_EFORMAT, "tensor name: a NUL within it", 0},
        {one_of_three, GYRE_EUNSUPPORTED, "split.count: one of several parts of a model", -2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made_gguf *made = made_begin(3);
        char byte[64];
        cases[i].make(made);
        stored_gguf("model.gguf", made);
        int64_t at = (int64_t)made->infos_at + cases[i].at;
        if (cases[i].at < 0) at = (int64_t)made->data_at - cases[i].at - 1;
        if (cases[i].at == -2) at = 24; /* the first key */
        snprintf(byte, sizeof byte, "model.gguf, byte %d)", (int)at);
        stored_refused(in_folder("model.gguf"), cases[i].status, (const char *const[3]){cases[i].text, byte, NULL}, at);
        free(made);
    }
    stored_clear();
}

/* -- cut and flipped -- */
/* Whatever opens can be read without errors; sanitizers watch. */
static void use(const gyre_tensor_store *store) {
    const gyre_kernels *kernels = gyre_kernels_select();
    uint64_t hash;
    for (int64_t i = 0; i < gyre_tensor_store_count(store); i++) {
        const gyre_file_tensor t = gyre_tensor_store_at(store, i);
        if (t.type == GYRE_STORED_OTHER) {
            assert_int_equal(gyre_stored_check_finite(kernels, &t, NULL), GYRE_EUNSUPPORTED);
            continue;
        }
        assert_int_equal(gyre_stored_row_bytes(t.type, t.count), t.bytes);
        float *out = malloc((size_t)t.count * sizeof *out + 1);
        assert_non_null(out);
        assert_int_equal(gyre_stored_read(kernels, &t, out, NULL), gyre_stored_check_finite(kernels, &t, NULL));
        free(out);
        gyre_stored_release_pages(&t);
    }
    assert_ok(gyre_tensor_store_hash(store, &hash, NULL));
}

/* Every prefix is refused with a message, and so is an extra byte where nothing may follow. */
static void check_cut(const char *name, const unsigned char *bytes, size_t size) {
    for (size_t n = 0; n < size; n++) {
        gyre_tensor_store *store = NULL;
        gyre_error err = {0, ""};
        write_file(name, bytes, n);
        const gyre_status status = gyre_tensor_store_open(&store, in_folder(name), &err);
        if (status != GYRE_EFORMAT || !strstr(err.text, in_folder(name)))
            fail_msg("%zu of %zu bytes: status %d, \"%s\"", n, size, (int)status, err.text);
        assert_null(store);
        if (err.offset > size) fail_msg("%zu bytes: an error at %d", n, (int)err.offset);
    }
}

static int opened_when_flipped(const char *name, const unsigned char *bytes, size_t size) {
    static const unsigned char masks[] = {0x01, 0xff};
    unsigned char *other = malloc(size);
    int opened = 0;
    assert_non_null(other);
    for (size_t i = 0; i < size * sizeof masks; i++) {
        gyre_tensor_store *store = NULL;
        gyre_error err = {0, ""};
        memcpy(other, bytes, size);
        other[i / sizeof masks] ^= masks[i % sizeof masks];
        write_file(name, other, size);
        if (gyre_tensor_store_open(&store, in_folder(name), &err) != GYRE_OK) {
            assert_true(err.text[0] != '\0' && !store);
            continue;
        }
        opened++;
        use(store);
        gyre_tensor_store_free(store);
    }
    free(other);
    return opened;
}

static unsigned char *load(const char *name, size_t *size) {
    static unsigned char bytes[8192];
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    *size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return bytes;
}

static void test_cut_safetensors(void **state) {
    (void)state;
    const float x[4] = {1, 2, 3, 4};
    size_t size;
    stored_safetensors("model.safetensors",
                       "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                       "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[8,16]}}",
                       x, 16);
    const unsigned char *bytes = load("model.safetensors", &size);
    check_cut("model.safetensors", bytes, size);
    assert_in_range(opened_when_flipped("model.safetensors", bytes, size), 1, 2 * size - 1);
    stored_clear();
}

static void test_cut_gguf(void **state) {
    (void)state;
    size_t size;
    made_gguf *made = made_begin(3);
    made_string(made, "general.architecture", "llama");
    made_tensor(made, "x", numbers, 8);
    made_info(made, "q", 2, (const uint64_t[]){256, 1}, 14, made->data_bytes);
    made->data_bytes += 224;
    made_info(made, "k", 1, (const uint64_t[]){32}, 8, made->data_bytes);
    made->data_bytes += 34; /* the last tensor: all its bytes are needed */
    stored_gguf("model.gguf", made);
    free(made);
    const unsigned char *bytes = load("model.gguf", &size);
    check_cut("model.gguf", bytes, size);
    assert_in_range(opened_when_flipped("model.gguf", bytes, size), 1, 2 * size - 1);
    stored_clear();
}

static void test_cut_index(void **state) {
    (void)state;
    static const char index[] = INDEX(A ",\n" B);
    const float x = 1;
    stored_safetensors("1.safetensors", "{" ONE("a", "[0,4]") "}", &x, 4);
    stored_safetensors("2.safetensors", "{" ONE("b", "[0,4]") "}", &x, 4);
    for (size_t n = 0; n < sizeof index - 1; n++) {
        write_file("model.safetensors.index.json", index, n);
        stored_refused(folder, GYRE_EFORMAT, (const char *const[3]){"model.safetensors.index.json", NULL, NULL}, -1);
    }
    stored_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors), cmocka_unit_test(test_index),     cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_pickles),     cmocka_unit_test(test_ggufs),     cmocka_unit_test(test_cut_safetensors),
        cmocka_unit_test(test_cut_gguf),    cmocka_unit_test(test_cut_index),
    };
    return cmocka_run_group_tests(tests, make_empty_folder, stored_teardown);
}
