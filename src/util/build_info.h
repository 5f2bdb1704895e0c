/* What a build was made of: what --version prints, what a summary names, and by which the ranks of
 * a run know each other (util/handshake.h). */
#ifndef POSEIDON_UTIL_BUILD_INFO_H
#define POSEIDON_UTIL_BUILD_INFO_H

struct build_info {
    const char *version;  /* of the release */
    const char *commit;   /* of the repository it was built in; else that there was none */
    const char *sources;  /* digest of the program's sources, hexadecimal: the same program */
    const char *compiler; /* the first line it says of itself */
    const char *flags;
};

extern const struct build_info build_info;

#endif
