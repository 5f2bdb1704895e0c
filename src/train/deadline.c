/* The end of a run's time. Schedulers tell a date; dates are asked once, at the start, since clocks
 * may be set while a run lasts. */
#include "train/deadline.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/units.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of the whole time a fiftieth, 2 to 30 s: the report, the launcher's end. */
static double margin_of(double seconds)
{
    double margin = seconds / 50;

    return margin < 2 ? 2 : margin > 30 ? 30 : margin;
}

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
        return error_set("%s=%s: expected a number of seconds; --time-limit=none does without it",
                         name, text);
    return 0;
}

static void set(double seconds, const char *whence, struct deadline *out)
{
    *out = (struct deadline){
        .end = clock_seconds() + seconds, .margin = margin_of(seconds), .whence = whence};
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
    static const char *const dates[] = {"SLURM_JOB_END_TIME", "POSEIDON_END_TIME"};
    struct timespec now;
    double value;

    *out = (struct deadline){.end = INFINITY, .whence = ""};
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < 2; i++) {
        if (read_number(dates[i], &value))
            return -1;
        if (value > 0) {
            set(value - (double)now.tv_sec, dates[i], out);
            return 0;
        }
    }
    if (read_number("PBS_WALLTIME", &value))
        return -1;
    if (value > 0)
        set(value, "PBS_WALLTIME", out);
    return 0;
}
