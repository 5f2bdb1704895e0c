/* LZF, the compression of h5py that HDF5 itself lacks. */
#ifndef POSEIDON_SPEC_H5_LZF_H
#define POSEIDON_SPEC_H5_LZF_H

/* Makes HDF5 read data sets that are compressed by LZF (filter 32000). Call once. */
void h5_lzf_register(void);

#endif
