/* TensorBoard's event files: records of a length, data, and a masked CRC-32C of each; the data is
 * TensorFlow's message Event, of which scalars need few fields. */
#ifndef POSEIDON_REPORT_EVENT_FILE_H
#define POSEIDON_REPORT_EVENT_FILE_H

#include <stdint.h>

struct event_file;

/* A new file in `folder`, which is made where it is missing (its parent is not). Readers forget
 * what other files there say of steps from `first` on. */
int event_file_open(const char *folder, int64_t first, struct event_file **out);

/* Appends one value; a tag of more than 200 bytes is cut. Fails with a message; the file may then
 * end in half a record, which readers ignore. */
int event_file_put(struct event_file *file, int64_t step, const char *tag, double value);

/* NULL is fine. */
void event_file_close(struct event_file *file);

#endif
