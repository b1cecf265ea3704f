/* list_fields.c: the fields of gyre_config as data. */
#include "example.h"
#include "gyre/gyre_fields.h"

#include <string.h>

static void what_acts(void) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = GYRE_KIND_ROPE;
    config.rope.scaling = GYRE_SCALING_YARN;
    /* [gyre_config_field_at gyre_config_field_acts gyre_config_has] */
    const gyre_config_field *field;
    int acting = 0;
    for (int i = 0; (field = gyre_config_field_at(i)); i++)
        if (gyre_config_field_acts(&config, field)) acting++; /* rope.beta_fast does, rope.low_freq does not */
    expect(gyre_config_has(&config, "rope.beta_fast") && !gyre_config_has(&config, "rope.low_freq"));
    /* [end] */
    expect(acting > 10);
}

static void by_name(void) {
    gyre_config config = GYRE_INIT(gyre_config);
    /* [gyre_config_find_field gyre_config_set gyre_config_get] */
    const gyre_config_field *base = gyre_config_find_field("rope.base");
    gyre_config_set(&config, base, (gyre_field_value){.number = 500000});
    expect(gyre_config_get(&config, base).number == 500000 && config.rope.base == 500000);
    /* [end] */

    /* [gyre_config_field_switch] */
    const gyre_config_field *factor = gyre_config_find_field("rope.factor");
    printf("%s needs %s\n", factor->name, gyre_config_field_switch(factor)->name); /* rope.scaling */
    /* [end] */
    expect(gyre_config_field_switch(base) == NULL);

    /* [gyre_config_unscale gyre_config_clear_unused] */
    gyre_config plain = config;
    gyre_config_unscale(&plain); /* the frequencies of the base */
    plain.rope.far = GYRE_FAR_AS_NEAR;
    gyre_config_clear_unused(&plain); /* far_window, which would be refused without rope.far */
    /* [end] */
    expect(plain.rope.scaling == GYRE_SCALING_NONE && plain.rope.far_window == 0 && plain.rope.base == 500000);

    /* [gyre_field_spelling gyre_field_find_value] */
    const gyre_config_field *layout = gyre_config_find_field("rope.layout");
    int value;
    if (gyre_field_find_value(layout, "interleaved", &value)) printf("%s\n", gyre_field_spelling(layout, value));
    /* [end] */
    expect(value == GYRE_LAYOUT_INTERLEAVED);

    config.head_dim = 128;
    /* [gyre_config_list_length] */
    const gyre_config_field *factors = gyre_config_find_field("rope.long_factor");
    expect(gyre_config_list_length(&config, factors) == 64); /* a number for each pair of head_dim 128 */
    /* [end] */
}

static void parts_of_layers(void) {
    /* [gyre_head_part_facts_at] */
    const gyre_head_part_facts *part;
    int before = 0; /* parts in front of a rotation: methods change it as they change a plain one */
    for (int i = 0; (part = gyre_head_part_facts_at(i)); i++)
        before += !part->replaces_rotation;
    /* [end] */
    expect(before > 0);
}

static void names(void) {
    /* [gyre_scaling_name gyre_rope_type gyre_layout_name gyre_length_policy_name] */
    expect(strcmp(gyre_scaling_name(GYRE_SCALING_NONE), "none") == 0);
    expect(strcmp(gyre_rope_type(GYRE_SCALING_NONE), "default") == 0); /* in config.json */
    expect(strcmp(gyre_layout_name(GYRE_LAYOUT_HALF), "half") == 0);
    expect(strcmp(gyre_length_policy_name(GYRE_LENGTH_POLICY_CAUSAL), "causal") == 0);
    /* [end] */
}

int main(void) {
    what_acts();
    by_name();
    parts_of_layers();
    names();
    return 0;
}
