/* A clock of the machine that a test sets: LD_PRELOAD this, with CLOCK_FILE naming eight bytes, the seconds to add.

   Only the time of day is set, as by an administrator; the monotonic clock goes on. A wait until a time of day that has begun
   ends when the clock that was set says so, as the kernel's would: it is asked every 50 ms. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static int64_t seconds(void) {
  static volatile int64_t *shared = NULL;
  if (shared == NULL) {
    const char *path = getenv("CLOCK_FILE");
    int file = path ? open(path, O_RDONLY) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) abort();
    shared = mapped;
  }
  return *shared;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += seconds();
  return result;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

int timespec_get(struct timespec *now, int base) { return clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0; }

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

typedef int Wait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
  static Wait *wait = NULL;
  if (wait == NULL) wait = (Wait *)dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (wait == NULL) wait = (Wait *)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  if (until->tv_sec < 1000000000) return wait(condition, mutex, until); /* the monotonic clock's */
  for (;;) {
    struct timespec now, soon;
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec)) return ETIMEDOUT;
    int64_t left = (until->tv_sec - now.tv_sec) * 1000000000LL + until->tv_nsec - now.tv_nsec;
    if (left > 50000000) left = 50000000;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &soon);
    soon.tv_nsec += left;
    if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
    int result = wait(condition, mutex, &soon);
    if (result != ETIMEDOUT) return result;
  }
}

/* Of C11, on the same condition in glibc, which would not come by the function above. */
int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
  int result = pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until);
  return result == 0 ? thrd_success : result == ETIMEDOUT ? thrd_timedout : thrd_error;
}
