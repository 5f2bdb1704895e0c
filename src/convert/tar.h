/* Members of a tar archive (ustar, GNU, pax; gzip or plain), front to back. */
#ifndef POSEIDON_INPUT_TAR_H
#define POSEIDON_INPUT_TAR_H

#include "convert/gzstream.h"

#include <stdbool.h>

struct tar_member {
    char name[257]; /* prefix/name of the header */
    bool is_file;   /* a regular file; others have no contents of interest */
    uint64_t size;  /* of its contents, in bytes */
};

/* Reads the next header. *found is false at the end of the archive, which is then read to the end
 * of the file. The caller reads exactly member.size bytes from the stream, then calls tar_finish.
 * Errors: wrong checksum, damaged numbers, an archive that ends without its end mark. */
int tar_next(struct gzstream *s, struct tar_member *member, bool *found);

/* Skips the padding behind a member whose contents were read. */
int tar_finish(struct gzstream *s, const struct tar_member *member);

#endif
