/* every_function.c: each function of gyre_device.h, compiled as OpenCL C and run by the first device there is, against the
 * same source on the host and against long double.
 *     every_function every_function.cl INCLUDE_DIR */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <gyre/gyre_device.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAIRS = 64, POSITIONS = 4096, ITEMS = PAIRS * POSITIONS };
static uint64_t increments[PAIRS], phases[ITEMS];
static int64_t positions[POSITIONS];
static const float numbers[6] = {0.25F, 1.75F, 0.5F, 1, 0.6F, -0.8F}; /* slope, r1, r2, factor, x, y */
static float angles[2 * ITEMS], rotated[4 * ITEMS], biases[3 * POSITIONS];
static int32_t indices[POSITIONS];

static void check(cl_int code, const char *what) {
    if (code == CL_SUCCESS) return;
    fprintf(stderr, "every_function: %s: OpenCL error %d\n", what, (int)code);
    exit(1);
}

/* 0 .. 2^31, and as far below 0; all sizes. */
static void fill(void) {
    for (int i = 0; i < PAIRS; i++) {
        const long double turns = powl(500000, -(long double)i / PAIRS) / 6.283185307179586476925286766559L;
        increments[i] = (uint64_t)rintl(ldexpl(turns, 64));
    }
    uint64_t state = 1;
    for (int i = 0; i < POSITIONS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        positions[i] = (int64_t)(state >> (33 + i % 20)) * (i % 3 == 2 ? -1 : 1);
    }
    positions[0] = 0, positions[1] = (int64_t)1 << 31, positions[2] = -positions[1];
}

static cl_program build(cl_context context, cl_device_id device, const char *path, const char *include) {
    static char source[16384], log[16384];
    const char *text = source;
    char options[1024];
    cl_int code;
    FILE *file = fopen(path, "r");
    const size_t length = file ? fread(source, 1, sizeof source - 1, file) : 0;
    if (file) fclose(file);
    if (length == 0 || length == sizeof source - 1) check(CL_INVALID_VALUE, path);
    cl_program program = clCreateProgramWithSource(context, 1, &text, &length, &code);
    check(code, "clCreateProgramWithSource");
    snprintf(options, sizeof options, "-Werror -I%s", include);
    code = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (code) clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
    fputs(log, stderr);
    check(code, "clBuildProgram");
    return program;
}

static void run(cl_context context, cl_device_id device, cl_kernel kernel) {
    const struct {
        void *data;
        size_t bytes;
        int out;
    } each[8] = {{increments, sizeof increments, 0}, {positions, sizeof positions, 0}, {(void *)numbers, sizeof numbers, 0},
                 {phases, sizeof phases, 1},         {angles, sizeof angles, 1},       {rotated, sizeof rotated, 1},
                 {biases, sizeof biases, 1},         {indices, sizeof indices, 1}};
    static const size_t items[2] = {PAIRS, POSITIONS};
    cl_mem memory[8];
    cl_int code;
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    check(code, "clCreateCommandQueue");
    for (cl_uint i = 0; i < 8; i++) {
        memory[i] = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, each[i].bytes, each[i].data, &code);
        check(code, "clCreateBuffer");
        check(clSetKernelArg(kernel, i, sizeof memory[i], &memory[i]), "clSetKernelArg");
    }
    check(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, items, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    for (int i = 0; i < 8; i++) {
        if (each[i].out)
            check(clEnqueueReadBuffer(queue, memory[i], CL_TRUE, 0, each[i].bytes, each[i].data, 0, NULL, NULL),
                  "clEnqueueReadBuffer");
        clReleaseMemObject(memory[i]);
    }
    clReleaseCommandQueue(queue);
}

static void close_to(double got, double want, double bound, const char *what, int64_t position) {
    if (fabs(got - want) <= bound) return;
    fprintf(stderr, "every_function: %s at position %lld: %.9g, not %.9g within %.2g\n", what, (long long)position, got,
            want, bound);
    exit(1);
}

/* out = the largest error of a cosine or sine. */
static double compare_angle(int i) {
    const int64_t m = positions[i / PAIRS];
    const uint64_t phase = gyre_device_phase(increments[i % PAIRS], m);
    const gyre_device_angle host = gyre_device_cos_sin(phase, numbers[3]);
    const long double angle = ldexpl((long double)phase, -64) * 6.283185307179586476925286766559L;
    const double c = (double)cosl(angle), s = (double)sinl(angle), x = numbers[4], y = numbers[5];
    if (phases[i] != phase) close_to((double)phases[i], (double)phase, 0, "phase", m);
    close_to(angles[2 * i], c, 1.25e-7, "cosine", m);
    close_to(angles[2 * i + 1], s, 1.25e-7, "sine", m);
    close_to(angles[2 * i], host.cosine, 2.5e-7, "cosine of the host", m);
    close_to(angles[2 * i + 1], host.sine, 2.5e-7, "sine of the host", m);
    close_to(rotated[4 * i], x * c - y * s, 3e-7, "rotated x", m);
    close_to(rotated[4 * i + 1], x * s + y * c, 3e-7, "rotated y", m);
    close_to(rotated[4 * i + 2], x * c + y * s, 3e-7, "x rotated back", m);
    close_to(rotated[4 * i + 3], y * c - x * s, 3e-7, "y rotated back", m);
    return fmax(fabs(angles[2 * i] - c), fabs(angles[2 * i + 1] - s));
}

/* OpenCL's log1p may be off by 2 units in the last place, its pow by 16. */
static void compare_biases(int at) {
    const int64_t m = positions[at], n = positions[POSITIONS - 1 - at], d = n - m;
    const double distance = fabs((double)d), ulp = 0x1p-23;
    const double alibi = -numbers[0] * distance, by_log = -numbers[1] * log1p(numbers[2] * distance),
                 by_power = -numbers[1] * pow(distance, numbers[2]);
    const int32_t index = (int32_t)(d < -128 ? 0 : d > 128 ? 256 : d + 128);
    close_to(biases[3 * at], alibi, 2 * ulp * fabs(alibi), "ALiBi", m);
    close_to(biases[3 * at + 1], by_log, 5 * ulp * fabs(by_log), "KERPLE's logarithm", m);
    close_to(biases[3 * at + 2], by_power, 19 * ulp * fabs(by_power), "KERPLE's power", m);
    close_to(indices[at], index + 1000 * (64 + 3) + 1000000 * (2 * 3 + 1), 0, "index of a distance and channels", m);
}

int main(int argc, char **argv) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    char name[256] = "";
    if (argc != 3) return fprintf(stderr, "usage: every_function every_function.cl INCLUDE_DIR\n"), 2;
    fill();
    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    check(code, "clCreateContext");
    cl_program program = build(context, device, argv[1], argv[2]);
    cl_kernel kernel = clCreateKernel(program, "every_function", &code);
    check(code, "clCreateKernel");
    run(context, device, kernel);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseContext(context);
    double worst = 0;
    for (int i = 0; i < ITEMS; i++)
        worst = fmax(worst, compare_angle(i));
    for (int at = 0; at < POSITIONS; at++)
        compare_biases(at);
    printf("%s: %d angles up to position 2^31, at most %.3g off; rotations and biases within their bounds\n", name, ITEMS,
           worst);
    return 0;
}
