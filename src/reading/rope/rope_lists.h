/* rope_lists.h: what the file says about single layers: lists with an entry for each, indices, intervals. */
#ifndef GYRE_READING_ROPE_LISTS_H
#define GYRE_READING_ROPE_LISTS_H
#include "reading/rope/rope_source.h"

/* What is said about one layer. */
enum {
    GYRE_MARK_STILL = 1,  /* it does not rotate */
    GYRE_MARK_CROSS = 2,  /* it is cross-attention */
    GYRE_MARK_LINEAR = 4, /* it is recurrent or linear attention */
    GYRE_MARK_FULL = 8    /* it is full attention: what a list of the others, or of these, leaves */
};

enum { GYRE_MAX_LAYERS = 65536 };
typedef struct gyre_layer_lists {
    const gyre_family *family;
    const gyre_scope *root;
    int64_t layers;          /* of the decoder; 0 = unknown */
    int64_t mtp, mtp_listed; /* layers of multi-token prediction, which follow them: all, those whose types are listed */
    const json_t *types;     /* names of the layers' types */
    const char *types_key;   /* the key that gave them */
    int types_repeat;        /* the names are a pattern that repeats */
    int types_step;          /* every n-th of them is of a layer; 1 but for Dory */
    const json_t *mtp_types; /* names of the types of the layers that follow */
    const json_t *base;      /* a base for each layer, 0 = it does not rotate */
    const char *base_key;
    const json_t *partial; /* a rotating share of the head for each */
    const char *partial_key;
    const json_t *by_layer; /* per_layer_config */
    const char *still_key;  /* the key by which layers are marked as not rotating; NULL = the class */
    unsigned char *marks;   /* [layers + mtp_listed] of GYRE_MARK_ */
} gyre_layer_lists;

/* out = a list of at least `count` entries; NULL if the key is missing, null or an empty list.  count 0: any length.
 * Entries past `count` belong to `mtp` layers that follow; to none, with a warning, if there are others.  Fails if the list
 * is shorter. */
const json_t *gyre_layer_list(const gyre_scope *root, const char *key, int64_t count, int64_t mtp);
/* gyre_layer_list for flags: 0 and 1, true and false. */
const json_t *gyre_layer_flags(const gyre_scope *root, const char *key, int64_t count, int64_t mtp);
/* out = the key with the number of layers of multi-token prediction; NULL = none. */
const char *gyre_layer_mtp_key(const gyre_scope *root);
/* Reads all lists.  layers: as the file states them; 0 = the longest list counts. */
void gyre_layer_lists_read(const gyre_family *family, const gyre_scope *root, int64_t layers, gyre_layer_lists *out);
/* out = what the lists give the layer. */
gyre_layer_own gyre_layer_lists_of(const gyre_layer_lists *lists, int64_t layer);
/* out = the name of the layer's type; NULL = no list has one. */
const char *gyre_layer_lists_type(const gyre_layer_lists *lists, int64_t layer);

#endif
