/* The team: threads of this process that share the parts of a task with the thread that brings it.

   The caller begins at once, and whoever is free takes the next part, so nobody waits for a thread that has no core. Two
   things are beyond a scheduler that knows threads but not tasks, and are done here where the system can move threads:
   - A member on the caller's core would only take turns with the caller. It moves to another core.
   - A member that lost its core to another process in the middle of a part would keep the caller waiting for a slice of
     time, some milliseconds. The caller, which has nothing else to do, lends it its own core for the rest of the part.

   One task runs at a time: a second caller, or a part that brings a task itself, runs all parts alone.

   Objects that gcc compiles call `region` where they would call libgomp (core/threads.py), so one team serves them all: two
   would wake and wait in turns. Parts of a region may run one after the other, so they must not wait for each other. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#define MOST 64             /* members, the caller among them */
#define SPIN 2000           /* looks at a variable before a thread sleeps, some ten microseconds: waking it takes as long */
#define PATIENCE 200000L    /* nanoseconds that a caller sleeps before it looks again whether members have a core */
#define LINE __attribute__((aligned(128)))
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_SEQ_CST)

typedef void Part(void *task, long part, long member);
typedef unsigned long long Word;

/* What is left to take: number of the task << 32 | members << 16 | parts that nobody has begun. All in one word, so that
   who takes a part takes it of the task that he has seen. */
static Word left LINE;
static long done LINE;                   /* parts of the task that are finished */
static struct { Part *run; void *given; long parts; } task LINE;
static int busy, asleep, waits;          /* whether there is a task; members that sleep; whether the caller sleeps */
static int caller, core;                 /* the thread that brought the task, and its core */
static long started;                     /* members besides callers */
static struct { pthread_t thread; int number, begun; } members[MOST];
static __thread int within;              /* whether this thread runs a part */
static __thread struct { long part, parts; } here; /* in an OpenMP region */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t brought = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* -- cores -- */

#ifdef __linux__
static int this_thread(void) {
  static __thread int found;
  return found ? found : (found = (int)syscall(SYS_gettid));
}

static int this_core(void) { return sched_getcpu(); }

/* Let a thread run on all cores of the caller but one, if there are others. */
static void keep_off(int thread, int other) {
  cpu_set_t cores;
  if (sched_getaffinity(LOAD(caller), sizeof cores, &cores)) return;
  CPU_CLR(other, &cores);
  if (CPU_COUNT(&cores)) sched_setaffinity(thread, sizeof cores, &cores);
}

static long used(long member) {
  clockid_t clock;
  struct timespec time;
  if (pthread_getcpuclockid(members[member].thread, &clock) || clock_gettime(clock, &time)) return 0;
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* Move the members that have no core in the middle of a part to the caller's; the set of those that are moved. */
static Word lend_core(long parts) {
  long before[MOST];
  Word moved = 0;
  for (long m = 1; m <= started; m++) before[m] = LOAD(members[m].begun) ? used(m) : -1;
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int k = 0; k < SPIN && LOAD(done) < parts; k++) relax();
  clock_gettime(CLOCK_MONOTONIC, &end);
  const long passed = (end.tv_sec - start.tv_sec) * 1000000000L + end.tv_nsec - start.tv_nsec;
  cpu_set_t ours;
  CPU_ZERO(&ours);
  CPU_SET(this_core(), &ours);
  for (long m = 1; m <= started && LOAD(done) < parts; m++)
    if (before[m] >= 0 && LOAD(members[m].begun) && used(m) - before[m] < passed / 2)
      moved |= (Word)!sched_setaffinity(members[m].number, sizeof ours, &ours) << m;
  return moved;
}
#else
static int this_thread(void) { return 0; }
static int this_core(void) { return -1; }
static void keep_off(int thread, int other) { (void)thread, (void)other; }
static Word lend_core(long parts) { return (void)parts, 0; }
#endif

/* -- parts -- */

static int is_for(Word word, long member) { return (word & 0xffff) && member < (long)(word >> 16 & 0xffff); }

static void wake_caller(void) {
  pthread_mutex_lock(&lock);
  pthread_cond_signal(&ended);
  pthread_mutex_unlock(&lock);
}

/* Run parts as long as there are any. */
static void take_parts(long member) {
  Word word = LOAD(left);
  while (is_for(word, member)) {
    if (!__atomic_compare_exchange_n(&left, &word, word - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) continue;
    const long parts = task.parts; /* of this task, which lasts until this part is done */
    task.run(task.given, parts - (long)(word & 0xffff), member);
    if (__atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST) == parts && member && LOAD(waits)) wake_caller();
    word = LOAD(left);
  }
}

static void sleep_until_brought(long member) {
  pthread_mutex_lock(&lock);
  __atomic_add_fetch(&asleep, 1, __ATOMIC_SEQ_CST);
  while (!is_for(LOAD(left), member)) pthread_cond_wait(&brought, &lock);
  __atomic_sub_fetch(&asleep, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&lock);
}

static void *live(void *given) {
  const long member = (long)given;
  within = 1;
  members[member].number = this_thread(); /* read by who sees that it has begun a part */
  for (;;) {
    for (int k = 0; k < SPIN && !is_for(LOAD(left), member); k++) relax();
    if (!is_for(LOAD(left), member)) sleep_until_brought(member);
    const int other = LOAD(core);
    if (other >= 0 && this_core() == other) keep_off(0, other);
    STORE(members[member].begun, 1);
    take_parts(member);
    STORE(members[member].begun, 0);
  }
  return 0;
}

static void start(long wanted) {
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  while (started < wanted) {
    const long next = started + 1;
    if (pthread_create(&members[next].thread, &detached, live, (void *)next)) break;
    started = next;
  }
  pthread_attr_destroy(&detached);
}

static void sleep_until_done(long parts) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += PATIENCE;
  if (until.tv_nsec >= 1000000000L) until.tv_nsec -= 1000000000L, until.tv_sec++;
  pthread_mutex_lock(&lock);
  STORE(waits, 1);
  while (LOAD(done) < parts && !pthread_cond_timedwait(&ended, &lock, &until)) continue;
  STORE(waits, 0);
  pthread_mutex_unlock(&lock);
}

/* Wait for the parts that members have begun. */
static void wait_for(long parts) {
  Word lent = 0;
  for (int k = 0; k < SPIN && LOAD(done) < parts; k++) relax();
  while (LOAD(done) < parts) {
    lent |= lend_core(parts);
    if (LOAD(done) < parts) sleep_until_done(parts);
  }
  for (long m = 1; lent >> m && m < MOST; m++)
    if (lent >> m & 1) keep_off(members[m].number, this_core());
}

static void share(Part *run, void *given, long parts, long count) {
  if (count < 2 || parts < 2 || parts > 0xffff || within || __atomic_exchange_n(&busy, 1, __ATOMIC_SEQ_CST)) {
    for (long part = 0; part < parts; part++) run(given, part, 0);
    return;
  }
  if (count > MOST) count = MOST;
  if (started < count - 1) start(count - 1);
  task.run = run, task.given = given, task.parts = parts;
  STORE(done, 0);
  STORE(caller, this_thread());
  STORE(core, this_core());
  STORE(left, ((left >> 32) + 1) << 32 | (Word)count << 16 | (Word)parts);
  if (LOAD(asleep)) {
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&brought);
    pthread_mutex_unlock(&lock);
  }
  within = 1;
  take_parts(0);
  within = 0;
  wait_for(parts);
  STORE(busy, 0);
}

/* -- OpenMP -- */

typedef struct { void (*run)(void *); void *given; long parts; } Region;

static void part_of_region(void *given, long part, long member) {
  const Region *region = given;
  const __typeof__(here) before = here;
  (void)member;
  here.part = part, here.parts = region->parts;
  region->run(region->given);
  here = before;
}

static void region(void (*run)(void *), void *given, long parts) {
  Region found = {run, given, parts};
  share(part_of_region, &found, parts, parts);
}

static int part(void) { return (int)here.part; }
static int parts(void) { return here.parts ? (int)here.parts : 1; }
static int is_within(void) { return within; }

const struct {
  void (*share)(Part *, void *, long, long);
  void (*region)(void (*)(void *), void *, long);
  int (*part)(void), (*parts)(void), (*is_within)(void);
} ad_this_team = {share, region, part, parts, is_within};
