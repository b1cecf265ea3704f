/* checkpoint_bias.c: the bias table of a checkpoint of another program, whose model Gyre may be unable to run. */
#include "core/view.h"
#include "files/printable_name.h"
#include "files/tensors/tensor_store.h"
#include "gyre/gyre_model.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 128 };

/* Names of the table of a layer.  %s: "encoder" or "decoder", in a GGUF "enc" or "dec"; %d: the layer, where each may have
 * its own. */
static const char *const names[] = {
    "%s.block.%d.layer.0.SelfAttention.relative_attention_bias.weight",      /* T5, mT5, UMT5, Switch Transformers */
    "%s.block.%d.layer.0.LocalSelfAttention.relative_attention_bias.weight", /* LongT5 */
    "%s.block.%d.layer.0.TransientGlobalSelfAttention.relative_attention_bias.weight",
    "%s.blk.%d.attn_rel_b.weight",             /* T5 in a GGUF */
    "%s.relative_attention_bias.weight",       /* MPNet's encoder */
    "mpnet.%s.relative_attention_bias.weight", /* the same in a model with a head */
};
enum { NAMES = sizeof names / sizeof *names };

/* *name = the pattern, filled in: %s comes before %d. */
static void fill_name(const char *pattern, const char *stack, int64_t layer, char name[MAX_NAME]) {
    const char *place = strstr(pattern, "%s"), *number = strstr(pattern, "%d");
    const int before = (int)(place - pattern);
    if (number)
        snprintf(name, MAX_NAME, "%.*s%s%.*s%" PRId64 "%s", before, pattern, stack, (int)(number - place - 2), place + 2,
                 layer, number + 2);
    else
        snprintf(name, MAX_NAME, "%.*s%s%s", before, pattern, stack, place + 2);
}

static int find_in_layer(const gyre_tensor_store *store, const char *stack, int64_t layer, gyre_file_tensor *tensor) {
    char name[MAX_NAME];
    for (int i = 0; i < NAMES; i++) {
        fill_name(names[i], stack, layer, name);
        if (gyre_tensor_store_find(store, name, tensor)) return 1;
    }
    return 0;
}

/* out = 1 if the file has a tensor of that layer of the stack. */
static int has_layer(const gyre_tensor_store *store, const char *stack, int64_t layer) {
    static const char *const beginnings[] = {"%s.block.%d.", "%s.blk.%d.", "%s.layer.%d.", "mpnet.%s.layer.%d."};
    char beginning[MAX_NAME];
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        fill_name(beginnings[i], stack, layer, beginning);
        for (int64_t t = 0; t < gyre_tensor_store_count(store); t++)
            if (strncmp(gyre_tensor_store_at(store, t).name, beginning, strlen(beginning)) == 0) return 1;
    }
    return 0;
}

/* T5 stores one table in the first layer, and all layers add it; UMT5 stores one in each. */
static gyre_status find_table(const gyre_tensor_store *store, const char *group, int64_t layer, gyre_file_tensor *tensor,
                              gyre_error *err) {
    const int decodes = strcmp(group, "decoder") == 0;
    const char *stack = gyre_tensor_store_gguf(store) ? decodes ? "dec" : "enc" : decodes ? "decoder" : "encoder";
    const char *path = gyre_tensor_store_path(store);
    if (layer > 0 && !has_layer(store, stack, layer))
        return gyre_fail(err, GYRE_EINVAL, "bias table: no layer %" PRId64 " in the %s (%s)", layer,
                         decodes ? "decoder" : "encoder", path);
    if (find_in_layer(store, stack, layer, tensor)) return GYRE_OK;
    if (!find_in_layer(store, stack, 1, tensor) && find_in_layer(store, stack, 0, tensor)) return GYRE_OK;
    return gyre_fail(err, GYRE_EUNSUPPORTED, "bias table: no tensor of a name that is known (%s)", path);
}

static gyre_status read_table(const gyre_file_tensor *t, int64_t rows, int64_t heads, float *out, gyre_error *err) {
    if (t->rank != 2 || t->shape[0] != rows || t->shape[1] != heads) {
        (void)gyre_fail(
            err, GYRE_EFORMAT,
            "%s: [%" PRId64 ", %" PRId64 "], wanted [%" PRId64 " buckets, %" PRId64 " heads] (%s, byte %" PRIu64 ")",
            gyre_make_printable(t->name, strlen(t->name)).text, t->shape[0], t->shape[1], rows, heads, t->file, t->offset);
        if (err) err->offset = t->offset;
        return GYRE_EFORMAT;
    }
    return gyre_stored_read(gyre_kernels_select(), t, out, err);
}

/* What is written is one block of floats. */
static gyre_status check_out(const gyre_view *out, gyre_error *err) {
    static const char where[] = "gyre_checkpoint_bias";
    const gyre_view dense = gyre_dense(out->data, out->dtype, 1, 1, out->shape[2], out->shape[3]);
    if (out->dtype != GYRE_DTYPE_F32) return gyre_fail(err, GYRE_EDTYPE, "out: is not F32 (%s)", where);
    if (out->shape[2] < 1 || out->shape[3] < 1)
        return gyre_fail(err, GYRE_ESHAPE, "out: %" PRId64 " rows, %" PRId64 " heads (%s)", out->shape[2], out->shape[3],
                         where);
    gyre_status status = gyre_shape_check(out->shape, dense.shape, "out", where, err);
    if (!status) status = gyre_output_check(out, "out", where, err);
    if (status || (out->stride[3] == 1 && (out->shape[2] == 1 || out->stride[2] == out->shape[3]))) return status;
    return gyre_fail(err, GYRE_ESHAPE, "out: is not dense (%s)", where);
}

gyre_status gyre_checkpoint_bias(const char *path, const char *group, int64_t layer, const gyre_view *out, gyre_error *err) {
    gyre_tensor_store *store = NULL;
    gyre_file_tensor tensor;
    if (!path || !group || !out)
        return gyre_fail(err, GYRE_EINVAL, "bias table: path, group and out are needed (NULL given)");
    if (layer < 0) return gyre_fail(err, GYRE_EINVAL, "bias table: layer %" PRId64 " (%s)", layer, path);
    gyre_status status = check_out(out, err);
    if (!status) status = gyre_tensor_store_open(&store, path, err);
    if (status) return status;
    status = find_table(store, group, layer, &tensor, err);
    if (!status) status = read_table(&tensor, out->shape[2], out->shape[3], out->data, err);
    if (!status) status = gyre_tensor_store_check(store, err);
    gyre_tensor_store_free(store);
    return status;
}
