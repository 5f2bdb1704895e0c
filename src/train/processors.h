/* --reproducible: on which processors the workers compute. Bits are promised on one kind of
 * processor and one version of oneDNN. */
#ifndef POSEIDON_TRAIN_PROCESSORS_H
#define POSEIDON_TRAIN_PROCESSORS_H

#include "train/job.h"

/* Rank 0: sets job->processors, and warns where the workers' processors are not of one kind, with
 * their hosts. Nothing without the option. Collective; fails on all ranks together. */
int processors_find_all(struct job *job);

#endif
