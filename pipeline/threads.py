"""Environment variables that say how many threads a numeric library starts."""

# More threads than cores slow workers down, and a threaded BLAS may round differently.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
