/* Profiles by the name of a device: the files of models/profiles. */
#ifndef POSEIDON_FORECAST_PROFILES_H
#define POSEIDON_FORECAST_PROFILES_H

#define PROFILES_DEVICES "k20, titanx, p100, p40, v100, a100, h100, h200, cpu"

/* text: a device's name, or a file. The device's profile of a net is looked for in the folder
 * profiles beside the model's, then where the program's own models are; the net is named by its
 * model's folder. *file is the caller's to free. *batch, where it is 0, becomes what a device's
 * profile was timed with. Fails with what there is of that device. */
int profiles_find(const char *text, const char *model, char **file, int *batch);

/* Fails where that file has the times of another batch, if it tells: they are not those of passes
 * of this one. */
int profiles_check_batch(const char *file, int batch);

#endif
