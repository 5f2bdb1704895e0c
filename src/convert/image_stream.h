/* Images on their way from where they are read to the files that a command makes of them: several
 * threads read ahead, the caller's takes their results in order. */
#ifndef POSEIDON_CONVERT_IMAGE_STREAM_H
#define POSEIDON_CONVERT_IMAGE_STREAM_H

#include "convert/mean_image.h"
#include "convert/sink.h"

/* One image as it was read, or why it could not be. */
struct streamed {
    struct record record;
    struct strbuf encoded; /* where an image file is to be stored */
    bool failed;
    char error[512];
};

/* What the images go to: data sets, and the mean image of those of the first. */
enum { IMAGE_SINKS = 2 };
struct image_outputs {
    struct sink *sink[IMAGE_SINKS]; /* owned; NULL: none */
    const char *mean;               /* file; NULL: none. Borrowed */
    struct mean_image sum;          /* of the images of sink[0], where `mean` is to be written */
    uint64_t count[IMAGE_SINKS];
};

struct image_stream {
    uint64_t count;
    int threads;
    bool progress; /* is shown where stderr is a terminal */
    /* On one of the threads: fills *out, whose memory served another image before. -1 with a
     * message: take hears of it in its turn. */
    int (*read)(void *context, uint64_t number, struct streamed *out);
    /* On the caller's, for 0, 1, ... count-1. -1 with a message ends the stream. */
    int (*take)(void *context, uint64_t number, const struct streamed *image);
    void *context;
    struct image_outputs *outputs; /* are removed when a signal comes */
    bool (*interrupted)(void);     /* asked again and again: a signal that is held back has come */
    void (*release)(void);         /* lets that signal end the process */
};

/* Fails, too, where it was interrupted and the process still runs. */
int image_stream_run(const struct image_stream *stream);

int image_outputs_add(struct image_outputs *outputs, int to, const struct sample *sample);

/* All files are complete under temporary names before the first gets its own. */
int image_outputs_commit(struct image_outputs *outputs);

/* Removes what was not committed. */
void image_outputs_free(struct image_outputs *outputs);

#endif
