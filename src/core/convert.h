/* convert.h: conversion between element types.  Every store rounds once, to nearest even.  NaN stays NaN, f16 subnormals are
 * exact. */
#ifndef GYRE_CORE_CONVERT_H
#define GYRE_CORE_CONVERT_H
#include "gyre/gyre.h"

float gyre_f16_to_f32(uint16_t f16);
float gyre_bf16_to_f32(uint16_t bf16);
uint16_t gyre_f32_to_f16(float value);
uint16_t gyre_f32_to_bf16(float value);
uint16_t gyre_f64_to_f16(double value);
uint16_t gyre_f64_to_bf16(double value);

/* Rows of n elements of a real dtype, `stride` elements apart, to and from contiguous floats or doubles. */
void gyre_load_row(const void *row, gyre_dtype dtype, int64_t stride, int64_t n, float *out);
void gyre_store_row(const float *in, int64_t n, void *row, gyre_dtype dtype, int64_t stride);
void gyre_load_row_f64(const void *row, gyre_dtype dtype, int64_t stride, int64_t n, double *out);
void gyre_store_row_f64(const double *in, int64_t n, void *row, gyre_dtype dtype, int64_t stride);

/* Copies n elements bit for bit. */
void gyre_copy_row(const void *in, int64_t in_stride, void *out, int64_t out_stride, gyre_dtype dtype, int64_t n);

#endif
