/* A file as a whole, gzip or plain. */
#ifndef POSEIDON_CONVERT_GZFILE_H
#define POSEIDON_CONVERT_GZFILE_H

#include "util/strbuf.h"

/* Appends the unpacked content. Fails on damaged or cut gzip data, naming the file and the offset
 * in the unpacked data. */
int gzfile_read(const char *path, struct strbuf *out);

#endif
