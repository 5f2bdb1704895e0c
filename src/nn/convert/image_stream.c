/* Runs images through a ring of places, each with the memory of one image. */
#include "convert/image_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/file.h"
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
                                   .interrupted = stream->interrupted,
                                   .context = &ring};
    struct jobs *jobs = NULL;
    uint64_t job = 0;
    int status;

    progress_begin(&ring.progress, stream->count, stream->progress);
    ring.place = alloc_array(ring.places, sizeof *ring.place, "images");
    status = ring.place ? jobs_create(&o, &jobs) : -1;
    while (status == 0 && !stream->interrupted() && jobs_next(jobs, stream->count, &job)) {
        status = stream->take(stream->context, job, &ring.place[job % ring.places]);
        progress_show(&ring.progress, job + 1);
    }
    progress_erase(&ring.progress);
    if (stream->interrupted()) { /* a thread may read for long: do not wait */
        image_outputs_free(stream->outputs);
        stream->release();
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

/* ---- outputs ---- */

int image_outputs_add(struct image_outputs *o, int to, const struct sample *sample)
{
    const struct record *raw = sample->raw;

    o->count[to]++;
    if (o->mean && to == 0 && mean_image_add(&o->sum, &raw->shape, raw->type, raw->data))
        return -1;
    return o->sink[to] ? sink_add(o->sink[to], sample) : 0;
}

int image_outputs_commit(struct image_outputs *o)
{
    char *temp = o->mean ? file_temp_name(o->mean) : NULL;
    int status = o->mean && !temp ? -1 : 0;

    if (temp)
        status = mean_image_write(&o->sum, o->mean, temp);
    for (int i = 0; i < IMAGE_SINKS && status == 0; i++) {
        struct sink *sink = o->sink[i];

        o->sink[i] = NULL;
        status = sink ? sink_commit(sink) : 0;
    }
    if (status == 0 && temp)
        status = file_commit(temp, o->mean);
    if (status && temp)
        unlink(temp);
    free(temp);
    return status;
}

void image_outputs_free(struct image_outputs *o)
{
    for (int i = 0; i < IMAGE_SINKS; i++) {
        sink_discard(o->sink[i]);
        o->sink[i] = NULL;
    }
    mean_image_free(&o->sum);
}
