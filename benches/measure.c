/* measure COMMAND...: runs a command and prints its wall time in ms, from spawn to exit, and its peak
 * memory in KiB. A process inherits the peak of the one that spawned it, so this one is small. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

int main(int argc, char **argv) {
    struct timespec start, end;
    struct rusage usage;
    posix_spawn_file_actions_t quiet;
    pid_t pid;
    int status;
    if (argc < 2) return 2;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (posix_spawnp(&pid, argv[1], &quiet, NULL, argv + 1, environ)) return 2;
    if (wait4(pid, &status, 0, &usage) != pid) return 2;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ms = (end.tv_sec - start.tv_sec) * 1e3 + (end.tv_nsec - start.tv_nsec) / 1e6;
    printf("%.3f %ld\n", ms, usage.ru_maxrss);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
