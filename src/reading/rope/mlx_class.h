/* mlx_class.h: what the model classes of mlx-lm read of a config.json.  mlx-lm has its own, and no class of transformers
 * reads the file before. */
#ifndef GYRE_READING_MLX_CLASS_H
#define GYRE_READING_MLX_CLASS_H
#include "reading/rope/read_rope.h"

enum {
    GYRE_MLX_SCALED = 1,
    GYRE_MLX_LINEAR = 2,
    GYRE_MLX_PARAMETERS = 4,
    GYRE_MLX_BASE = 8,
    GYRE_MLX_CONSTANT = 16,
    GYRE_MLX_SWITCH = 32,
    GYRE_MLX_WHOLE = 64,
    GYRE_MLX_LONG = 128
};

typedef struct gyre_mlx_class {
    const char *model_type;
    double base; /* default of rope_theta; 0 = required */
    unsigned reads;
} gyre_mlx_class;

/* out = the class; NULL if mlx-lm has none. */
const gyre_mlx_class *gyre_mlx_class_of(const char *model_type);
/* out = the key of the object that the class reads, or NULL.  Warns of an object that it does not read. */
const char *gyre_mlx_dict_key(const gyre_family *family, const gyre_scope *root);
/* out = the base. */
double gyre_mlx_read_base(const gyre_rope_source *source, int sliding, gyre_rope_provenance *found);
/* Sets the layout by rope_traditional, and the whole head where the class rotates it. */
void gyre_mlx_set_class_fields(const gyre_rope_source *source, gyre_layer_group *group);

#endif
