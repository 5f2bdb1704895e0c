/* Facts of a build: printed by --version, named in summaries, and compared by the ranks of a run
 * (commands/handshake.h). */
#ifndef POSEIDON_REPORT_BUILD_INFO_H
#define POSEIDON_REPORT_BUILD_INFO_H

struct build_info {
    const char *version;
    const char *commit;   /* commit of the sources, or a text that says that there is none */
    const char *sources;  /* digest of the sources, hexadecimal; equal for equal programs */
    const char *compiler; /* first line of the compiler's version text */
    const char *flags;
};

extern const struct build_info build_info;

#endif
