#include "util/progress.h"

#include "util/clock.h"

#include <stdio.h>
#include <unistd.h>

#define REDRAW_SECONDS 0.2

void progress_begin(struct progress *p, uint64_t count)
{
    *p = (struct progress){
        .shows = isatty(STDERR_FILENO), .count = count, .started = clock_seconds()};
}

void progress_show(struct progress *p, uint64_t done)
{
    double now, rate, left;

    if (!p->shows || (now = clock_seconds()) - p->shown < REDRAW_SECONDS)
        return;
    p->shown = now;
    rate = (double)done / (now - p->started + 1e-9);
    left = (double)(p->count - done) / (rate > 0 ? rate : 1);
    fprintf(stderr, "\r%llu of %llu images (%.1f %%), %.0f images/s, %d:%02d:%02d left\033[K",
            (unsigned long long)done, (unsigned long long)p->count,
            100.0 * (double)done / (double)p->count, rate, (int)(left / 3600),
            (int)(left / 60) % 60, (int)left % 60);
    fflush(stderr);
}

void progress_erase(const struct progress *p)
{
    if (p->shows)
        fprintf(stderr, "\r\033[K");
}
