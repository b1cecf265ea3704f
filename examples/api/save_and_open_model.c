/* save_and_open_model.c: a small Llama with random weights, in memory, in a folder and in a GGUF.
 *   save_and_open_model FOLDER */
#include "example.h"
#include <gyre/gyre_research.h>

/* [gyre_model_create gyre_model_parameters] */
static gyre_model *create(void) {
    gyre_model_config config = GYRE_INIT(gyre_model_config); /* vocab 256: bytes */
    config.model_dim = 32, config.layers = 2, config.heads = 4, config.mlp_dim = 64;
    config.position.kind = GYRE_KIND_ROPE;
    config.position.trained_length = 128;
    gyre_model *model = NULL;
    check(gyre_model_create(&model, &config, 1, &err)); /* seed 1 */
    /* embedding, last norm, and in each layer four square matrices, three of the mlp and two norms */
    expect(gyre_model_parameters(model) == 256 * 32 + 32 + 2 * (4 * 32 * 32 + 3 * 32 * 64 + 2 * 32));
    return model;
}
/* [end] */

static void ask(const gyre_model *model) {
    /* [gyre_model_get_config gyre_model_get_encoding] */
    expect(gyre_model_get_config(model)->head_dim == 8); /* model_dim / heads, filled in */
    const gyre_encoding *encoding = gyre_model_get_encoding(model);
    double inv_freq[4];
    check(gyre_encoding_frequencies(encoding, 0, inv_freq, NULL));
    expect(near(inv_freq[1], 0.1, 1e-12)); /* base 10000, 4 pairs: 1, 1/10, 1/100, 1/1000 */
    /* [end] */
}

static void ask_for_table(void) {
    /* [gyre_model_get_input_table] */
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    config.model_dim = 32, config.layers = 1;
    config.position.kind = GYRE_KIND_LEARNED;
    config.position.input.positions = 100;
    gyre_model *learned = NULL;
    check(gyre_model_create(&learned, &config, 1, &err));
    const gyre_cview table = gyre_model_get_input_table(learned);
    expect(table.shape[2] == 100 && table.shape[3] == 32); /* a row for each position */
    /* [end] */
    gyre_model_free(learned);
}

static void ask_for_bias(void) {
    /* [gyre_model_get_bias_table] */
    gyre_model_config config = GYRE_INIT(gyre_model_config);
    config.model_dim = 32, config.layers = 1;
    config.position.kind = GYRE_KIND_T5;
    config.position.score.buckets = 32, config.position.score.max_distance = 128;
    gyre_model *t5 = NULL;
    check(gyre_model_create(&t5, &config, 1, &err));
    const gyre_cview table = gyre_model_get_bias_table(t5, 0);
    expect(table.shape[2] == 32 && table.shape[3] == gyre_model_get_config(t5)->heads); /* a number a bucket and head */
    /* [end] */
    gyre_model_free(t5);
}

/* A T5 of two heads and four buckets, with nothing in it but the table of its encoder. */
static void write_t5(const char *path) {
    const char *header = "{\"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight\":"
                         "{\"dtype\":\"F32\",\"shape\":[4,2],\"data_offsets\":[0,32]}}";
    const float learned[4][2] = {{1, 2}, {0, 1}, {-1, 1}, {-3, 0}};
    const unsigned char length[8] = {(unsigned char)strlen(header)};
    FILE *file = fopen(path, "wb");
    expect(file && fwrite(length, 8, 1, file) && fwrite(header, strlen(header), 1, file) &&
           fwrite(learned, sizeof learned, 1, file) && fclose(file) == 0);
}

static void ask_checkpoint(const char *folder) {
    char path[4200];
    snprintf(path, sizeof path, "%s-t5.safetensors", folder);
    write_t5(path);
    /* [gyre_checkpoint_bias] */
    float table[4 * 2]; /* buckets, heads: as the model's config.json says them */
    const gyre_view view = gyre_dense(table, GYRE_DTYPE_F32, 1, 1, 4, 2);
    check(gyre_checkpoint_bias(path, "encoder", 0, &view, &err));
    const gyre_tables tables = {.bias = gyre_const(view)}; /* of a T5 encoding */
    /* [end] */
    expect(tables.bias.shape[2] == 4 && table[3 * 2] == -3);

    /* [gyre_stored_positions_open gyre_stored_positions_free] */
    gyre_stored_positions *stored = NULL;
    check(gyre_stored_positions_open(&stored, path, &err));
    for (int64_t i = 0; i < stored->count; i++)
        printf("%s: layer %d, %d rows\n", stored->tensors[i].name, (int)stored->tensors[i].layer,
               (int)stored->tensors[i].shape[0]);
    /* [end] */
    expect(stored->count == 1 && stored->tensors[0].kind == GYRE_STORED_POSITION_BUCKETS);
    gyre_stored_positions_free(stored);
}

static void open_saved(const char *folder, int64_t parameters) {
    /* [gyre_model_check] */
    check(gyre_model_check(folder, &err)); /* its config is of a family that runs; weights are not read */
    /* [end] */

    /* [gyre_model_open gyre_model_free] */
    gyre_model *model = NULL;
    check(gyre_model_open(&model, folder, NULL, &err)); /* or a GGUF */
    expect(gyre_model_parameters(model) == parameters);
    gyre_model_free(model); /* after the contexts that borrow it */
    /* [end] */
}

static void check_weights(const char *folder) {
    /* [gyre_weight_faults_open gyre_weight_faults_free] */
    gyre_weight_faults *faults = NULL;
    check(gyre_weight_faults_open(&faults, folder, NULL, 32, &err)); /* 32 texts at most */
    for (int64_t i = 0; i < faults->count; i++)
        printf("%s\n", faults->texts[i]);
    /* [end] */
    expect(faults->in_all == 0 && !faults->unchecked && faults->vocab == 256);
    gyre_weight_faults_free(faults);

    /* [gyre_weight_doubts_open] */
    gyre_weight_faults *doubts = NULL;
    check(gyre_weight_doubts_open(&doubts, folder, 32, &err));
    for (int64_t i = 0; i < doubts->count; i++)
        printf("%s\n", doubts->texts[i]); /* "lm_head.weight: element 3 has a magnitude of 70144, ..." */
    /* [end] */
    expect(doubts->in_all == 0);
    gyre_weight_faults_free(doubts);
}

static void describe(const gyre_model *model) {
    /* [gyre_model_get_source] */
    gyre_model_source source = GYRE_INIT(gyre_model_source);
    check(gyre_model_get_source(model, &source));
    printf("%s of %s in %s, %d bytes, read as %s\n", source.family, source.stored, source.format, (int)source.bytes,
           gyre_profile_name(source.profile));
    /* [end] */
    expect(strcmp(source.format, "safetensors") == 0 && strcmp(source.stored, "BF16") == 0);

    /* [gyre_model_hash] */
    uint64_t hash;
    check(gyre_model_hash(model, &hash, &err)); /* names these weights in a report */
    expect(hash != 0);
    /* [end] */
}

static void open_longer(const char *folder) {
    /* [gyre_model_open gyre_model_position_for_length] */
    gyre_reading_options options = GYRE_INIT(gyre_reading_options);
    options.profile = GYRE_PROFILE_VLLM, options.context_length = 512; /* 512 tokens, as vLLM would */
    gyre_model *model = NULL;
    check(gyre_model_open(&model, folder, &options, &err));

    gyre_config longer = GYRE_INIT(gyre_config);
    gyre_reading *reading = NULL; /* owns the arrays of `longer` */
    check(gyre_model_position_for_length(model, 1024, &longer, &reading, &err));
    expect(longer.context_length == 1024); /* begin here to try a scaling of your own */
    gyre_reading_free(reading);
    gyre_model_free(model);
    /* [end] */
}

int main(int argc, char **argv) {
    if (argc < 2) return fprintf(stderr, "usage: save_and_open_model FOLDER\n"), 2;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/small-llama", argv[1]);
    gyre_model *made = create(), *opened = NULL, *again = NULL;
    ask(made);
    ask_for_table();
    ask_for_bias();
    ask_checkpoint(folder);

    /* [gyre_model_save] */
    check(gyre_model_save(made, folder, GYRE_DTYPE_BF16, &err)); /* config.json and model.safetensors */
    /* [end] */
    open_saved(folder, gyre_model_parameters(made));
    check_weights(folder);

    /* [gyre_model_open_to_train] */
    check(gyre_model_open_to_train(&again, folder, &err)); /* weights as floats in memory: a start for gyre_trainer_create */
    expect(gyre_model_parameters(again) == gyre_model_parameters(made));
    /* [end] */
    check(gyre_model_open(&opened, folder, NULL, &err));
    describe(opened);
    open_longer(folder);
    gyre_model_free(again);
    gyre_model_free(opened);
    gyre_model_free(made);
    return 0;
}
