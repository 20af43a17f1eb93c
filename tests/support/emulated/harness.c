/*===- tests/support/emulated/harness.c - Runs jobs on another machine -----===*
 *
 * Part of attnc. Apache-2.0.
 *
 * Linked statically with kernels and run by an emulator:
 *   harness JOBS RESULTS
 * Only what small emulated kernels of operating systems offer is used: files,
 * mmap, mprotect, signals.
 *
 *===----------------------------------------------------------------------===*/
#include "attn_abi.h"
#include "format.h"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Written by the emulated executor for the kernels it links. */
extern const attn_kernel *const attn_harness_kernels[];
extern const int64_t attn_harness_n_kernels;

#define PAGE 4096u
#define MAX_REGIONS 64

static sigjmp_buf return_point;
static volatile sig_atomic_t armed;
static void *volatile fault_address;
static volatile sig_atomic_t fault_signal;

static void fail(const char *text) {
  fprintf(stderr, "harness: %s\n", text);
  exit(2);
}

static void on_fault(int number, siginfo_t *info, void *context) {
  (void)context;
  if (!armed) {
    signal(number, SIG_DFL);
    return;
  }
  armed = 0;
  fault_address = info->si_addr;
  fault_signal = number;
  siglongjmp(return_point, 1);
}

typedef struct region {
  unsigned char *mapping, *data;
  size_t mapped, size;
} region;

/* `size` bytes between two inaccessible pages. */
static region map_region(size_t size, int at_end) {
  region r;
  size_t inner = (size + PAGE - 1) / PAGE * PAGE;
  r.size = size;
  r.mapped = inner + 2 * PAGE;
  r.mapping = mmap(NULL, r.mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (r.mapping == MAP_FAILED)
    fail("out of memory");
  if (mprotect(r.mapping, PAGE, PROT_NONE) != 0 ||
      mprotect(r.mapping + PAGE + inner, PAGE, PROT_NONE) != 0)
    fail("mprotect fails");
  r.data = r.mapping + PAGE + (at_end ? inner - size : 0);
  return r;
}

static size_t padded(size_t size) { return (size + 7) / 8 * 8; }

/* How many items so many queries of a group are. */
static int64_t blocks(const attn_kernel *kernel, int64_t queries) {
  return (queries * kernel->item_heads + kernel->item_rows - 1) /
         kernel->item_rows;
}

static int64_t work_items(const attn_kernel *kernel, const attn_job *job) {
  int64_t n = blocks(kernel, job->q_len);
  if (job->batch == 0 || job->q_len == 0 || kernel->heads == 0)
    return 0;
  if (kernel->flags & ATTN_KERNEL_GLOBALS)
    n += blocks(kernel, job->max_globals);
  return job->batch * kernel->item_groups * n;
}

/* Runs items first..last-1; returns the signal that ended it, or 0. */
static int run_piece(const attn_kernel *kernel, const attn_call *call,
                     int64_t first, int64_t last, const region *scratch) {
  memset(scratch->data, 0xff, scratch->size); /* NaN in every format */
  if (sigsetjmp(return_point, 1) != 0)
    return (int)fault_signal;
  armed = 1;
  kernel->run(call, first, last, scratch->data);
  armed = 0;
  return 0;
}

/* Orders as in Executor.h. */
static int run_items(const attn_kernel *kernel, const attn_job *job,
                     const attn_call *call, const region *scratch) {
  int64_t items = work_items(kernel, job), first, last, size;
  int number = 0;
  switch (job->order) {
  case 0:
    return run_piece(kernel, call, 0, items, scratch);
  case 1:
    for (first = 0; first < items && number == 0; ++first)
      number = run_piece(kernel, call, first, first + 1, scratch);
    return number;
  case 2:
    for (first = items; first-- > 0 && number == 0;)
      number = run_piece(kernel, call, first, first + 1, scratch);
    return number;
  case 3:
    for (last = items, size = 1; last > 0 && number == 0; ++size) {
      first = last > size ? last - size : 0;
      number = run_piece(kernel, call, first, last, scratch);
      last = first;
    }
    return number;
  default:
    fail("unknown order");
    return 0;
  }
}

static void *pointer_of(const region *regions, const attn_job_pointer *p) {
  return p->region < 0 ? NULL : regions[p->region].data + p->offset;
}

static void place_fault(attn_job_result *result, const region *regions,
                        int64_t n) {
  unsigned char *at = (unsigned char *)fault_address;
  result->fault_region = -1;
  result->fault_offset = (int64_t)(intptr_t)at;
  for (int64_t r = 0; r < n; ++r)
    if (at >= regions[r].mapping &&
        at < regions[r].mapping + regions[r].mapped) {
      result->fault_region = r;
      result->fault_offset = at - regions[r].data;
    }
}

static unsigned char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0)
    fail("cannot read the jobs");
  *size = (size_t)ftell(file);
  rewind(file);
  unsigned char *bytes = malloc(*size + 1);
  if (!bytes || fread(bytes, 1, *size, file) != *size)
    fail("cannot read the jobs");
  fclose(file);
  return bytes;
}

/* Maps the regions, copies their bytes and sets the pointers in them, here and
 * in the copy in the file. Returns what follows in the file. */
static unsigned char *load_regions(unsigned char *at, const attn_job *job,
                                   attn_job_region *info, region *regions,
                                   unsigned char **bytes) {
  memcpy(info, at, (size_t)job->n_regions * sizeof info[0]);
  at += (size_t)job->n_regions * sizeof info[0];
  const unsigned char *links = at;
  at += (size_t)job->n_links * sizeof(attn_job_link);
  for (int64_t r = 0; r < job->n_regions; ++r) {
    regions[r] = map_region((size_t)info[r].size, info[r].at_end != 0);
    bytes[r] = at;
    at += padded((size_t)info[r].size);
  }
  for (int64_t n = 0; n < job->n_links; ++n) {
    attn_job_link link;
    memcpy(&link, links + (size_t)n * sizeof link, sizeof link);
    void *to = pointer_of(regions, &link.to);
    memcpy(bytes[link.at.region] + link.at.offset, &to, sizeof to);
  }
  for (int64_t r = 0; r < job->n_regions; ++r)
    memcpy(regions[r].data, bytes[r], regions[r].size);
  return at;
}

static unsigned char *run_job(unsigned char *at, FILE *results) {
  attn_job job;
  attn_job_region info[MAX_REGIONS];
  region regions[MAX_REGIONS + 1];
  unsigned char *bytes[MAX_REGIONS];
  memcpy(&job, at, sizeof job);
  at += sizeof job;
  if (job.n_regions > MAX_REGIONS || job.kernel < 0 ||
      job.kernel >= attn_harness_n_kernels)
    fail("malformed job");
  at = load_regions(at, &job, info, regions, bytes);
  const attn_kernel *kernel = attn_harness_kernels[job.kernel];
  if (kernel->abi_version != ATTN_ABI_VERSION)
    fail("a kernel has another ABI version");
  size_t scratch_bytes = (size_t)kernel->scratch_bytes;
  region *scratch = &regions[job.n_regions];
  *scratch = map_region(scratch_bytes, scratch_bytes % 64 == 0);

  attn_call call;
  memset(&call, 0, sizeof call);
  call.q = pointer_of(regions, &job.pointers[ATTN_JOB_Q]);
  call.k = pointer_of(regions, &job.pointers[ATTN_JOB_K]);
  call.v = pointer_of(regions, &job.pointers[ATTN_JOB_V]);
  call.o = pointer_of(regions, &job.pointers[ATTN_JOB_O]);
  call.lse = pointer_of(regions, &job.pointers[ATTN_JOB_LSE]);
  call.q_lens = pointer_of(regions, &job.pointers[ATTN_JOB_Q_LENS]);
  call.kv_lens = pointer_of(regions, &job.pointers[ATTN_JOB_KV_LENS]);
  call.batch = job.batch;
  call.q_len = job.q_len;
  call.kv_len = job.kv_len;
  memcpy(call.q_stride, job.q_stride, sizeof call.q_stride);
  memcpy(call.k_stride, job.k_stride, sizeof call.k_stride);
  memcpy(call.v_stride, job.v_stride, sizeof call.v_stride);
  memcpy(call.o_stride, job.o_stride, sizeof call.o_stride);
  memcpy(call.lse_stride, job.lse_stride, sizeof call.lse_stride);
  call.params = pointer_of(regions, &job.pointers[ATTN_JOB_PARAMS]);
  call.globals = pointer_of(regions, &job.pointers[ATTN_JOB_GLOBALS]);
  call.globals_stride = job.globals_stride;
  call.global_counts =
      pointer_of(regions, &job.pointers[ATTN_JOB_GLOBAL_COUNTS]);
  call.max_globals = job.max_globals;

  attn_job_result result = {0, -1, 0, -1};
  result.signal = run_items(kernel, &job, &call, scratch);
  if (result.signal != 0)
    place_fault(&result, regions, job.n_regions + 1);
  for (int64_t r = 0; r < job.n_regions; ++r)
    if (!info[r].is_output && info[r].size != 0 &&
        memcmp(regions[r].data, bytes[r], (size_t)info[r].size) != 0)
      result.changed = r;
  static const unsigned char zeros[8];
  fwrite(&result, sizeof result, 1, results);
  for (int64_t r = 0; r < job.n_regions; ++r)
    if (info[r].is_output) {
      fwrite(regions[r].data, 1, regions[r].size, results);
      fwrite(zeros, 1, padded(regions[r].size) - regions[r].size, results);
    }
  for (int64_t r = 0; r <= job.n_regions; ++r)
    munmap(regions[r].mapping, regions[r].mapped);
  return at;
}

int main(int argc, char **argv) {
  if (argc != 3)
    fail("usage: harness JOBS RESULTS");
  size_t size;
  unsigned char *bytes = read_file(argv[1], &size);
  attn_job_file header;
  memcpy(&header, bytes, sizeof header);
  if (header.magic != ATTN_JOB_MAGIC)
    fail("not a file of jobs");
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  sigaction(SIGILL, &action, NULL);
  sigaction(SIGFPE, &action, NULL);
  FILE *results = fopen(argv[2], "wb");
  if (!results)
    fail("cannot write the results");
  fwrite(&header, sizeof header, 1, results);
  unsigned char *at = bytes + sizeof header;
  for (int64_t n = 0; n < header.jobs; ++n)
    at = run_job(at, results);
  if (fclose(results) != 0)
    fail("cannot write the results");
  return 0;
}
