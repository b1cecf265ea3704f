/* test_stored_positions.c: finds the tensors of a checkpoint that hold positions, by the names of other programs. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "gyre/gyre_model.h"
#include "make_tensor_store.h"

#include <math.h>

typedef struct row {
    const char *name, *dtype, *shape;
    int bytes;
    int kind; /* -1 = no positions of the text */
    int64_t layer;
} row;

enum { FREQUENCIES = GYRE_STORED_POSITION_FREQUENCIES, ROWS = GYRE_STORED_POSITION_ROWS, NONE = -1 };
static const row rows[] = {
    {"bert.embeddings.position_embeddings.weight", "F32", "4,2", 32, ROWS, -1},
    {"bert.encoder.layer.3.attention.self.distance_embedding.weight", "F32", "3,2", 24, GYRE_STORED_POSITION_DISTANCES, 3},
    {"decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", "F32", "4,2", 32, GYRE_STORED_POSITION_BUCKETS,
     0},
    {"h.0.attn.bias", "F32", "2,2", 16, NONE, 0},
    {"model.layers.12.self_attn.rotary_emb.inv_freq", "F16", "3", 6, FREQUENCIES, 12},
    {"model.layers.13.self_attn.rotary_emb.inv_freq", "I32", "3", 12, FREQUENCIES, 13},
    {"model.layers.2.self_attn.adaptive.hidden.bias", "F32", "4", 16, GYRE_STORED_POSITION_TRAINED, 2},
    {"model.layers.2.self_attn.frequencies.weight", "F32", "2,4", 32, GYRE_STORED_POSITION_TRAINED, 2},
    {"model.layers.2.self_attn.key_phases.weight", "BF16", "2,4", 16, GYRE_STORED_POSITION_TRAINED, 2},
    {"not_inv_freq", "F32", "3", 12, NONE, 0},
    {"vision_model.embeddings.position_embeddings.weight", "F32", "4,2", 32, NONE, 0},
    {"wpe.weight", "F32", "2,2", 16, ROWS, -1},
};
enum { COUNT = sizeof rows / sizeof *rows };

static const char *written(const char *name, const void *frequencies) {
    char header[STORED_HEADER] = "{";
    unsigned char data[512] = {0};
    int at = 0;
    for (int i = 0; i < COUNT; i++) {
        const size_t end = strlen(header);
        snprintf(header + end, sizeof header - end, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%d,%d]}%s",
                 i ? "," : "", rows[i].name, rows[i].dtype, rows[i].shape, at, at + rows[i].bytes, i + 1 < COUNT ? "" : "}");
        if (strcmp(rows[i].dtype, "F16") == 0) memcpy(data + at, frequencies, 6);
        at += rows[i].bytes;
    }
    stored_safetensors(name, header, data, (size_t)at);
    return in_folder(name);
}

static void found(void **state) {
    (void)state;
    static const uint16_t half[3] = {0x3c00, 0x2e66, 0x211f}; /* f16 of 1, 0.1, 0.01 */
    gyre_stored_positions *stored = NULL;
    gyre_error err = {0, ""};
    if (gyre_stored_positions_open(&stored, written("all.safetensors", half), &err)) fail_msg("%s", err.text);
    assert_int_equal(stored->tensors_in_all, COUNT);
    int64_t at = 0;
    for (int i = 0; i < COUNT; i++) {
        if (rows[i].kind == NONE) continue;
        const gyre_stored_position *t = &stored->tensors[at++];
        assert_string_equal(t->name, rows[i].name);
        assert_string_equal(t->dtype, rows[i].dtype);
        assert_int_equal(t->kind, rows[i].kind);
        assert_int_equal(t->layer, rows[i].layer);
        assert_int_equal(t->shape[0], rows[i].shape[0] - '0');
        const int has_numbers = rows[i].kind == FREQUENCIES && strcmp(rows[i].dtype, "F16") == 0;
        if ((t->frequencies != NULL) != has_numbers) fail_msg("%s: frequencies", t->name);
        if (has_numbers && t->frequencies)
            for (int k = 0; k < 3; k++)
                test_close((double)t->frequencies[k], pow(10, -k), 1e-4, "frequency");
    }
    assert_int_equal(stored->count, at);
    gyre_stored_positions_free(stored);
    gyre_stored_positions_free(NULL);
}

static void refused(void **state) {
    (void)state;
    static const uint16_t bad[3] = {0x3c00, 0x7c00, 0}; /* infinite */
    gyre_stored_positions *stored = NULL;
    gyre_error err = {0, ""};
    assert_int_equal(gyre_stored_positions_open(&stored, written("bad.safetensors", bad), &err), GYRE_EFORMAT);
    assert_null(stored);
    assert_non_null(strstr(err.text, "model.layers.12.self_attn.rotary_emb.inv_freq"));
    assert_int_equal(gyre_stored_positions_open(&stored, in_folder("absent"), &err), GYRE_EIO);
    assert_int_equal(gyre_stored_positions_open(&stored, NULL, &err), GYRE_EINVAL);
    assert_int_equal(gyre_stored_positions_open(NULL, "x", &err), GYRE_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(found), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
