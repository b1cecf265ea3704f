/* weight_loader.h: finds the tensors of a decoder by role, checks their shapes, and maps or copies them. */
#ifndef GYRE_MODEL_WEIGHT_LOADER_H
#define GYRE_MODEL_WEIGHT_LOADER_H
#include "model/weights/network_weights.h"

typedef struct gyre_loader {
    gyre_network *net;
    const gyre_kernels *kernels;
    unsigned char *used;     /* [tensors in the store] 1 = read */
    gyre_fault_list *faults; /* NULL = the first fault ends the loading */
    gyre_error *err;
    gyre_status status; /* the first failure; every later step then does nothing */
} gyre_loader;

/* A tensor by its place.  expert: of names that number experts, else 0. */
typedef struct gyre_tensor_place {
    gyre_tensor_role role;
    int64_t layer, expert;
} gyre_tensor_place;

static inline gyre_tensor_place gyre_in_layer(gyre_tensor_role role, int64_t layer) {
    return (gyre_tensor_place){role, layer, 0};
}

void gyre_load_fail(gyre_loader *o, gyre_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Fails: the place must have a tensor. */
void gyre_load_missing(gyre_loader *o, gyre_tensor_place place, const char *suffix);
/* out = 1, with the tensor in *out and marked as used; 0 = there is none. */
int gyre_load_take(gyre_loader *o, gyre_tensor_place place, const char *suffix, gyre_file_tensor *out);
/* Marks a tensor as used, if there is one: the decoder computes without it. */
void gyre_load_leave_out(gyre_loader *o, gyre_tensor_place place, const char *suffix);
int gyre_load_has(const gyre_loader *o, gyre_tensor_place place, const char *suffix);

/* out = the numbers as floats that the network owns; NULL after a failure and where faults are listed. */
float *gyre_load_floats(gyre_loader *o, const gyre_file_tensor *tensor);
/* out = a vector of `count` numbers; NULL if there is none, which is a failure if `required`. */
float *gyre_load_vector(gyre_loader *o, gyre_tensor_place place, const char *suffix, int64_t count, int required);
int gyre_load_requires_bias(const gyre_loader *o, gyre_tensor_role role);
gyre_norm_weights gyre_load_norm(gyre_loader *o, gyre_tensor_place place, int64_t dim, int required);
/* out = the matrix [out][in] of a tensor of that shape, or of [in][out] if `transposed`. */
gyre_matrix gyre_load_matrix(gyre_loader *o, const gyre_file_tensor *tensor, int64_t out, int64_t in, int transposed);
gyre_affine gyre_load_affine(gyre_loader *o, gyre_tensor_place place, int64_t out, int64_t in);

/* -- the parts of a layer with a file each -- */
/* packed_weights.c: out = 1, with the matrices of all experts in *matrix, one below the other, [experts out][in], if the
 * file has them in blocks of MXFP4 (NAME_blocks and NAME_scales); 0 if not. */
int gyre_load_packed(gyre_loader *o, gyre_tensor_place place, int64_t out, int64_t in, gyre_matrix *matrix);
/* expert_weights.c: the experts of a layer and its router. */
void gyre_load_experts(gyre_loader *o, int64_t layer);
/* layer_input_weights.c: the inputs of layers beside the stream. */
void gyre_load_layer_inputs(gyre_loader *o);
void gyre_load_inputs_of_layer(gyre_loader *o, int64_t layer);
/* projection_weights.c: queries, keys and values of a layer, by latents or not, and all else of its attention. */
void gyre_load_attention(gyre_loader *o, int64_t layer);

#endif
