/* Measuring ways against each other on a machine that may have other work. */
#include "engine/cpu/fastest.h"

#include "engine/cpu/cpu_internal.h"
#include "util/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

/* What another way than the usual one must take of its time, for it may round more often. */
static const double least_gain = 0.95;
/* Times the fastest one's: a few more runs would not change it. */
static const double plainly_slower = 1.6;

enum { ROUNDS = 8, ENOUGH_ROUNDS = 4 };

struct times {
    double fastest;     /* run, in seconds; 0: none yet */
    double undisturbed; /* the same of runs that no other program took a core from */
    bool out;           /* plainly slower than another: not run any more */
};

static double machine_seconds(void *context)
{
    (void)context;
    return clock_seconds();
}

/* How often the system took a core from this process while it wanted it. */
static long machine_interruptions(void *context)
{
    struct rusage usage;

    (void)context;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

static const struct fastest_clock machine_clock = {machine_seconds, machine_interruptions, NULL};

static void keep_least(double *least, double seconds)
{
    if (*least <= 0 || seconds < *least)
        *least = seconds;
}

static int run_once(const struct fastest_way *way, const struct fastest_clock *clock,
                    struct times *times)
{
    long before = clock->interruptions(clock->context);
    double start = clock->seconds(clock->context), seconds;

    if (way->run(way->context))
        return -1;
    seconds = clock->seconds(clock->context) - start;
    keep_least(&times->fastest, seconds);
    if (clock->interruptions(clock->context) == before)
        keep_least(&times->undisturbed, seconds);
    return 0;
}

/* All that are left, one after the other. */
static int run_round(const struct fastest_way ways[], int n, const struct fastest_clock *clock,
                     struct times times[])
{
    for (int w = 0; w < n; w++)
        if (!times[w].out && run_once(&ways[w], clock, &times[w]))
            return -1;
    return 0;
}

static bool all_undisturbed(const struct times times[], int n)
{
    for (int w = 0; w < n; w++)
        if (times[w].undisturbed <= 0)
            return false;
    return true;
}

/* By what a way is judged. */
static double time_of(const struct times *times, bool sure)
{
    return sure ? times->undisturbed : times->fastest;
}

static int least_of(const struct times times[], int n, bool sure)
{
    int least = 0;

    for (int w = 1; w < n; w++)
        if (time_of(&times[w], sure) < time_of(&times[least], sure))
            least = w;
    return least;
}

/* Leaves out what is plainly slower than the fastest. How many are left. */
static int sift(struct times times[], int n)
{
    double least = times[least_of(times, n, true)].undisturbed;
    int left = 0;

    for (int w = 0; w < n; w++) {
        times[w].out = times[w].out || times[w].undisturbed > plainly_slower * least;
        left += !times[w].out;
    }
    return left;
}

/* In turns, so that what else the machine does meets all. The first round is not counted, for it
 * finds its memory cold. */
int fastest_find(const struct fastest_way ways[], int n, const struct fastest_clock *clock,
                 int *which, bool *sure)
{
    struct times times[FASTEST_WAYS] = {{.fastest = 0}};

    clock = clock ? clock : &machine_clock;
    for (int round = 0; round < ROUNDS; round++) {
        if (run_round(ways, n, clock, times))
            return -1;
        if (round == 0)
            memset(times, 0, sizeof times);
        else if (all_undisturbed(times, n) && (sift(times, n) == 1 || round + 1 >= ENOUGH_ROUNDS))
            break;
    }
    *sure = all_undisturbed(times, n);
    *which = least_of(times, n, *sure);
    if (time_of(&times[*which], *sure) >= least_gain * time_of(&times[0], *sure))
        *which = 0;
    return 0;
}

/* Family, model and stepping of the processor; 0 where they are not known. */
static unsigned processor(void)
{
    unsigned a = 0;

#if defined(__x86_64__) || defined(__i386__)
    unsigned b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        a = 0;
#endif
    return a;
}

void fastest_key(const struct cpu_engine *engine, char key[CHOICES_KEY_BYTES], const char *work,
                 ...)
{
    const dnnl_version_t *version = dnnl_version();
    int used = snprintf(key, CHOICES_KEY_BYTES, "cpu%08x,isa%x,onednn%d.%d.%d,t%d|", processor(),
                        (unsigned)dnnl_get_effective_cpu_isa(), version->major, version->minor,
                        version->patch, engine->threads);
    va_list arguments;

    va_start(arguments, work);
    vsnprintf(key + used, CHOICES_KEY_BYTES - (size_t)used, work, arguments);
    va_end(arguments);
}
