/* The feeder: keeps transformed batches ready ahead of training, in threads of its own: one at
 * first; for sources of single records (files to be decoded) one more each time training had to
 * wait.
 *
 * Global order: the run is an endless sequence of samples; sample g is record g mod N of the source
 * (or the shuffled order of its epoch). Pass p of this rank covers `batch` samples from
 * first_sample
 * + p/row*turn + before + p%row*batch on: ranks take turns, row batches each, as many as others or
 * not. Augmentation is drawn by the global sample index. So the same samples, cropped and mirrored
 * alike, are seen in the same iteration at any number of ranks. */
#ifndef POSEIDON_INPUT_FEEDER_H
#define POSEIDON_INPUT_FEEDER_H

#include "engine/engine.h"
#include "input/bad_records.h"
#include "input/shuffle.h"
#include "input/source.h"
#include "input/transform.h"
#include "trace/trace.h"

struct feeder_options {
    int batch;
    int rank, nranks;
    int row;               /* batches that a rank takes one behind the other; 0: 1 */
    uint64_t before, turn; /* samples of the ranks before this one, and of all, in a turn; turn 0:
                              every rank has as many as this one */
    uint64_t first_sample; /* where pass 0 of rank 0 starts */
    uint64_t seed;
    int layer_index;
    int order_layer; /* index of the layer by which the order is drawn */
    enum shuffle shuffle;
    int depth;       /* batches in the ring, the borrowed one included; >= 2 */
    int max_threads; /* for sources of single records; 0: the cores of this process, or 2 */
    bool bytes; /* field 0 is delivered as bytes that are cut out (feeder_bytes), for an engine that
                   does the rest. The source's field 0 must be of bytes, and there must be a
                   transform */
    const struct device *device; /* that batches are copied to: they lie in memory from its
                                    copies->host_alloc. Borrowed, outlives the feeder. NULL: in
                                    any */
    struct bad_record_policy
        care; /* with damaged records, of sources of single records; else an error */
    struct trace
        *trace; /* every batch is a span there, from the beginning of its reading until it is ready,
                   of layer layer_index; borrowed, outlives the feeder; NULL: none */
};

struct feeder;

/* Takes ownership of source and of what transform holds (also when it fails). `transform` applies
 * to field 0; NULL: none, floats as they are. Starts the first thread. */
int feeder_create(struct source *source, const struct transform *transform,
                  const struct feeder_options *o, struct feeder **out);

/* The next batch: fields[f] is batch x field shape floats, borrowed until the next call. Waits if
 * none is ready. A read error of the thread is reported here, after the batches before it, and
 * again at every call until a seek. */
int feeder_next(struct feeder *feeder, const float *const **fields);

/* With options.bytes: field 0 of the batch that was delivered last; fields[0] means nothing. */
void feeder_bytes(const struct feeder *feeder, const uint8_t **pixels,
                  const struct engine_window **windows);

/* Appends the record and the file of a sample (0 .. batch-1) of the batch delivered last. */
void feeder_tell(const struct feeder *feeder, uint64_t sample, struct strbuf *out);

/* Makes pass 0 start at `first_sample` of the global order (test nets start every test at the same
 * sample). The borrowed batch stays valid until the next feeder_next. */
int feeder_seek(struct feeder *feeder, uint64_t first_sample);

/* How often and how long (seconds) feeder_next had to wait since creation; the first batch after
 * creation and after every jump is not counted. Asked by the thread that calls feeder_next. */
void feeder_waits(const struct feeder *feeder, uint64_t *times, double *seconds);

/* How many records were read so far, and the source's path. Any thread. */
uint64_t feeder_records(const struct feeder *feeder, const char **path);

/* How many of them were turned upright, as their EXIF data say. Any thread. */
uint64_t feeder_turned(const struct feeder *feeder);

/* Appends a line for each damaged record that was left out. */
void feeder_damage(struct feeder *feeder, struct strbuf *out);

/* The number of reading threads now. For the thread that calls feeder_next. */
int feeder_threads(const struct feeder *feeder);

/* Ends the threads and frees the feeder and its source; NULL is allowed. */
void feeder_destroy(struct feeder *feeder);

#endif
