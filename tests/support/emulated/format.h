/*===- tests/support/emulated/format.h - Jobs and results as files ---------===*
 *
 * Part of attnc. Apache-2.0.
 *
 * What the emulated executor writes and the harness reads, and back. Both sides
 * are little-endian with 64-bit longs; every block is a multiple of 8 bytes.
 *
 * Jobs:    attn_job_file, then for each job: attn_job, its attn_job_regions,
 *          its attn_job_links, the bytes of its regions, each padded to a
 *          multiple of 8.
 * Results: attn_job_file, then for each job: attn_job_result, the bytes of its
 *          output regions, each padded to a multiple of 8.
 *
 *===----------------------------------------------------------------------===*/
#ifndef ATTN_EMULATED_FORMAT_H
#define ATTN_EMULATED_FORMAT_H

#include <stdint.h>

#define ATTN_JOB_MAGIC 0x32424f4a4e545441 /* "ATTNJOB2" */

typedef struct attn_job_file {
  int64_t magic;
  int64_t jobs;
} attn_job_file;

/* A pointer of the call: region -1 is NULL. */
typedef struct attn_job_pointer {
  int64_t region;
  int64_t offset; /* in bytes */
} attn_job_pointer;

enum {
  ATTN_JOB_Q,
  ATTN_JOB_K,
  ATTN_JOB_V,
  ATTN_JOB_O,
  ATTN_JOB_LSE,
  ATTN_JOB_Q_LENS,
  ATTN_JOB_KV_LENS,
  ATTN_JOB_PARAMS,
  ATTN_JOB_GLOBALS,
  ATTN_JOB_GLOBAL_COUNTS,
  ATTN_JOB_POINTERS
};

typedef struct attn_job {
  int64_t kernel; /* number in attn_harness_kernels */
  int64_t n_regions, n_links;
  int64_t batch, q_len, kv_len;
  int64_t q_stride[4], k_stride[4], v_stride[4], o_stride[4], lse_stride[3];
  int64_t globals_stride, max_globals;
  attn_job_pointer pointers[ATTN_JOB_POINTERS];
  int64_t order; /* Order of Executor.h */
} attn_job;

typedef struct attn_job_region {
  int64_t size;
  int64_t at_end; /* touches the inaccessible page after it, else before it */
  int64_t is_output;
} attn_job_region;

/* A pointer within a region: what to store there. */
typedef struct attn_job_link {
  attn_job_pointer at, to;
} attn_job_link;

typedef struct attn_job_result {
  int64_t signal;       /* that ended the kernel, or 0 */
  int64_t fault_region; /* -1: elsewhere; n_regions: scratch memory */
  int64_t fault_offset; /* from the region's first byte, or the address */
  int64_t changed;      /* an input region that was written to, or -1 */
} attn_job_result;

#endif
