/* test_checkpoint_bias.c: gyre_checkpoint_bias on files with the names that other programs give the table. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "gyre/gyre_model.h"
#include "make_tensor_store.h"

#include <math.h>

enum { ROWS = 4, HEADS = 2, NUMBERS = ROWS * HEADS, BYTES = NUMBERS * 4 };

/* Table `t` of a file: t + 1/8 of the index. */
static float number(int t, int i) {
    return (float)t + (float)i / 8;
}

/* A safetensors with one table for each name. */
static const char *file_of(const char *name, const char *const *tensors, int count) {
    char header[STORED_HEADER] = "{";
    float data[4 * NUMBERS];
    for (int t = 0; t < count; t++) {
        const size_t at = strlen(header);
        snprintf(header + at, sizeof header - at,
                 "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%d,%d]}%s", t ? "," : "", tensors[t], ROWS,
                 HEADS, t * BYTES, (t + 1) * BYTES, t + 1 < count ? "" : "}");
        for (int i = 0; i < NUMBERS; i++)
            data[t * NUMBERS + i] = number(t, i);
    }
    stored_safetensors(name, header, data, (size_t)(count * BYTES));
    return in_folder(name);
}

/* want < 0: no such table. */
static void check_table(const char *path, const char *group, int64_t layer, int want) {
    float out[NUMBERS];
    gyre_error err = {0, ""};
    for (int i = 0; i < NUMBERS; i++)
        out[i] = -7;
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, ROWS, HEADS);
    const gyre_status status = gyre_checkpoint_bias(path, group, layer, &to, &err);
    if (status != (want < 0 ? GYRE_EUNSUPPORTED : GYRE_OK)) fail_msg("%s layer %d: %s", group, (int)layer, err.text);
    for (int i = 0; i < NUMBERS; i++)
        if (out[i] != (want < 0 ? -7 : number(want, i))) fail_msg("%s layer %d: %g", group, (int)layer, (double)out[i]);
}

/* T5 has one table for all layers of a stack, UMT5 one for each. */
static void t5(void **state) {
    (void)state;
    static const char *const one[] = {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                                      "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                                      "encoder.block.5.layer.0.SelfAttention.q.weight",
                                      "decoder.block.11.layer.0.SelfAttention.q.weight"};
    static const char *const each[] = {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                                       "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight",
                                       "encoder.block.2.layer.0.SelfAttention.q.weight"};
    const char *path = file_of("t5.safetensors", one, 4);
    check_table(path, "encoder", 0, 0);
    check_table(path, "encoder", 5, 0);
    check_table(path, "decoder", 0, 1);
    check_table(path, "decoder", 11, 1);
    path = file_of("umt5.safetensors", each, 3);
    check_table(path, "encoder", 0, 0);
    check_table(path, "encoder", 1, 1);
    check_table(path, "encoder", 2, -1);
    check_table(path, "decoder", 0, -1);
}

static void others(void **state) {
    (void)state;
    static const char *const names[] = {
        "encoder.block.0.layer.0.LocalSelfAttention.relative_attention_bias.weight",
        "encoder.block.0.layer.0.TransientGlobalSelfAttention.relative_attention_bias.weight",
        "encoder.relative_attention_bias.weight", "mpnet.encoder.relative_attention_bias.weight"};
    for (int i = 0; i < 4; i++)
        check_table(file_of("other.safetensors", names + i, 1), i < 2 ? "encoder" : "all", 0, 0);
}

/* In a GGUF the fastest dimension comes first, and the numbers lie in the same order. */
static void gguf(void **state) {
    (void)state;
    static const uint64_t dims[2] = {HEADS, ROWS};
    static const char *const names[] = {"enc.blk.0.attn_rel_b.weight", "dec.blk.0.attn_rel_b.weight",
                                        "enc.blk.3.attn_q.weight"};
    made_gguf *made = made_begin(3);
    made_string(made, "general.architecture", "t5");
    for (int t = 0; t < 3; t++) {
        made_info(made, names[t], 2, dims, 0, made->data_bytes);
        for (int i = 0; i < NUMBERS; i++)
            made_number(made->data, &made->data_bytes, made_f32_bits(number(t, i)), 4);
    }
    stored_gguf("t5.gguf", made);
    free(made);
    check_table(in_folder("t5.gguf"), "encoder", 0, 0);
    check_table(in_folder("t5.gguf"), "all", 3, 0);
    check_table(in_folder("t5.gguf"), "decoder", 0, 1);
}

static void refused(const char *path, int64_t layer, int64_t rows, gyre_status status, const char *text) {
    float out[2 * NUMBERS];
    gyre_error err = {0, ""};
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F32, 1, 1, rows, HEADS);
    const gyre_status got = gyre_checkpoint_bias(path, "encoder", layer, &to, &err);
    if (got != status || !strstr(err.text, text)) fail_msg("%d, \"%s\"; wanted %d, \"%s\"", got, err.text, status, text);
}

static void refusals(void **state) {
    (void)state;
    static const char *const t5[] = {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
                             *const llama[] = {"model.norm.weight"};
    const char *path = file_of("t5.safetensors", t5, 1);
    refused(path, 0, ROWS + 1, GYRE_EFORMAT, "[4, 2], wanted [5 buckets, 2 heads]");
    refused(path, -1, ROWS, GYRE_EINVAL, "layer -1");
    refused(path, 1, ROWS, GYRE_EINVAL, "no layer 1 in the encoder");
    refused(NULL, 0, ROWS, GYRE_EINVAL, "NULL");
    refused(in_folder("absent.safetensors"), 0, ROWS, GYRE_EIO, "absent.safetensors");
    refused(file_of("llama.safetensors", llama, 1), 0, ROWS, GYRE_EUNSUPPORTED, "no tensor of a name that is known");

    const float bad[NUMBERS] = {0, 1, 2, (float)NAN};
    char header[STORED_HEADER];
    snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[4,2],\"data_offsets\":[0,%d]}}", t5[0], BYTES);
    stored_safetensors("bad.safetensors", header, bad, sizeof bad);
    refused(in_folder("bad.safetensors"), 0, ROWS, GYRE_EFORMAT, "element 3 is not a number");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(t5), cmocka_unit_test(others), cmocka_unit_test(gguf),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, make_empty_folder, remove_folder);
}
