/* extend_patch.c: changes of a config.json, in the forms that engines take. */
#include "tools/extend/extend_patch.h"
#include <string.h>

static const char old_form[] = "rope_scaling", new_form[] = "rope_parameters", theta[] = "rope_theta";
static const char partial[] = "partial_rotary_factor";

/* Replaced whole, never key by key. */
static int is_scaling(const char *key) {
    return strcmp(key, old_form) == 0 || strcmp(key, new_form) == 0;
}

json_t *extend_patch_between(const json_t *before, const json_t *after) {
    json_t *patch = json_object(), *value;
    const char *key;
    json_object_foreach((json_t *)after, key, value) {
        const json_t *was = json_object_get(before, key);
        if (was && json_equal(was, value)) continue;
        if (json_is_object(was) && json_is_object(value) && !is_scaling(key))
            json_object_set_new(patch, key, extend_patch_between(was, value));
        else
            json_object_set_new(patch, key, json_deep_copy(value));
    }
    json_object_foreach((json_t *)before, key, value) {
        if (!json_object_get(after, key)) json_object_set_new(patch, key, json_null());
    }
    return patch;
}

static void apply(json_t *config, const json_t *patch) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)patch, key, value) {
        json_t *inside = json_object_get(config, key);
        if (json_is_null(value))
            json_object_del(config, key);
        else if (json_is_object(value) && json_is_object(inside) && !is_scaling(key))
            apply(inside, value);
        else
            json_object_set_new(config, key, json_deep_copy(value));
    }
}

json_t *extend_patch_apply(const json_t *config, const json_t *patch) {
    json_t *copy = json_deep_copy(config);
    if (copy) apply(copy, patch);
    return copy;
}

json_t *extend_patch_without_nulls(const json_t *patch) {
    json_t *copy = json_object(), *value;
    const char *key;
    json_object_foreach((json_t *)patch, key, value) {
        if (json_is_object(value) && !is_scaling(key))
            json_object_set_new(copy, key, extend_patch_without_nulls(value));
        else if (!json_is_null(value))
            json_object_set_new(copy, key, json_deep_copy(value));
    }
    return copy;
}

/* -- the two forms -- */
int extend_patch_is_plain(const json_t *patch) {
    static const char *const usual[] = {old_form, new_form, theta, "max_position_embeddings",
                                        "original_max_position_embeddings"};
    const char *key, *inner;
    json_t *value, *inside;
    json_object_foreach((json_t *)patch, key, value) {
        int known = 0;
        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
            known |= strcmp(key, usual[i]) == 0;
        if (!known) return 0;
        json_object_foreach(value, inner, inside) {
            if (json_is_object(inside)) return 0; /* one for each type of layer */
        }
    }
    return 1;
}

static const json_t *scaling_in(const json_t *config) {
    const json_t *dict = json_object_get(config, old_form);
    if (!json_is_object(dict)) dict = json_object_get(config, new_form);
    return json_is_object(dict) ? dict : NULL;
}

/* out = a new reference to the base. */
static json_t *base_in(const json_t *config, double base) {
    const json_t *value = json_object_get(config, theta);
    if (!json_is_number(value)) value = json_object_get(scaling_in(config), theta);
    return json_is_number(value) ? json_deep_copy(value) : json_real(base);
}

/* out = the scaling with its type under the name that all versions from 4.43 on read. */
static json_t *copy_scaling(const json_t *config) {
    const json_t *dict = scaling_in(config);
    json_t *copy = json_object(), *value;
    const json_t *type = json_object_get(dict, "rope_type");
    const char *key;
    if (!type) type = json_object_get(dict, "type");
    json_object_set_new(copy, "rope_type", type ? json_deep_copy(type) : json_string("default"));
    json_object_foreach((json_t *)dict, key, value) {
        if (strcmp(key, "type") != 0 && strcmp(key, "rope_type") != 0) json_object_set_new(copy, key, json_deep_copy(value));
    }
    return copy;
}

/* out = what is changed outside of the scaling and its base. */
static json_t *other_changes(const json_t *before, const json_t *after) {
    json_t *patch = extend_patch_between(before, after);
    json_object_del(patch, old_form);
    json_object_del(patch, new_form);
    json_object_del(patch, theta);
    return patch;
}

static void remove_key(json_t *patch, const json_t *before, const char *key) {
    const json_t *was = json_object_get(before, key);
    if (was && !json_is_null(was)) json_object_set_new(patch, key, json_null());
}

json_t *extend_patch_as_rope_parameters(const json_t *before, const json_t *after, double base) {
    json_t *patch = other_changes(before, after), *dict = copy_scaling(after);
    const json_t *part = json_object_get(after, partial);
    json_object_set_new(dict, theta, base_in(after, base));
    if (json_is_number(part) && !json_object_get(dict, partial)) json_object_set_new(dict, partial, json_deep_copy(part));
    json_object_set_new(patch, new_form, dict);
    remove_key(patch, before, old_form); /* it would replace rope_parameters */
    return patch;
}

json_t *extend_patch_as_rope_scaling(const json_t *before, const json_t *after, double base) {
    json_t *patch = other_changes(before, after), *dict = copy_scaling(after);
    json_t *own = base_in(after, base);
    const json_t *was = json_object_get(before, theta);
    if (!was || !json_equal(was, own)) json_object_set(patch, theta, own);
    json_decref(own);
    json_object_del(dict, theta);
    json_object_del(dict, partial);
    const char *type = json_string_value(json_object_get(dict, "rope_type"));
    remove_key(patch, before, new_form);
    if (type && strcmp(type, "default") == 0)
        remove_key(patch, before, old_form);
    else
        json_object_set(patch, old_form, dict);
    json_decref(dict);
    return patch;
}

json_t *extend_patch_as_three_keys(const json_t *before, const json_t *after, double base) {
    static const char original[] = "original_max_position_embeddings";
    json_t *patch = extend_patch_as_rope_scaling(before, after, base), *dict = json_object_get(patch, old_form);
    json_t *length = json_object_get(dict, original), *three = json_object();
    if (!json_is_array(json_object_get(dict, "long_factor"))) {
        json_decref(three);
        json_decref(patch);
        return NULL;
    }
    json_object_set(three, "type", json_object_get(dict, "rope_type"));
    json_object_set(three, "short_factor", json_object_get(dict, "short_factor"));
    json_object_set(three, "long_factor", json_object_get(dict, "long_factor"));
    if (length && !json_equal(length, json_object_get(before, original))) json_object_set(patch, original, length);
    json_object_set_new(patch, old_form, three);
    return patch;
}
