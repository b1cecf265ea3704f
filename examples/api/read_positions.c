/* read_positions.c: the positions that a config.json means, and a copy of it that means others.
 *   read_positions FOLDER CONFIG    CONFIG: that of Llama 3.1 8B */
#include "example.h"
#include <gyre/gyre_reading.h>

static void read_file(const char *path) {
    /* [gyre_reading_open gyre_reading_free] */
    gyre_reading *reading = NULL;
    check(gyre_reading_open(&reading, path, NULL, &err));
    const gyre_layer_reading *layers = reading->groups[0]; /* most layers; Llama has no other group */
    gyre_encoding *encoding = NULL;
    check(gyre_encoding_create(&encoding, &layers->config, NULL, &err));
    for (int64_t i = 0; i < layers->fields_count; i++)
        if (layers->fields[i].line > 0) /* a key of the file */
            printf("%s = %s (%s:%d)\n", layers->fields[i].name, layers->fields[i].value, reading->path,
                   (int)layers->fields[i].line);
    gyre_reading_free(reading); /* the encoding has a copy of what it needs */
    /* [end] */

    double inv_freq[64];
    check(gyre_encoding_frequencies(encoding, 0, inv_freq, NULL));
    expect(inv_freq[0] == 1);                                         /* wavelength below 8192 / 4: kept */
    expect(near(inv_freq[63] * 8, pow(500000, -126.0 / 128), 1e-12)); /* above 8192 / 1: divided by 8 */
    gyre_encoding_free(encoding);
}

static void read_memory(void) {
    /* [gyre_reading_parse] */
    static const char json[] = "{\"model_type\": \"llama\", \"hidden_size\": 256, \"num_attention_heads\": 4,"
                               " \"num_hidden_layers\": 2, \"max_position_embeddings\": 2048,"
                               " \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}";
    gyre_reading *reading = NULL;
    check(gyre_reading_parse(&reading, json, strlen(json),
                             GYRE_ARGS(gyre_reading_options, .profile = GYRE_PROFILE_HF_4_56, .name = "config.json"), &err));
    const gyre_config *config = &reading->groups[0]->config;
    expect(config->kind == GYRE_KIND_ROPE && config->head_dim == 64);
    expect(config->rope.scaling == GYRE_SCALING_LINEAR && config->rope.factor == 4);
    gyre_reading_free(reading);
    /* [end] */
}

static void write_stretched(const char *path, const char *folder) {
    char target[4096];
    snprintf(target, sizeof target, "%s/stretched.json", folder);

    /* [gyre_reading_write] */
    gyre_config position = GYRE_INIT(gyre_config); /* YaRN to 512k tokens in place of the model's own scaling */
    position.kind = GYRE_KIND_ROPE;
    position.head_dim = 128;
    position.trained_length = 131072;
    position.rope.base = 500000;
    position.rope.scaling = GYRE_SCALING_YARN;
    position.rope.factor = 4;
    check(gyre_reading_write(path, &position, 524288, target, &err));
    /* [end] */

    gyre_reading *reading = NULL;
    check(gyre_reading_open(&reading, target, NULL, &err));
    expect(reading->groups[0]->config.rope.scaling == GYRE_SCALING_YARN && reading->groups[0]->config.rope.factor == 4);
    gyre_reading_free(reading);
}

int main(int argc, char **argv) {
    if (argc < 3) return fprintf(stderr, "usage: read_positions FOLDER CONFIG\n"), 2;
    read_file(argv[2]);
    read_memory();
    write_stretched(argv[2], argv[1]);

    /* [gyre_profile_name] */
    for (int p = GYRE_PROFILE_DEFAULT + 1; gyre_profile_name((gyre_profile)p) != NULL; p++)
        printf("%s ", gyre_profile_name((gyre_profile)p));
    printf("\n");
    expect(strcmp(gyre_profile_name(GYRE_PROFILE_HF_5), "hf-5") == 0);
    /* [end] */

    /* [gyre_profile_find] */
    expect(gyre_profile_find("vllm-2026.05") == GYRE_PROFILE_VLLM_2026_05);
    expect(gyre_profile_find("vllm") == GYRE_PROFILE_VLLM); /* the newest */
    expect(gyre_profile_find("vllm-1999") == GYRE_PROFILE_DEFAULT);
    /* [end] */

    /* [gyre_profile_alias] */
    expect(strcmp(gyre_profile_alias(GYRE_PROFILE_VLLM), "vllm") == 0);
    expect(gyre_profile_alias(GYRE_PROFILE_VLLM_2026_05) == NULL);
    /* [end] */

    /* [gyre_profile_is_trainer] */
    expect(gyre_profile_is_trainer(GYRE_PROFILE_AXOLOTL) && !gyre_profile_is_trainer(GYRE_PROFILE_HF_5));
    /* [end] */

    /* [gyre_profile_title] */
    expect(strcmp(gyre_profile_title(GYRE_PROFILE_VLLM_2026_05), "vLLM of May 2026") == 0);
    /* [end] */
    return 0;
}
