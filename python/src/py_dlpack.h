/* py_dlpack.h: the structs of DLPack 1.x that the extension reads and writes, laid out as in dlpack.h
 * (https://dmlc.github.io/dlpack).  A program that exports arrays fills them; names follow the specification. */
#ifndef GYRE_PY_DLPACK_H
#define GYRE_PY_DLPACK_H
#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_ROCM_HOST = 11 };                   /* devices whose memory the processor reads */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 }; /* element kinds */
enum { DL_READ_ONLY = 1 };                                                  /* a flag of dl_managed_versioned */

typedef struct dl_device {
    int32_t type, id;
} dl_device;
typedef struct dl_type {
    uint8_t code, bits;
    uint16_t lanes;
} dl_type;
typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_type dtype;
    int64_t *shape, *strides; /* elements; strides NULL = dense, the last axis fastest */
    uint64_t byte_offset;
} dl_tensor;
/* The old capsule, "dltensor". */
typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;
typedef struct dl_version {
    uint32_t major, minor;
} dl_version;
/* The versioned capsule, "dltensor_versioned". */
typedef struct dl_managed_versioned {
    dl_version version;
    void *context;
    void (*deleter)(struct dl_managed_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed_versioned;
/* type(x).__dlpack_c_exchange_api__, a capsule "dlpack_exchange_api": reads an array without a call of Python. */
typedef struct dl_exchange {
    dl_version version;
    struct dl_exchange *previous;
    int (*allocate)(dl_tensor *prototype, dl_managed_versioned **out, void *context,
                    void (*set_error)(void *context, const char *kind, const char *message));
    int (*managed_from_object)(void *object, dl_managed_versioned **out);
    int (*managed_to_object)(dl_managed_versioned *managed, void **out);
    int (*tensor_from_object)(void *object, dl_tensor *out); /* memory stays the object's; may be NULL */
    int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} dl_exchange;

#endif
