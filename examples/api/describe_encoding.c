/* describe_encoding.c: a scheme from a config, and everything that an encoding tells about itself. */
#include "example.h"
#include "gyre/gyre_device.h"
#include "gyre/gyre_fields.h"

static void scaled_rope(void) {
    /* [gyre_encoding_create gyre_encoding_get_config gyre_encoding_places] */
    gyre_config config = GYRE_INIT(gyre_config); /* zero is the default of every field */
    config.kind = GYRE_KIND_ROPE;
    config.head_dim = 128;
    config.trained_length = 4096;
    config.rope.scaling = GYRE_SCALING_YARN;
    config.rope.factor = 16;
    gyre_encoding *yarn = NULL;
    check(gyre_encoding_create(&yarn, &config, NULL, &err));
    expect(gyre_encoding_get_config(yarn)->rope.base == 10000); /* the default, filled in */
    expect(gyre_encoding_places(yarn) == GYRE_PLACE_QUERY_KEY); /* acts on queries and keys only */
    /* [end] */

    /* [gyre_encoding_frequencies] */
    double inv_freq[64], attention_factor; /* rope.dim / 2 pairs */
    check(gyre_encoding_frequencies(yarn, 0, inv_freq, &attention_factor));
    expect(inv_freq[0] == 1);                                         /* the fastest pair, as trained */
    expect(near(inv_freq[63], pow(10000, -126.0 / 128) / 16, 1e-12)); /* the slowest, divided by the factor */
    expect(near(attention_factor, 0.1 * log(16) + 1, 1e-12));
    /* [end] */

    /* [gyre_encoding_phases] */
    uint64_t increments[64];
    check(gyre_encoding_phases(yarn, 0, increments, NULL, &attention_factor, &err));
    /* What a kernel computes of a position and an increment, without doubles: gyre_device.h. */
    const gyre_device_angle at = gyre_device_cos_sin(gyre_device_phase(increments[0], 1000000), (float)attention_factor);
    expect(near((double)at.cosine, cos(1000000) * attention_factor, 1e-6));
    /* [end] */

    /* [gyre_encoding_scaling_parts] */
    gyre_scaling_parts parts;
    check(gyre_encoding_scaling_parts(yarn, 0, &parts));
    printf("YaRN keeps %d pairs, blends %d and divides %d\n", (int)parts.kept, (int)parts.blended, (int)parts.divided);
    /* [end] */
    expect(parts.kept + parts.blended + parts.divided == 64 && parts.kept > 0 && parts.divided > 0);
    gyre_encoding_free(yarn);
}

static void slopes(void) {
    gyre_encoding *alibi = NULL;
    check(gyre_alibi_create(&alibi, 8, &err));

    double slopes[8]; /* one per head */
    check(gyre_encoding_slopes(alibi, 0, slopes));
    expect(slopes[0] == 0.5 && slopes[7] == 1.0 / 256);
    gyre_encoding_free(alibi);

    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ALIBI;
    config.heads = 8;
    config.trained_length = 2048;
    config.score.slope_scaling = GYRE_SLOPE_SCALING_LINEAR; /* without a factor: by how far a context is past 2048 tokens */
    check(gyre_encoding_create(&alibi, &config, NULL, &err));
    /* [gyre_encoding_slopes] */
    check(gyre_encoding_slopes(alibi, 8192, slopes));
    expect(slopes[0] == 0.125); /* a quarter of 0.5 */
    /* [end] */
    gyre_encoding_free(alibi);
}

static void bias_table(void) {
    /* [gyre_config_suggest] */
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_T5;
    config.heads = 12;
    check(gyre_config_suggest(&config));
    expect(config.score.buckets == 32 && config.score.max_distance == 128); /* as in the paper */
    /* [end] */
    gyre_encoding *t5 = NULL;
    check(gyre_encoding_create(&t5, &config, NULL, &err));

    /* [gyre_encoding_table_shape] */
    int64_t shape[4];
    check(gyre_encoding_table_shape(t5, GYRE_TABLE_BIAS, shape));
    expect(shape[2] == 32 && shape[3] == 12); /* [1, 1, buckets, heads]: how much to allocate, load or train */
    check(gyre_encoding_table_shape(t5, GYRE_TABLE_QUERY, shape));
    expect(shape[2] == 0); /* no such table in T5 */
    /* [end] */

    /* [gyre_encoding_row] */
    int64_t near_row, far_row;
    check(gyre_encoding_row(t5, 100, 97, &near_row)); /* query at 100, key at 97 */
    check(gyre_encoding_row(t5, 5000, 0, &far_row));
    expect(near_row == 3); /* close distances have a bucket each */
    expect(far_row == 31); /* all that are far away share the last */
    /* [end] */
    gyre_encoding_free(t5);
}

int main(void) {
    scaled_rope();
    slopes();
    bias_table();

    /* [gyre_kind_name gyre_kind_find] */
    for (int kind = 1; gyre_kind_name((gyre_kind)kind) != NULL; kind++)
        printf("%s ", gyre_kind_name((gyre_kind)kind));
    printf("\n");
    expect(strcmp(gyre_kind_name(GYRE_KIND_TRANSFORMER_XL), "transformer-xl") == 0);
    expect(gyre_kind_find("alibi") == GYRE_KIND_ALIBI && gyre_kind_find("unknown") == 0);
    /* [end] */

    /* [gyre_kind_has gyre_kind_places] */
    for (int kind = 1; gyre_kind_name((gyre_kind)kind) != NULL; kind++)
        if (gyre_kind_has((gyre_kind)kind, GYRE_TRAIT_ENDS))
            printf("%s has no position past its table\n", gyre_kind_name((gyre_kind)kind));
    expect(gyre_kind_has(GYRE_KIND_ROPE, GYRE_TRAIT_ROTATES) && !gyre_kind_has(GYRE_KIND_ALIBI, GYRE_TRAIT_ROTATES));
    expect(gyre_kind_places(GYRE_KIND_SHAW) == (GYRE_PLACE_SCORE | GYRE_PLACE_VALUE));
    /* [end] */
    return 0;
}
