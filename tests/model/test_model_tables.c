/* test_model_tables.c: the position tables of a model: tensors, initial values, and files without them. */
#include "core/view.h"
#include "files/replace_folder.h"
#include "files/tensors/safetensors.h"
#include "make_small_model.h"
#include "model/layer_tables.h"
#include "model/model.h"
#include "naive_positions.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fails where a test left another file behind. */
static int remove_files(void **state) {
    (void)state;
    unlink(in_folder("m/config.json"));
    unlink(in_folder("m/model.safetensors"));
    rmdir(in_folder("m"));
    return rmdir(folder);
}

/* Fails unless the tensor has this shape; {0, 0}: unless there is no such tensor. */
static void assert_tensor(const gyre_model *model, const char *name, int64_t rows, int64_t columns, int decays) {
    for (int64_t i = 0; i < gyre_tensor_count(&model->layout); i++) {
        const gyre_tensor tensor = gyre_tensor_at(&model->layout, i);
        if (strcmp(tensor.name, name) != 0) continue;
        if (tensor.shape[0] != rows || tensor.shape[1] != columns || tensor.has_weight_decay != decays)
            fail_msg("%s: %lld x %lld, decays %d", name, (long long)tensor.shape[0], (long long)tensor.shape[1],
                     tensor.has_weight_decay);
        return;
    }
    if (rows) fail_msg("no %s", name);
}

static void test_layout_of_tables(void **state) {
    (void)state;
    gyre_model_config c = small_config(GYRE_KIND_T5);
    c.position.score.buckets = 8;
    gyre_model *model = create(&c, 1);
    assert_tensor(model, "model.layers.1.self_attn.position_bias.weight", 8, 4, 0);
    gyre_model_free(model);
    c = small_config(GYRE_KIND_SHAW);
    c.position.score.max_distance = 3;
    model = create(&c, 1);
    assert_tensor(model, "model.layers.0.self_attn.position_query.weight", 7, 8, 1);
    assert_tensor(model, "model.layers.0.self_attn.position_key.weight", 0, 0, 0);
    assert_tensor(model, "model.layers.1.self_attn.position_value.weight", 7, 8, 1);
    assert_tensor(model, "model.rel_embeddings.weight", 0, 0, 0);
    gyre_model_free(model);
    c = small_config(GYRE_KIND_BERT); /* one embedding for queries and keys */
    c.position.score.max_positions = 5;
    c.position.score.terms = GYRE_TERM_QUERY | GYRE_TERM_KEY;
    model = create(&c, 1);
    assert_tensor(model, "model.layers.0.self_attn.position_query.weight", 9, 8, 1);
    assert_tensor(model, "model.layers.0.self_attn.position_key.weight", 0, 0, 0);
    gyre_model_free(model);
    c = small_config(GYRE_KIND_DEBERTA);
    c.position.score.max_distance = 6;
    model = create(&c, 1);
    assert_tensor(model, "model.rel_embeddings.weight", 12, 24, 1);
    assert_tensor(model, "model.layers.0.self_attn.position_query.weight", 32, 24, 1);
    assert_tensor(model, "model.layers.1.self_attn.position_key.weight", 32, 24, 1);
    gyre_model_free(model);
}

/* KERPLE's authors draw r1 from (0, 2) and r2 from (0, 1); for the power variant it is the other way round. */
static void test_initial_tables(void **state) {
    (void)state;
    for (int decay = GYRE_DECAY_LOG; decay <= GYRE_DECAY_POWER; decay++) {
        gyre_model_config c = small_config(GYRE_KIND_KERPLE);
        c.position.score.decay = (gyre_decay)decay;
        gyre_model *model = create(&c, 1);
        const float *r = model->weights + model->layout.layers_offset + model->layout.weights_per_layer - 8;
        const float wide[4] = {1.75f, 1.25f, 0.75f, 0.25f}, narrow[4] = {0.875f, 0.625f, 0.375f, 0.125f};
        assert_memory_equal(r + (decay == GYRE_DECAY_LOG ? 0 : 4), wide, sizeof wide);
        assert_memory_equal(r + (decay == GYRE_DECAY_LOG ? 4 : 0), narrow, sizeof narrow);
        gyre_model_free(model);
    }
    gyre_model_config c = small_config(GYRE_KIND_SHAW);
    c.position.score.max_distance = 200;
    gyre_model *model = create(&c, 1);
    const float *table = model->weights + gyre_layer_tensor_offset(&model->layout, 1, GYRE_WEIGHT_FIRST_TABLE);
    assert_true(fabs(deviation_of(table, 401 * 8) / 0.05 - 1) < 0.1);
    gyre_table_entry entry = {7, 7, 7, 7};
    assert_int_equal(gyre_encoding_table_entry(model->encoding, GYRE_TABLE_QUERY, 0, 401, 0, &entry), GYRE_EINVAL);
    assert_int_equal(gyre_encoding_table_entry(model->encoding, GYRE_TABLE_QUERY, 1, 0, 0, &entry), GYRE_EINVAL);
    assert_int_equal(gyre_encoding_table_entry(model->encoding, GYRE_TABLE_QUERY, 0, 0, 8, &entry), GYRE_EINVAL);
    assert_int_equal(gyre_encoding_table_entry(model->encoding, GYRE_TABLE_KEY, 0, 0, 0, &entry), GYRE_EINVAL);
    assert_int_equal(gyre_encoding_table_entry(NULL, GYRE_TABLE_KEY, 0, 0, 0, &entry), GYRE_EINVAL);
    assert_true(entry.initial_mean == 7);
    gyre_model_free(model);
}

/* Writes the model's tensors with one left out (how = -1), with one flattened to one row (1), or with an extra bias that no
 * scheme here has (2). */
static void rewrite(const gyre_model *model, int64_t which, int how) {
    gyre_tensor tensors[48];
    gyre_safetensors_input list[49];
    const int64_t count = gyre_tensor_count(&model->layout);
    int64_t n = 0;
    assert_true(count <= 48);
    for (int64_t i = 0; i < count; i++) {
        const gyre_tensor t = tensors[n] = gyre_tensor_at(&model->layout, i);
        const int flat = i == which && how == 1;
        if (i == which && how < 0) continue;
        list[n] = (gyre_safetensors_input){tensors[n].name,
                                           t.rank,
                                           {flat ? 1 : t.shape[0], flat ? t.shape[0] * t.shape[1] : t.shape[1]},
                                           model->weights + t.offset,
                                           0};
        n++;
    }
    if (how == 2)
        list[n++] = (gyre_safetensors_input){"model.layers.0.self_attn.position_bias.weight", 2, {2, 4}, model->weights, 0};
    assert_ok(gyre_safetensors_write(in_folder("m/model.safetensors"), list, n, GYRE_DTYPE_F32, NULL));
}

/* Every position table of every kind must be there and have its shape. */
static void test_refuses_tables(void **state) {
    (void)state;
    gyre_model_config c = small_config(GYRE_KIND_NOPE);
    for (int i = 0; naive_case(i, 64, &c.position); i++) {
        gyre_model *model = create(&c, 3);
        const int64_t count = gyre_tensor_count(&model->layout);
        for (int64_t t = 0; t < count; t++) {
            const gyre_tensor tensor = gyre_tensor_at(&model->layout, t);
            char why[160];
            if (!strstr(tensor.name, "position") && !strstr(tensor.name, "rel_embeddings")) continue;
            save(model, "m", GYRE_DTYPE_F32);
            rewrite(model, t, -1);
            snprintf(why, sizeof why, "no tensor %s", tensor.name);
            assert_open_fails("m", GYRE_EFORMAT, why);
            rewrite(model, t, 1);
            snprintf(why, sizeof why, "%s: shape [1, %lld], not [%lld, ", tensor.name,
                     (long long)(tensor.shape[0] * tensor.shape[1]), (long long)tensor.shape[0]);
            if (tensor.shape[0] > 1) assert_open_fails("m", GYRE_EFORMAT, why);
            rewrite(model, t, 0);
            gyre_model_free(open_model("m"));
        }
        gyre_model_free(model);
    }
    /* A table that the scheme does not have. */
    c = small_config(GYRE_KIND_ALIBI);
    gyre_model *model = create(&c, 3);
    save(model, "m", GYRE_DTYPE_F32);
    rewrite(model, 0, 2);
    assert_open_fails("m", GYRE_EFORMAT, "position_bias.weight: no tensor of the model");
    gyre_model_free(model);
}

/* Fails unless the query tables of all layers are P W^T. */
static void assert_projected(const gyre_layer_tables *t) {
    const gyre_weight_layout *layout = &t->model->layout;
    const float *embedding = t->model->weights + layout->relative_embedding.offset;
    const int64_t dim = t->model->config.model_dim;
    for (int64_t l = 0; l < t->model->config.layers; l++) {
        const float *w = t->model->weights + gyre_layer_tensor_offset(layout, l, GYRE_WEIGHT_FIRST_TABLE);
        const gyre_cview *table = &t->layer[l].query;
        for (int64_t head = 0; head < table->shape[1]; head++)
            for (int64_t row = 0; row < table->shape[2]; row++)
                for (int64_t c = 0; c < table->shape[3]; c++) {
                    double sum = 0;
                    for (int64_t k = 0; k < dim; k++)
                        sum += (double)embedding[row * dim + k] * (double)w[(head * table->shape[3] + c) * dim + k];
                    test_close((double)*(const float *)gyre_cview_at(table, 0, head, row, c), sum, 1e-6, "projected table");
                }
    }
}

/* More layers than jobs, and a number that the jobs do not divide. */
static void test_projects_every_layer(void **state) {
    gyre_model_config c = small_config(GYRE_KIND_DEBERTA);
    gyre_layer_tables tables;
    gyre_pool *pool = NULL;
    (void)state;
    c.layers = 19;
    c.position.score.max_distance = 6;
    gyre_model *model = create(&c, 1);
    assert_ok(gyre_pool_create(&pool, 2, NULL));
    assert_ok(gyre_layer_tables_create(&tables, model, model->encoding, NULL));
    assert_projected(&tables);
    for (int64_t i = 0; i < model->weight_count; i++)
        model->weights[i] *= -2;
    const gyre_exec exec = gyre_pool_exec(pool);
    gyre_layer_tables_refresh(&tables, &exec);
    assert_projected(&tables);
    gyre_layer_tables_free(&tables);
    gyre_pool_free(pool);
    gyre_model_free(model);
}

/* Queries have channels of their own for it, which are counted before there is an encoding. */
static void test_refuses_relative_channels(void **state) {
    gyre_model_config config = small_config(GYRE_KIND_INKLING);
    const int64_t channels[] = {-1, -config.head_dim, INT64_MIN, INT64_MAX, (1 << 20) + 1};
    (void)state;
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        gyre_model *model = NULL;
        gyre_error err = {0, ""};
        config.position.score.relative_channels = channels[i];
        assert_int_equal(gyre_model_create(&model, &config, 1, &err), GYRE_EINVAL);
        if (!strstr(err.text, "score.relative_channels: ")) fail_msg("\"%s\"", err.text);
        assert_null(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_of_tables),
        cmocka_unit_test(test_initial_tables),
        cmocka_unit_test(test_refuses_tables),
        cmocka_unit_test(test_projects_every_layer),
        cmocka_unit_test(test_refuses_relative_channels),
    };
    return cmocka_run_group_tests(tests, make_empty_folder, remove_files);
}
