/* The feeder: threads that keep transformed batches ready ahead of training. It starts with one
 * thread. For sources of single records (files to be decoded) it adds a thread each time training
 * had to wait.
 *
 * Global order: the run is an endless sequence of samples; sample g is record g mod N of the source
 * (or of its epoch's shuffled order). Ranks take turns, `row` batches each. Pass p of this rank
 * covers `batch` samples from first_sample + p/row*turn + before + p%row*batch on. Augmentation is
 * drawn by the global sample index. An iteration therefore sees the same samples, cropped and
 * mirrored alike, at any number of ranks. */
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
    int row;               /* consecutive batches per turn of a rank; 0 means 1 */
    uint64_t before, turn; /* samples per turn of all lower ranks; of all ranks. turn 0: every rank
                              has equally many */
    uint64_t first_sample; /* first sample of pass 0 of rank 0 */
    uint64_t seed;
    int layer_index;
    int order_layer; /* layer index from which order, crop, mirror and colours are drawn */
    enum shuffle shuffle;
    int depth;       /* batches in the ring, including the borrowed one; >= 2 */
    int max_threads; /* for sources of single records; 0: the cores of this process, at least 2 */
    bool bytes; /* deliver field 0 as cropped bytes (feeder_bytes); the engine does the rest. Needs
                   a transform and a source whose field 0 is bytes */
    const struct device
        *device; /* borrowed, outlives the feeder: device that batches are copied to. Its
                    copies->host_alloc allocates them. NULL: ordinary memory */
    struct bad_record_policy care; /* treatment of damaged records, for sources of single records */
    struct trace
        *trace; /* receives a span of layer layer_index for each batch, from the start of reading
                   until the batch is ready; borrowed, outlives the feeder; NULL: none */
};

struct feeder;

/* Creates a feeder and starts its first thread. Takes ownership of the source and the transform's
 * memory, also on failure. `transform` applies to field 0; NULL: field 0 is only made float. */
int feeder_create(struct source *source, const struct transform *transform,
                  const struct feeder_options *o, struct feeder **out);

/* Gets the next batch: fields[f] is batch x field shape floats, borrowed until the next call. Waits
 * until a batch is ready. Reports a read error after the batches before it, and again at every call
 * until a seek. */
int feeder_next(struct feeder *feeder, const float *const **fields);

/* With options.bytes: returns field 0 of the batch delivered last, in place of fields[0]. */
void feeder_bytes(const struct feeder *feeder, const uint8_t **pixels,
                  const struct engine_window **windows);

/* Appends the record number and the path of a sample (0 .. batch-1) of the batch delivered last. */
void feeder_tell(const struct feeder *feeder, uint64_t sample, struct strbuf *out);

/* Restarts the feeder: pass 0 begins at `first_sample` of the global order. Test nets start every
 * test at the same sample. The borrowed batch stays valid until the next feeder_next. */
int feeder_seek(struct feeder *feeder, uint64_t first_sample);

/* Returns how often and how long (seconds) feeder_next has waited since creation, not counting the
 * first batch after creation and after every seek. For the thread that calls feeder_next. */
void feeder_waits(const struct feeder *feeder, uint64_t *times, double *seconds);

/* Returns the number of records read so far, and the source's path. Any thread. */
uint64_t feeder_records(const struct feeder *feeder, const char **path);

/* Returns the current number of reading threads. For the thread that calls feeder_next. */
int feeder_threads(const struct feeder *feeder);

/* Ends the threads and frees the feeder and its source; NULL is allowed. */
void feeder_destroy(struct feeder *feeder);

#endif
