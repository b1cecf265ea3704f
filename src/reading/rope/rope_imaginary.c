/* rope_imaginary.c: RoPE++ (arXiv 2512.07525), which its authors' class of Llama reads from an object `rope_config`. */
#include "reading/rope/read_rope.h"

static const char object[] = "rope_config", key[] = "imag";

/* 1: the file asks for it. */
static int is_asked(const gyre_scope *root) {
    if (!gyre_scope_value(root, object)) return 0;
    const gyre_scope config = gyre_scope_child(root, object);
    return gyre_scope_bool(&config, key, 0);
}

void gyre_rope_read_imaginary(const gyre_rope_source *source, gyre_layer_group *group) {
    if (!is_asked(&source->root)) return;
    const gyre_scope config = gyre_scope_child(&source->root, object);
    const char *mode = gyre_scope_string(&config, "imag_mode", NULL);
    const gyre_place place = gyre_scope_place(&config, "imag_mode");
    gyre_build_set_field(gyre_rope_build_of(source), group, "imaginary", GYRE_ORIGIN_FILE, &place,
                         "RoPE++, arXiv 2512.07525: further heads have the queries rotated by -90 degrees besides; imag1 "
                         "keeps the number of heads (EH), imag2 doubles it (EC)",
                         "%.60s", mode);
    if (gyre_scope_value(&config, "factor"))
        gyre_scope_warn(&config, "factor", "rope_config.factor: the scaling of the authors' class is not read");
}

void gyre_rope_warn_imaginary(const gyre_scope *root) {
    if (!is_asked(root)) return;
    const gyre_scope config = gyre_scope_child(root, object);
    gyre_scope_warn(&config, key, "rope_config.imag: %s has no imaginary heads (RoPE++)",
                    gyre_profile_program(gyre_build_profile(root->source->build)));
}
