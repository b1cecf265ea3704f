/* model.h: the inside of a gyre_model. */
#ifndef GYRE_MODEL_MODEL_H
#define GYRE_MODEL_MODEL_H
#include "files/replace_folder.h"
#include "gyre/gyre_model.h"
#include "model/architecture/weight_layout.h"
#include "model/network.h"

struct gyre_model {
    gyre_model_config config;
    double *layer_bases;     /* [layers] what config.layer_bases points to; NULL = none */
    gyre_encoding *encoding; /* owned by the network if that was opened from files */
    gyre_network *network;   /* what gyre_context reads with */
    /* Only of a model made here or opened to be trained: */
    gyre_weight_layout layout;
    float *weights; /* every tensor, dense, in the order of gyre_tensor_at; 64-byte aligned; NULL = opened only to be read */
    int64_t weight_count;
    char *path; /* NULL = made here */
    /* Of a model of Gyre's own that was opened to be read: its matrices are here, and their floats in `weights` are not
     * set.  That memory is never touched, so it takes no pages. */
    gyre_tensor_store *store;
};

/* Writes config.json and model.safetensors (dtype F32, F16 or BF16) into a folder that the caller commits. */
gyre_status gyre_model_save_into(const gyre_model *model, const gyre_folder_replacement *folder, gyre_dtype dtype,
                                 gyre_error *err);

/* Fills in the defaults of fields that are zero. */
void gyre_model_config_complete(gyre_model_config *config);
/* out = a config of defaults alone. */
gyre_model_config gyre_model_config_default(void);
/* gyre_model_open_to_train (to_read 0), or gyre_model_open of a model of Gyre's own, with the folder's config.json already
 * parsed. */
gyre_status gyre_model_open_native(gyre_model **out, const char *folder, const gyre_config_document *document, int to_read,
                                   gyre_error *err);
/* network_map.c: opens model->store and lets the matrices of model->network point into it; reads all other tensors into
 * model->weights. */
gyre_status gyre_model_map_weights(gyre_model *model, const char *folder, gyre_error *err);

/* out = the config.json that describes the weights at `path`: a folder, or a .safetensors file beside it. */
gyre_status gyre_model_config_path(const char *path, char out[PATH_MAX], gyre_error *err);
/* out = 1 if `path` is a folder whose config.json has model_type "gyre". */
int gyre_model_is_native(const char *path, const gyre_config_document *config);
/* out = 1 for a tensor that a folder of Gyre's own may hold beside its weights: the lm_head of a tied model, frequencies. */
int gyre_model_is_implied(const char *tensor);

/* *out = a model with an encoding and a network.  Its weights are allocated but not set.  Errors: EINVAL, ENOMEM. */
gyre_status gyre_model_allocate(gyre_model **out, const gyre_model_config *config, gyre_error *err);

/* The steps of gyre_model_allocate.  gyre_model_open_to_train compares shapes with the file in between. */
/* EINVAL if a size is out of range. */
gyre_status gyre_model_check_sizes(const gyre_model_config *config, gyre_error *err);
/* Checks the config, completes config->position, creates the encoding and sets layout and weight_count. */
gyre_status gyre_model_init_layout(gyre_model *model, const gyre_model_config *given, gyre_error *err);
gyre_status gyre_model_allocate_weights(gyre_model *model, gyre_error *err);
/* Sets model->network over model->weights. */
gyre_status gyre_model_attach_network(gyre_model *model, gyre_error *err);

#endif
