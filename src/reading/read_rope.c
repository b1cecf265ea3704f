/* read_rope.c: rotations. */
#include "reading/family.h"

#include <math.h>

void gyre_read_rope(const gyre_family *family, const gyre_scope *root) {
    gyre_layers *all = gyre_build_layers(root->source->build, "all");
    const gyre_place base = gyre_scope_place(root, "rope_theta");
    all->config.kind = GYRE_ROPE;
    all->config.head_dim = gyre_scope_size(root, "head_dim", 1, 0);
    all->config.trained_length = gyre_scope_size(root, "max_position_embeddings", 1, family->positions);
    all->config.rope.layout = family->layout;
    all->config.rope.base = gyre_scope_number(root, "rope_theta", 10000.0);
    gyre_build_number(root->source->build, all, "base", GYRE_FROM_FILE, &base, NULL, all->config.rope.base);
}
