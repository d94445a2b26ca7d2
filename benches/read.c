/* read BYTES SECONDS: two threads add up as many bytes of memory, again and again. Prints the milliseconds that a
 * tenth of the rounds stay below. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define THREADS 2
#define MOST 100000

static const uint64_t *words;
static size_t count;
static uint64_t sums[THREADS * 8];
static int ends;
static pthread_barrier_t barrier;

static void add(size_t thread) {
    const uint64_t *from = words + count / THREADS * thread;
    uint64_t sum[32] = {0};
    for (size_t i = 0; i + 32 <= count / THREADS; i += 32)
        for (size_t k = 0; k < 32; k++) sum[k] += from[i + k];
    for (size_t k = 1; k < 32; k++) sum[0] += sum[k];
    sums[thread * 8] = sum[0];
}

static void *other(void *unused) {
    for (;;) {
        pthread_barrier_wait(&barrier);
        if (ends) return unused;
        add(1);
        pthread_barrier_wait(&barrier);
    }
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e3 + at.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    size_t bytes = strtoull(argv[1], NULL, 10);
    double seconds = atof(argv[2]), *times = malloc(MOST * sizeof *times);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || !times) return 1;
    madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 1, bytes);
    words = memory;
    count = bytes / sizeof *words;
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_t thread;
    if (pthread_create(&thread, NULL, other, NULL)) return 1;
    size_t rounds = 0;
    for (double begin = now(); rounds < MOST && (rounds < 3 || now() - begin < seconds * 1e3);) {
        double start = now();
        pthread_barrier_wait(&barrier);
        add(0);
        pthread_barrier_wait(&barrier);
        times[rounds++] = now() - start;
    }
    ends = 1;
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    qsort(times, rounds, sizeof *times, compare);
    printf("%.4f %lu\n", times[rounds / 10], (unsigned long)(sums[0] + sums[8]));
    return 0;
}
