/* A clock that steps: preloaded into a process, it adds to the wall clock what a file says, from one call to the next.
 *
 * CRASH_CLOCK names the file: three numbers of eight bytes, mapped into every process that looks at the time. The first is of all
 * processes, in nanoseconds. The second is the pid of one process, and the third is what this one has beside the first. PostgreSQL
 * and Redis keep their clock, as servers on another machine would. The kernel's clock stays, so a wait until a wall clock's time is moved back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *page;

static int64_t offset(void) {
    return page[0] + (page[1] && page[1] == getpid() ? page[2] : 0);
}

__attribute__((constructor)) static void open_page(void) {
    const char *path = getenv("CRASH_CLOCK");
    if (!path || !strcmp(program_invocation_short_name, "postgres") || !strcmp(program_invocation_short_name, "redis-server"))
        return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = mmap(NULL, 3 * sizeof *page, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        page = mapped;
}

static void add(struct timespec *when, int64_t nanoseconds) {
    int64_t sum = when->tv_nsec + nanoseconds % SECOND;
    when->tv_sec += nanoseconds / SECOND;
    if (sum < 0) {
        sum += SECOND;
        when->tv_sec--;
    } else if (sum >= SECOND) {
        sum -= SECOND;
        when->tv_sec++;
    }
    when->tv_nsec = sum;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && page && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        add(now, offset());
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    static int (*real)(sem_t *, const struct timespec *);
    struct timespec then = *until;
    if (!real)
        real = dlsym(RTLD_NEXT, "sem_timedwait");
    if (page)
        add(&then, -offset());
    return real(semaphore, &then);
}
