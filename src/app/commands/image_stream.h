/* Images on the way from their source to what a command makes of them. Several threads read
 * ahead; the caller's thread takes the results in order. */
#ifndef POSEIDON_COMMANDS_IMAGE_STREAM_H
#define POSEIDON_COMMANDS_IMAGE_STREAM_H

#include "convert/sink.h"

/* One image as read, or the reason why reading failed. */
struct streamed {
    struct record record;
    struct strbuf encoded; /* bytes of the image file, if image files are stored */
    bool failed;
    char error[512];
};

struct image_stream {
    uint64_t count;
    int threads;
    /* Reads image `number` on one of the threads into *out, whose memory is used again. -1 with a
     * message: `take` gets the message in the image's turn. */
    int (*read)(void *context, uint64_t number, struct streamed *out);
    /* Takes image 0, 1, ... in turn, on the caller's thread. -1 with a message ends the stream. */
    int (*take)(void *context, uint64_t number, const struct streamed *image);
    void *context;
    struct sink **sinks; /* outputs to remove when a signal comes */
    int nsinks;
};

/* Runs the stream, between signals_hold and signals_release. When a signal comes, removes the
 * outputs and lets the signal end the process; fails if the process still runs. */
int image_stream_run(const struct image_stream *stream);

#endif
