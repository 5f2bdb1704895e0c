/* Runs images through a ring of places, each with the memory of one image. */
#include "commands/image_stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "watch/signals.h"
#include "util/alloc.h"
#include "util/progress.h"
#include "util/workers.h"

struct ring {
    const struct image_stream *stream;
    uint64_t places;
    struct streamed *place; /* owned */
    struct progress progress;
};

static int work(void *context, uint64_t job)
{
    const struct ring *ring = context;
    struct streamed *image = &ring->place[job % ring->places];

    image->failed = ring->stream->read(ring->stream->context, job, image) != 0;
    if (image->failed)
        snprintf(image->error, sizeof image->error, "%.*s", (int)sizeof image->error - 1,
                 error_text());
    return 0; /* `take` reports a failure in the image's turn */
}

int image_stream_run(const struct image_stream *stream)
{
    struct ring ring = {.stream = stream, .places = 2 * (uint64_t)stream->threads + 2};
    const struct jobs_options o = {.threads = stream->threads,
                                   .places = (int)ring.places,
                                   .work = work,
                                   .interrupted = signals_pending,
                                   .context = &ring};
    struct jobs *jobs = NULL;
    uint64_t job = 0;
    int status;

    progress_begin(&ring.progress, stream->count);
    ring.place = alloc_array(ring.places, sizeof *ring.place, "images");
    status = ring.place ? jobs_create(&o, &jobs) : -1;
    while (status == 0 && !signals_pending() && jobs_next(jobs, stream->count, &job)) {
        status = stream->take(stream->context, job, &ring.place[job % ring.places]);
        progress_show(&ring.progress, job + 1);
    }
    progress_erase(&ring.progress);
    if (signals_pending()) { /* a thread may read for long: do not wait */
        for (int i = 0; i < stream->nsinks; i++)
            sink_close(&stream->sinks[i], -1);
        signals_release();
        status = error_set("interrupted by a signal; nothing was written");
    }
    jobs_destroy(jobs);
    for (uint64_t i = 0; ring.place && i < ring.places; i++) {
        record_free(&ring.place[i].record);
        strbuf_free(&ring.place[i].encoded);
    }
    free(ring.place);
    return status;
}
