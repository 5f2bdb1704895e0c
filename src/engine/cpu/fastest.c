/* Measuring ways against each other on a machine that may have other work. */
#include "engine/cpu/fastest.h"

#include "engine/cpu/cpu_internal.h"
#include "util/clock.h"

#include <dirent.h>
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

/* The share of a run that its threads may wait for cores and it still counts as undisturbed: a
 * long one never has them quite to itself. */
static const double most_waiting = 0.01;

enum { ROUNDS = 8, ENOUGH_ROUNDS = 4 };

struct times {
    double fastest;     /* run, in seconds; 0: none yet */
    double undisturbed; /* the same of runs that other programs left their cores to */
    bool out;           /* plainly slower than another: not run any more */
};

static double machine_seconds(void *context)
{
    (void)context;
    return clock_seconds();
}

/* What a thread of this process waited; negative where the system does not tell, or it is gone. */
static double thread_waited(const char *number)
{
    char path[320];
    double waited = -1;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", number);
    file = fopen(path, "r");
    if (file && fscanf(file, "%*s %lf", &waited) == 1) /* nanoseconds: run, waited, ... */
        waited *= 1e-9;
    if (file)
        fclose(file);
    return waited;
}

/* The sum over all threads; negative where the system does not tell. */
static double scheduler_waited(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    double sum = 0, waited;
    int told = 0;

    while (tasks && (task = readdir(tasks)) != NULL) {
        waited = task->d_name[0] == '.' ? -1 : thread_waited(task->d_name);
        sum += waited >= 0 ? waited : 0;
        told += waited >= 0;
    }
    if (tasks)
        closedir(tasks);
    return told ? sum : -1;
}

static double machine_waited(void *context)
{
    const double slice = 4e-3; /* what another program takes at the least */
    double waited = scheduler_waited();
    struct rusage usage;

    (void)context;
    if (waited >= 0)
        return waited;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? slice * (double)usage.ru_nivcsw : 0;
}

static const struct fastest_clock machine_clock = {machine_seconds, machine_waited, NULL};

static void keep_least(double *least, double seconds)
{
    if (*least <= 0 || seconds < *least)
        *least = seconds;
}

static int run_once(const struct fastest_way *way, const struct fastest_clock *clock,
                    struct times *times)
{
    double waited = clock->waited(clock->context);
    double start = clock->seconds(clock->context), seconds;

    if (way->run(way->context))
        return -1;
    seconds = clock->seconds(clock->context) - start;
    keep_least(&times->fastest, seconds);
    if (clock->waited(clock->context) - waited <= most_waiting * seconds)
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

/* The fastest undisturbed run of any way; 0: there is none yet. */
static double least_undisturbed(const struct times times[], int n)
{
    double least = 0;

    for (int w = 0; w < n; w++)
        if (times[w].undisturbed > 0)
            keep_least(&least, times[w].undisturbed);
    return least;
}

/* Leaves out what is plainly slower than the fastest; of what was always disturbed that is said
 * after enough rounds. *left: how many are left. Whether all of them had an undisturbed run. */
static bool sift(struct times times[], int n, int rounds, int *left)
{
    double least = least_undisturbed(times, n);
    bool all = true;

    *left = 0;
    for (int w = 0; w < n; w++) {
        bool alone = times[w].undisturbed > 0;
        double seconds = alone ? times[w].undisturbed : times[w].fastest;

        if (least > 0 && (alone || rounds >= ENOUGH_ROUNDS) && seconds > plainly_slower * least)
            times[w].out = true;
        if (times[w].out)
            continue;
        all = all && alone;
        ++*left;
    }
    return all;
}

/* By what a way is judged. */
static double time_of(const struct times *times, bool sure)
{
    return sure && times->undisturbed > 0 ? times->undisturbed : times->fastest;
}

static int choose(const struct times times[], int n, bool sure)
{
    int least = 0;

    for (int w = 1; w < n; w++)
        if (time_of(&times[w], sure) < time_of(&times[least], sure))
            least = w;
    return time_of(&times[least], sure) < least_gain * time_of(&times[0], sure) ? least : 0;
}

/* In turns, so that what else the machine does meets all. The first round is not counted, for it
 * finds its memory cold. */
int fastest_find(const struct fastest_way ways[], int n, const struct fastest_clock *clock,
                 int *which, bool *sure)
{
    struct times times[FASTEST_WAYS] = {{.fastest = 0}};
    int left = n;

    clock = clock ? clock : &machine_clock;
    *sure = false;
    for (int rounds = 1; rounds <= ROUNDS; rounds++) {
        if (run_round(ways, n, clock, times))
            return -1;
        if (rounds == 1) {
            memset(times, 0, sizeof times);
            continue;
        }
        *sure = sift(times, n, rounds, &left);
        if (*sure && (left == 1 || rounds >= ENOUGH_ROUNDS))
            break;
    }
    *which = choose(times, n, *sure);
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
