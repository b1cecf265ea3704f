/* input_config.c: checks that all additions at the input share. */
#include "encodings/input_config.h"
#include "core/encoding.h"
#include "core/scheme.h"
#include "util/error.h"

#include <math.h>

gyre_status gyre_input_config_check(gyre_encoding *encoding, gyre_error *err) {
    struct gyre_input_config *input = &encoding->config.input;
    if (input->dim == 0)
        return gyre_fail(err, GYRE_EINVAL, "input.dim: missing; %s needs the model's width (gyre_config)",
                         gyre_kind_name(encoding->scheme->kind));
    return GYRE_OK;
}
