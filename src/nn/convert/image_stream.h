/* Images on the way from their source to the files that a command makes. Several threads read
 * ahead; the caller's thread takes the results in order. */
#ifndef POSEIDON_CONVERT_IMAGE_STREAM_H
#define POSEIDON_CONVERT_IMAGE_STREAM_H

#include "convert/mean_image.h"
#include "convert/sink.h"

/* One image as read, or the reason why reading failed. */
struct streamed {
    struct record record;
    struct strbuf encoded; /* bytes of the image file, if image files are stored */
    bool failed;
    char error[512];
};

/* Destinations of images: data sets, and the mean image of the first data set. */
enum { IMAGE_SINKS = 2 };
struct image_outputs {
    struct sink *sink[IMAGE_SINKS]; /* owned; NULL: none */
    const char *mean;               /* file of the mean image; NULL: none. Borrowed */
    struct mean_image sum;          /* sum over the images of sink[0], if `mean` is set */
    uint64_t count[IMAGE_SINKS];
};

struct image_stream {
    uint64_t count;
    int threads;
    bool progress; /* shows progress if stderr is a terminal */
    /* Reads image `number` on one of the threads into *out, whose memory is used again. -1 with a
     * message: `take` gets the message in the image's turn. */
    int (*read)(void *context, uint64_t number, struct streamed *out);
    /* Takes image 0, 1, ... in turn, on the caller's thread. -1 with a message ends the stream. */
    int (*take)(void *context, uint64_t number, const struct streamed *image);
    void *context;
    struct image_outputs *outputs; /* outputs to remove when a signal comes */
    bool (*interrupted)(void);     /* true: a signal that is held back has come */
    void (*release)(void);         /* Lets the held-back signal end the process. */
};

/* Runs the stream. Fails, too, if a signal interrupts it and the process still runs. */
int image_stream_run(const struct image_stream *stream);

int image_outputs_add(struct image_outputs *outputs, int to, const struct sample *sample);

/* Completes and names all files; the mean image is complete before the first file gets its name. */
int image_outputs_commit(struct image_outputs *outputs);

/* Removes the outputs that were not committed. */
void image_outputs_free(struct image_outputs *outputs);

#endif
