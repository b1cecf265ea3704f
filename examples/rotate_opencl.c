/* rotate_opencl.c: queries and keys of Llama 3.1's shape, rotated on an OpenCL device by one launch and compared with
 * gyre_rotate.
 *     cc -std=c11 rotate_opencl.c $(pkg-config --cflags --libs gyre) -lOpenCL
 *     ./a.out rotate_heads.cl DIR     DIR: the folder with gyre/gyre_device.h */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <gyre/gyre.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 5, HEADS = 32, KV_HEADS = 8, HEAD_DIM = 128, PAIRS = HEAD_DIM / 2 };
static float q[TOKENS][HEADS][HEAD_DIM], k[TOKENS][KV_HEADS][HEAD_DIM];
static float q_host[TOKENS][HEADS][HEAD_DIM], k_host[TOKENS][KV_HEADS][HEAD_DIM];
static const int64_t positions[TOKENS] = {0, 1, 131071, 123456789, 2147483647};

static void check(cl_int code, const char *what) {
    if (code == CL_SUCCESS) return;
    fprintf(stderr, "rotate_opencl: %s: OpenCL error %d\n", what, (int)code);
    exit(1);
}

static void fill(float *x, float *copy, int n) {
    for (int i = 0; i < n; i++)
        x[i] = copy[i] = (float)(i % 101) / 50 - 1;
}

/* out = the kernel, compiled for the device; a failure prints the compiler's messages. */
static cl_kernel compile(cl_context context, cl_device_id device, const char *path, const char *include) {
    char source[8192], options[1024], log[8192] = "";
    const char *text = source;
    cl_int code;
    FILE *file = fopen(path, "r");
    const size_t length = file ? fread(source, 1, sizeof source, file) : 0;
    if (file) fclose(file);
    if (length == 0 || length == sizeof source) check(CL_INVALID_VALUE, path);
    cl_program program = clCreateProgramWithSource(context, 1, &text, &length, &code);
    check(code, "clCreateProgramWithSource");
    snprintf(options, sizeof options, "-Werror -I%s", include);
    code = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (code) clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
    fputs(log, stderr);
    check(code, "clBuildProgram");
    cl_kernel kernel = clCreateKernel(program, "rotate_heads", &code);
    check(code, "clCreateKernel");
    clReleaseProgram(program);
    return kernel;
}

static cl_mem on_device(cl_context context, void *data, size_t bytes) {
    cl_int code;
    const cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, data, &code);
    check(code, "clCreateBuffer");
    return memory;
}

/* Rotates q and k: one launch, two copies back. */
static void rotate_on_device(cl_context context, cl_device_id device, cl_kernel kernel, uint64_t *increments, float factor) {
    static const cl_int numbers[3] = {HEADS, KV_HEADS, HEAD_DIM};
    static const size_t items[2] = {PAIRS, TOKENS};
    static int64_t copy[TOKENS];
    cl_int code;
    for (int t = 0; t < TOKENS; t++)
        copy[t] = positions[t];
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    check(code, "clCreateCommandQueue");
    cl_mem memory[4] = {on_device(context, q, sizeof q), on_device(context, k, sizeof k),
                        on_device(context, increments, PAIRS * sizeof *increments), on_device(context, copy, sizeof copy)};
    for (cl_uint i = 0; i < 4; i++)
        check(clSetKernelArg(kernel, i, sizeof memory[i], &memory[i]), "clSetKernelArg");
    check(clSetKernelArg(kernel, 4, sizeof factor, &factor), "clSetKernelArg");
    for (cl_uint i = 0; i < 3; i++)
        check(clSetKernelArg(kernel, 5 + i, sizeof numbers[i], &numbers[i]), "clSetKernelArg");
    check(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, items, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    check(clEnqueueReadBuffer(queue, memory[0], CL_TRUE, 0, sizeof q, q, 0, NULL, NULL), "clEnqueueReadBuffer");
    check(clEnqueueReadBuffer(queue, memory[1], CL_TRUE, 0, sizeof k, k, 0, NULL, NULL), "clEnqueueReadBuffer");
    for (int i = 0; i < 4; i++)
        clReleaseMemObject(memory[i]);
    clReleaseCommandQueue(queue);
}

static gyre_status rotate_on_host(const gyre_encoding *rope, float *data, int64_t heads, gyre_role role, gyre_error *err) {
    const gyre_positions at = {.data = positions, .dtype = GYRE_DTYPE_I64, .stride_token = 1};
    const gyre_view x = gyre_dense(data, GYRE_DTYPE_F32, 1, TOKENS, heads, HEAD_DIM);
    return gyre_rotate(rope, GYRE_ARGS(gyre_rotate_args, .role = role, .positions = &at, .in = gyre_const(x), .out = x),
                       NULL, err);
}

static double largest_difference(const float *a, const float *b, int n) {
    double largest = 0;
    for (int i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)a[i] - (double)b[i]));
    return largest;
}

int main(int argc, char **argv) {
    gyre_error err;
    gyre_encoding *rope = NULL;
    uint64_t increments[PAIRS];
    double factor = 1;
    if (argc != 3) return fprintf(stderr, "usage: rotate_opencl rotate_heads.cl INCLUDE_DIR\n"), 2;
    fill(q[0][0], q_host[0][0], TOKENS * HEADS * HEAD_DIM);
    fill(k[0][0], k_host[0][0], TOKENS * KV_HEADS * HEAD_DIM);
    gyre_status status = gyre_rope_create(&rope, HEAD_DIM, 500000, GYRE_LAYOUT_HALF, &err);
    if (!status) status = gyre_encoding_phases(rope, 0, increments, NULL, &factor, &err);
    if (!status) status = rotate_on_host(rope, q_host[0][0], HEADS, GYRE_ROLE_QUERY, &err);
    if (!status) status = rotate_on_host(rope, k_host[0][0], KV_HEADS, GYRE_ROLE_KEY, &err);
    gyre_encoding_free(rope);
    if (status) return fprintf(stderr, "rotate_opencl: %s\n", err.text), 1;

    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    char name[256] = "";
    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    check(code, "clCreateContext");
    cl_kernel kernel = compile(context, device, argv[1], argv[2]);
    rotate_on_device(context, device, kernel, increments, (float)factor);
    clReleaseKernel(kernel);
    clReleaseContext(context);

    const double off = fmax(largest_difference(q[0][0], q_host[0][0], TOKENS * HEADS * HEAD_DIM),
                            largest_difference(k[0][0], k_host[0][0], TOKENS * KV_HEADS * HEAD_DIM));
    printf("%s: %d tokens of %d + %d heads, at most %.2g from gyre_rotate\n", name, TOKENS, HEADS, KV_HEADS, off);
    return off < 1e-6 ? 0 : 1;
}
