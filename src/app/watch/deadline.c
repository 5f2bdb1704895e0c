/* Finds the end of a run's time. A scheduler's date is converted once, at the start, since clocks
 * may be set during a run. */
#include "watch/deadline.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/units.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int read_number(const char *name, double *out)
{
    const char *text = getenv(name);
    char *end;

    *out = -1;
    if (!text || !*text)
        return 0;
    errno = 0;
    *out = strtod(text, &end);
    if (errno || *end || !(*out > 0) || *out > 1e15)
        return error_set("%s=%s: expected a number of seconds; --time-limit=none sets no limit",
                         name, text);
    return 0;
}

static void set(double seconds, const char *whence, struct deadline *out)
{
    /* a fiftieth of the time, 2 to 30 s, is left for the report and the launcher */
    *out = (struct deadline){.end = clock_seconds() + seconds,
                             .margin = fmin(fmax(seconds / 50, 2), 30),
                             .whence = whence};
}

int deadline_parse(const char *option, const char *text, void *target)
{
    struct deadline *out = target;
    double value;

    *out = (struct deadline){.end = INFINITY, .whence = ""};
    if (!strcmp(text, "none"))
        return 0;
    if (units_parse_duration(option, text, &value))
        return -1;
    set(value, "--time-limit", out);
    return 0;
}

int deadline_find(struct deadline *out)
{
    enum { DATES = 2 }; /* number of variables with a date; PBS_WALLTIME is seconds from now */
    static const char *const limits[] = {"SLURM_JOB_END_TIME", "POSEIDON_END_TIME", "PBS_WALLTIME"};
    struct timespec now;
    double value = 0;

    *out = (struct deadline){.end = INFINITY, .whence = ""};
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i <= DATES && value <= 0; i++) {
        if (read_number(limits[i], &value))
            return -1;
        if (value > 0)
            set(i < DATES ? value - (double)now.tv_sec : value, limits[i], out);
    }
    return 0;
}
