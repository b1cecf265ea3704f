/* fuzz_tensor_store.c: uses the tensors of a model in every possible way. */
#include "fuzz_tensor_store.h"

#include "fuzz_support.h"

#include "files/tensors/tensor_store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void use_tensor(const gyre_tensor_store *store, const gyre_file_tensor *t) {
    const gyre_kernels *kernels = gyre_kernels_select();
    gyre_file_tensor found;
    gyre_error err = {0, ""};
    int64_t count = 1;
    fuzz_require(gyre_tensor_store_find(store, t->name, &found) == 1, "a tensor is found by its name");
    fuzz_require(strcmp(found.name, t->name) == 0 && found.offset == t->offset, "and is itself");
    fuzz_require(t->offset <= (uint64_t)gyre_tensor_store_bytes(store) && strlen(t->file) + strlen(t->file_dtype) > 0,
                 "its words");
    const gyre_status checked = gyre_stored_check_finite(kernels, t, &err);
    fuzz_require((!checked) == (err.text[0] == '\0'), "a failure has a text");
    fuzz_require((t->type == GYRE_STORED_OTHER) == (checked == GYRE_EUNSUPPORTED), "a type is read or unsupported");
    if (t->type == GYRE_STORED_OTHER) return;
    for (int i = 0; i < 4; i++)
        count = t->shape[i] == 0 ? 0 : count; /* the sizes of an empty tensor may have a product that overflows */
    for (int i = 0; i < 4 && count > 0; i++)
        count *= t->shape[i];
    fuzz_require(t->rank <= 4 && count == t->count, "a shape is that of the numbers");
    fuzz_require((uint64_t)gyre_stored_row_bytes(t->type, t->count) == t->bytes, "and they fill its bytes");
    float *out = malloc((size_t)t->count * sizeof *out + 1);
    if (!out) return;
    fuzz_require(gyre_stored_read(kernels, t, out, &err) == checked, "what passes the check can be read");
    for (int64_t i = 0; i < t->count && !checked; i++)
        fuzz_require(isfinite(out[i]), "what is read is finite");
    gyre_stored_dequantize(kernels, t->type, t->data, out, t->count); /* for any numbers */
    free(out);
    gyre_stored_release_pages(t);
}

void fuzz_store(const char *path) {
    gyre_tensor_store *store = NULL;
    gyre_error err = {0, ""};
    uint64_t hash = 0;
    const gyre_status status = gyre_tensor_store_open(&store, path, &err);
    fuzz_require((!status) == (store != NULL), "a failure leaves no store");
    fuzz_require(!status || err.text[0] != '\0', "a failure has a text");
    if (!store) return;
    for (int64_t i = 0; i < gyre_tensor_store_count(store); i++) {
        const gyre_file_tensor t = gyre_tensor_store_at(store, i);
        fuzz_require(i == 0 || strcmp(gyre_tensor_store_at(store, i - 1).name, t.name) < 0,
                     "tensors are in order, none twice");
        use_tensor(store, &t);
    }
    fuzz_require(!gyre_tensor_store_hash(store, &hash, &err), "a store has a hash");
    gyre_tensor_store_free(store);
}
