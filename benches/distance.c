/* distance: prints how many ns a cache line takes from one of two processors to the other and back, the
 * median of some hundred turns. On a virtual machine it changes while others come and go: it decides what
 * a second thread is worth. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TURNS = 501, TRIPS = 200 };

static _Alignas(128) atomic_int there, back;

static void stay(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *answer(void *unused) {
    (void)unused;
    stay(1);
    for (int i = 1; i <= TURNS * TRIPS; i++) {
        while (atomic_load_explicit(&there, memory_order_acquire) != i) {}
        atomic_store_explicit(&back, i, memory_order_release);
    }
    return NULL;
}

static int larger(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void) {
    static double ns[TURNS];
    pthread_t thread;
    stay(0);
    if (pthread_create(&thread, NULL, answer, NULL)) return 2;
    for (int turn = 0, i = 0; turn < TURNS; turn++) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int trip = 0; trip < TRIPS; trip++) {
            atomic_store_explicit(&there, ++i, memory_order_release);
            while (atomic_load_explicit(&back, memory_order_acquire) != i) {}
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        ns[turn] = ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / TRIPS;
    }
    pthread_join(thread, NULL);
    qsort(ns, TURNS, sizeof *ns, larger);
    printf("%.0f\n", ns[TURNS / 2]);
    return 0;
}
