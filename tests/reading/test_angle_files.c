/* test_angle_files.c: the tables of angles in .npy and .safetensors files, well made and hostile. */
#include "files/tensors/npy.h"
#include "files/tensors/safetensors.h"
#include "gyre/gyre_angles.h"
#include "temp_folder.h"

#include <stdlib.h>

/* A .npy of version 1.0 with this header and so many bytes of data, which count up.  out = its size. */
static size_t make_npy(unsigned char *out, const char *header, size_t data) {
    const size_t length = strlen(header);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (unsigned char)(length & 255), out[9] = (unsigned char)(length >> 8);
    memcpy(out + 10, header, length);
    for (size_t i = 0; i < data; i++)
        out[10 + length + i] = (unsigned char)i;
    return 10 + length + data;
}

static gyre_npy parse(const char *header, size_t data) {
    static unsigned char bytes[4096];
    gyre_npy npy;
    gyre_error err = {0, ""};
    if (gyre_npy_parse(&npy, bytes, make_npy(bytes, header, data), "x.npy", &err)) fail_msg("%s: %s", header, err.text);
    return npy;
}

static void test_npy(void **state) {
    (void)state;
    gyre_npy npy = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n", 48);
    assert_true(npy.dtype == GYRE_DTYPE_F32 && npy.rank == 2 && npy.count == 12);
    assert_true(npy.shape[0] == 3 && npy.shape[1] == 4 && npy.shape[2] == 1 && npy.stride[0] == 4 && npy.stride[1] == 1);
    npy = parse("{\"shape\":(3,4),\"descr\":\"<f2\",\"fortran_order\":True}", 24);
    assert_true(npy.dtype == GYRE_DTYPE_F16 && npy.stride[0] == 1 && npy.stride[1] == 3);
    npy = parse("{'descr': '<V2', 'fortran_order': False, 'shape': (5,)}\n", 10);
    assert_true(npy.dtype == GYRE_DTYPE_BF16 && npy.rank == 1 && npy.shape[0] == 5);
    npy = parse("{'descr': '<c8', 'fortran_order': False, 'shape': (3, 4)}\n", 96);
    assert_true(npy.dtype == GYRE_DTYPE_F32 && npy.rank == 3 && npy.shape[2] == 2 && npy.stride[0] == 8 &&
                npy.stride[1] == 2 && npy.stride[2] == 1);
    npy = parse("{'descr': '<c16', 'fortran_order': True, 'shape': (3, 4)}\n", 192);
    assert_true(npy.dtype == GYRE_DTYPE_F64 && npy.stride[0] == 2 && npy.stride[1] == 6 && npy.stride[2] == 1);
    npy = parse("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", 8);
    assert_true(npy.rank == 0 && npy.count == 1);
    npy = parse("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 7)}", 0);
    assert_true(npy.rank == 2 && npy.count == 0);
}

static void expect_refused(const unsigned char *bytes, size_t size, gyre_status status, const char *says) {
    gyre_npy npy;
    gyre_error err = {0, ""};
    unsigned char *exact = malloc(size + 1); /* so that a sanitizer sees reads past the end */
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    const gyre_status got = gyre_npy_parse(&npy, exact, size, "x.npy", &err);
    free(exact);
    if (got != status || !strstr(err.text, says))
        fail_msg("status %d, \"%s\", expected %d and \"%s\"", got, err.text, status, says);
    assert_non_null(strstr(err.text, "x.npy: "));
}

static void test_hostile_npy(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        gyre_status status;
        const char *says;
    } cases[] = {
        {"", 0, GYRE_EFORMAT, "no dict"},
        {"[]", 0, GYRE_EFORMAT, "no dict"},
        {"{}", 0, GYRE_EFORMAT, "missing"},
        {"{'descr'", 0, GYRE_EFORMAT, "colon"},
        {"{'descr': '<f4', 'fortran_order': False}", 0, GYRE_EFORMAT, "missing"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}", 12, GYRE_EFORMAT, "none of descr"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 12, GYRE_EFORMAT, "twice"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3)}", 12, GYRE_EFORMAT, "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}", 48, GYRE_EFORMAT, "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}", 12, GYRE_EFORMAT, "extent"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3L,)}", 12, GYRE_EFORMAT, "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [3]}", 12, GYRE_EFORMAT, "no tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1)}", 4, GYRE_EUNSUPPORTED, "four extents"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1, 1, 1, 1)}", 8, GYRE_EUNSUPPORTED, "three extents"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 4, GYRE_EFORMAT, "too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", 0, GYRE_EFORMAT, "too many"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (0, 4611686018427387904, 8)}", 0, GYRE_EFORMAT, "too many"},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (3,)}", 12, GYRE_EFORMAT, "neither True nor False"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (3,)}", 12, GYRE_EUNSUPPORTED, "type >f4"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (3,)}", 24, GYRE_EUNSUPPORTED, "type <i8"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", 12, GYRE_EUNSUPPORTED, "structs"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", 12, GYRE_EUNSUPPORTED, "type |O"},
        {"{'descr': '<f4\\x', 'fortran_order': False, 'shape': (3,)}", 12, GYRE_EFORMAT, "does not write"},
        {"{'descr': '<f4xxxxxxxxxxxxxxxxxxxxx', 'fortran_order': False, 'shape': (3,)}", 12, GYRE_EFORMAT, "too long"},
        {"{'descr': '<f4, 'fortran_order': False, 'shape': (3,)}", 12, GYRE_EFORMAT, "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} #", 12, GYRE_EFORMAT, "follows"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 11, GYRE_EFORMAT, "as many bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 13, GYRE_EFORMAT, "as many bytes"}};
    unsigned char bytes[4096];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(bytes, make_npy(bytes, cases[i].header, cases[i].data), cases[i].status, cases[i].says);
    const size_t size = make_npy(bytes, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 12);
    for (size_t cut = 0; cut < size; cut++)
        expect_refused(bytes, cut, GYRE_EFORMAT, "x.npy");
    bytes[9] = 255;
    expect_refused(bytes, size, GYRE_EFORMAT, "longer than the file");
    bytes[9] = 0, bytes[6] = 4;
    expect_refused(bytes, size, GYRE_EUNSUPPORTED, "version");
    bytes[6] = 2; /* four bytes of length, of which two are the dict's */
    expect_refused(bytes, size, GYRE_EFORMAT, "longer than the file");
}

static gyre_angle_tables *open_tables(const char *name) {
    gyre_angle_tables *tables = NULL;
    gyre_error err = {0, ""};
    if (gyre_angle_tables_open(&tables, in_folder(name), &err)) fail_msg("%s", err.text);
    return tables;
}

static void expect_unopened(const char *name, gyre_status status, const char *says) {
    gyre_angle_tables *tables = NULL;
    gyre_error err = {0, ""};
    const gyre_status got = gyre_angle_tables_open(&tables, in_folder(name), &err);
    assert_null(tables);
    if (got != status || !strstr(err.text, says))
        fail_msg("status %d, \"%s\", expected %d and \"%s\"", got, err.text, status, says);
}

/* A header whose length leaves the numbers at an odd address: they are copied. */
static void test_open_npy(void **state) {
    (void)state;
    unsigned char bytes[512];
    for (int k = 0; k < 4; k++) {
        char header[128];
        snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}%.*s\n", k, "   ");
        write_file("table.npy", bytes, make_npy(bytes, header, 16));
        gyre_angle_tables *tables = open_tables("table.npy");
        assert_int_equal(tables->count, 1);
        const gyre_angle_table *t = tables->tables;
        assert_string_equal(t->name, "");
        assert_string_equal(t->dtype, "<f4");
        assert_int_equal(t->rank, 2);
        assert_true((uintptr_t)t->view.data % sizeof(float) == 0);
        assert_memory_equal((const unsigned char *)t->view.data + 4, "\4\5\6\7", 4);
        gyre_angle_tables_free(tables);
    }
    write_file("zip.pt", "PK\3\4 and more", 13);
    expect_unopened("zip.pt", GYRE_EUNSUPPORTED, "numpy.save or safetensors");
    write_file("text.npy", "no such file", 12);
    expect_unopened("text.npy", GYRE_EFORMAT, "text.npy");
    write_file("none.npy", "", 0);
    expect_unopened("none.npy", GYRE_EFORMAT, "none.npy");
    expect_unopened("missing.npy", GYRE_EIO, "missing.npy");
}

static void test_open_safetensors(void **state) {
    (void)state;
    static const float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const gyre_safetensors_input tensors[] = {{"model.Rotary_emb.cos_cached", 2, {2, 4, 1, 1}, numbers, 0},
                                              {"model.inv_freq", 1, {4, 1, 1, 1}, numbers, 0},
                                              {"model.weight", 2, {2, 4, 1, 1}, numbers, 0}};
    gyre_error err = {0, ""};
    assert_ok(gyre_safetensors_write(in_folder("several.safetensors"), tensors, 3, GYRE_DTYPE_F32, &err));
    gyre_angle_tables *tables = open_tables("several.safetensors");
    assert_int_equal(tables->count, 2); /* not the weight */
    assert_string_equal(tables->tables[0].name, "model.Rotary_emb.cos_cached");
    assert_string_equal(tables->tables[1].name, "model.inv_freq");
    assert_string_equal(tables->tables[1].dtype, "F32");
    assert_true(tables->tables[0].view.shape[0] == 2 && tables->tables[0].view.shape[1] == 4);
    assert_true(((const float *)tables->tables[0].view.data)[5] == 6);
    gyre_angle_tables_free(tables);
    assert_ok(gyre_safetensors_write(in_folder("one.safetensors"), tensors + 2, 1, GYRE_DTYPE_BF16, &err));
    tables = open_tables("one.safetensors");
    assert_int_equal(tables->count, 1);
    assert_int_equal(tables->tables[0].view.dtype, GYRE_DTYPE_BF16);
    gyre_angle_tables_free(tables);
    const gyre_safetensors_input weights[] = {{"a", 1, {4, 1, 1, 1}, numbers, 0}, {"b", 1, {4, 1, 1, 1}, numbers, 0}};
    assert_ok(gyre_safetensors_write(in_folder("weights.safetensors"), weights, 2, GYRE_DTYPE_F32, &err));
    expect_unopened("weights.safetensors", GYRE_EUNSUPPORTED, "none of 2 tensors");
    static const char integers[] =
        "\x44\0\0\0\0\0\0\0{\"cos\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}            12345678";
    write_file("integers.safetensors", integers, sizeof integers - 1);
    expect_unopened("integers.safetensors", GYRE_EUNSUPPORTED, "I64 of 1 extents is not a table");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_npy), cmocka_unit_test(test_hostile_npy),
                                       cmocka_unit_test(test_open_npy), cmocka_unit_test(test_open_safetensors)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
