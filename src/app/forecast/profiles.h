/* Profiles by device: the files of models/profiles. */
#ifndef POSEIDON_FORECAST_PROFILES_H
#define POSEIDON_FORECAST_PROFILES_H

#define PROFILES_DEVICES "k20, titanx, p100, p40, v100, a100, h100, h200, cpu"

/* Finds a profile. text: a device's name, or a file. A device's profile of the model's net is
 * searched in the folder profiles beside the model's, then among the program's own models. The name
 * of the model's folder is the net's. The caller frees *file. A *batch of 0 becomes the batch of a
 * device's profile. */
int profiles_find(const char *text, const char *model, char **file, int *batch);

/* Fails if the profile was timed with another batch: times of its passes do not fit this batch.
 * Passes files that name no batch. */
int profiles_check_batch(const char *file, int batch);

#endif
