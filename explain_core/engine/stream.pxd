cpdef enum:  # families of models in arrays
    LINEAR
    TREES
    MIXTURE
    ENSEMBLE
    SHALLOW
